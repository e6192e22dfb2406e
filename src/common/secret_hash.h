/*
 * secret_hash.h
 *		A hash for in-memory tables with keys chosen by strangers.
 *
 * If everybody could compute the hash, a sender could choose keys which all fall into the same slot,
 * and each search would compare with all of these keys.  So this hash depends on a random number drawn
 * once in each process.  Never store such a hash, nor compare hashes of two processes.
 */
#ifndef ATP_SECRET_HASH_H
#define ATP_SECRET_HASH_H

#include "postgres.h"

/*
 * Hash of n bytes.  For a key of several parts, before is the hash of the parts already hashed; otherwise 0.
 */
extern uint64 atp_secret_hash(const void *bytes, Size n, uint64 before);

#endif							/* ATP_SECRET_HASH_H */
