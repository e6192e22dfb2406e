/*
 * agree.h
 *		Hash functions for the fuzzers, which cannot find blocks whose SHA-256
 *		is right.
 */
#ifndef AGREE_H
#define AGREE_H

#include <openssl/sha.h>

#include "core/atp.h"

/*
 * The digest that the CAR file claims: it is the last 32 bytes of the CID, which
 * stands right before the block.  For blocks in a CAR file only.
 */
static inline void
agree_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	memcpy(out, data - 32, 32);
}

static inline void
real_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	SHA256(data, len, out);
}

#endif							/* AGREE_H */
