/*
 * sha.h
 *		SHA-256 for the tests: like src/common/sha256.c, which needs PostgreSQL's headers.  SHA256() of OpenSSL 3 fetches the
 *		algorithm and allocates memory at each call, which under AddressSanitizer takes longer than what the tests hash.
 */
#ifndef SHA_H
#define SHA_H

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "core/atp.h"

static inline void
sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
#ifdef PROCESSORS_SHA_H
	/* with musl (test/processors/musl) */
	SHA256(data, len, out);
#else
	SHA256_CTX	state;

	SHA256_Init(&state);
	SHA256_Update(&state, data, len);
	SHA256_Final(out, &state);
#endif
}

#endif							/* SHA_H */
