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

#endif							/* ATP_REPO_PATHS_H */
