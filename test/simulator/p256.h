/*
 * p256.h
 *		Signatures with P-256 that are the same always, and have low S; public keys.
 */
#ifndef SIM_P256_H
#define SIM_P256_H

#include "util.h"

extern void p256_sign(const uint8_t secret[32], const uint8_t digest[DIGEST_LEN], uint8_t sig[64]);
extern void p256_public(const uint8_t secret[32], uint8_t out[33]);	/* compressed */

#endif							/* SIM_P256_H */
