/*
 * repo_paths.h
 *		Which operations of a revision were taken, where they come one by one: hashes of
 *		their paths, as the column rev_paths of the table repo has them.
 */
#ifndef ATP_REPO_PATHS_H
#define ATP_REPO_PATHS_H

#include "postgres.h"

extern bool atp_paths_have(const bytea *paths, uint64 path);

/* With one more; paths NULL: no others. */
extern bytea *atp_paths_add(const bytea *paths, uint64 path);

/* Of none. */
extern bytea *atp_paths_none(void);

/*
 * Of none, too, with a mark that atp_paths_add() keeps: all records of the repository follow a #sync that
 * does not say which tree they make (a Jetstream's own).
 */
extern bytea *atp_paths_anew(void);
extern bool atp_paths_are_anew(const bytea *paths);

#endif							/* ATP_REPO_PATHS_H */
