/*
 * sha256.c
 *		See sha256.h.  Two calls with the same bytes may give different hashes here: a law that holds anyway
 *		holds for SHA-256.
 */
#include "proof.h"
#include "sha256.h"

void
proof_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	LAW(len == 0 || __CPROVER_r_ok(data, len));
	for (int i = 0; i < 32; i++)
		out[i] = any_byte();
}
