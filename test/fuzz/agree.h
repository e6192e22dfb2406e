/*
 * agree.h
 *		Hash functions for the fuzzers, which cannot find blocks with a right SHA-256.
 */
#ifndef AGREE_H
#define AGREE_H

#include "core/atp.h"
#include "sha.h"

/*
 * The digest that a CAR file claims for a block: the last 32 bytes of the CID, which stands right before the
 * block.  ctx is the file (AtpBytes).  Data outside the file, or without a CID in front, is hashed: the keys
 * of trees.
 */
static inline void
agree_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	const AtpBytes *file = ctx;

	if (data >= file->ptr + 36 && data <= file->ptr + file->len &&
		data[-36] == 1 && data[-34] == 0x12 && data[-33] == 32)
		memcpy(out, data - 32, 32);
	else
		sha256(NULL, data, len, out);
}

#endif							/* AGREE_H */
