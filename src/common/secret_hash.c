/*
 * secret_hash.c
 *		A hash for in-memory tables with keys chosen by strangers: see secret_hash.h.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "common/secret_hash.h"

uint64
atp_secret_hash(const void *bytes, Size n, uint64 before)
{
	static uint64 secret = 0;

	if (secret == 0 && !pg_strong_random(&secret, sizeof(secret)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random numbers")));
	return hash_bytes_extended(bytes, (int) n, secret ^ before);
}
