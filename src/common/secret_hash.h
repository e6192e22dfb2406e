/*
 * secret_hash.h
 *		A hash for tables in memory whose keys strangers choose.
 *
 * With a hash that everybody can compute, a sender chooses keys that meet in one slot, and each search looks
 * at all of them.  This one depends on a number that each process draws for itself: never store it,
 * nor compare it with another process's.
 */
#ifndef ATP_SECRET_HASH_H
#define ATP_SECRET_HASH_H

#include "postgres.h"

/* Of these bytes; before is the hash of what the key has before them, or 0. */
extern uint64 atp_secret_hash(const void *bytes, Size n, uint64 before);

#endif							/* ATP_SECRET_HASH_H */
