/*
 * sha256.h
 *		SHA-256 for src/core, from OpenSSL.
 */
#ifndef ATP_SHA256_H
#define ATP_SHA256_H

#include "core/atp.h"

/* An AtpSha256Fn; ctx is not used. */
extern void atp_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32]);

/* SHA-256 of bytes that come in pieces. */
typedef struct AtpSha256
{
	uint64_t	state[16];		/* OpenSSL's */
} AtpSha256;

extern void atp_sha256_begin(AtpSha256 *sha256);
extern void atp_sha256_add(AtpSha256 *sha256, const uint8_t *data, size_t len);
extern void atp_sha256_end(AtpSha256 *sha256, uint8_t out[32]);

#endif							/* ATP_SHA256_H */
