/*
 * sha.h
 *		SHA-256 for the tests.
 */
#ifndef SHA_H
#define SHA_H

#include <openssl/sha.h>

#include "core/atp.h"

static inline void
sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	SHA256(data, len, out);
}

#endif							/* SHA_H */
