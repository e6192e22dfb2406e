/*
 * sha256.h
 *		A contract for SHA-256: reads its input, and gives any 32 bytes.
 */
#ifndef PROOF_SHA256_H
#define PROOF_SHA256_H

#include "core/atp.h"

extern void proof_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32]);

#endif							/* PROOF_SHA256_H */
