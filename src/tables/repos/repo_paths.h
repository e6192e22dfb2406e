/*
 * repo_paths.h
 *		The column rev_paths of the table repo: which operations of the last revision were applied.
 *
 * Used where the operations of a commit arrive in separate events.  A value is an array of 8-byte hashes of
 * the operations' paths.  An account can make two paths with one hash (2^32 attempts), and so lose an operation of its own;
 * a longer hash would cost each row more than that is worth.
 */
#ifndef ATP_REPO_PATHS_H
#define ATP_REPO_PATHS_H

#include "postgres.h"

extern bool atp_paths_have(const bytea *paths, uint64 path);

/* A copy of paths (NULL: empty) with one path added. */
extern bytea *atp_paths_add(const bytea *paths, uint64 path);

/* An empty array: no operation was applied. */
extern bytea *atp_paths_none(void);

/*
 * No operation was applied, plus a mark that atp_paths_add() keeps: after a #sync of a Jetstream, which does not name
 * the root of the tree, all records of the repository follow.
 */
extern bytea *atp_paths_anew(void);
extern bool atp_paths_are_anew(const bytea *paths);

#endif							/* ATP_REPO_PATHS_H */
