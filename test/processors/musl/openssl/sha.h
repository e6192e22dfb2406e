/*
 * sha.h
 *		SHA-256 in place of OpenSSL's, for core's tests with musl: Debian has no OpenSSL for musl.
 */
#ifndef PROCESSORS_SHA_H
#define PROCESSORS_SHA_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define SHA_TURN(x, n)	((x) >> (n) | (x) << (32 - (n)))

/* The first 32 bits of the fraction of a root of a prime number (FIPS 180-4). */
static inline uint32_t
sha_fraction(long double root)
{
	return (uint32_t) ((root - floorl(root)) * 4294967296.0L);
}

static inline void
sha_block(uint32_t h[8], const uint32_t k[64], const uint8_t *p)
{
	uint32_t	w[64];
	uint32_t	s[8];

	for (int i = 0; i < 64; i++)
		w[i] = i < 16 ? (uint32_t) p[4 * i] << 24 | (uint32_t) p[4 * i + 1] << 16 | (uint32_t) p[4 * i + 2] << 8 | p[4 * i + 3]
			: w[i - 16] + (SHA_TURN(w[i - 15], 7) ^ SHA_TURN(w[i - 15], 18) ^ w[i - 15] >> 3) +
			w[i - 7] + (SHA_TURN(w[i - 2], 17) ^ SHA_TURN(w[i - 2], 19) ^ w[i - 2] >> 10);
	memcpy(s, h, sizeof(s));
	for (int i = 0; i < 64; i++)
	{
		uint32_t	t = s[7] + (SHA_TURN(s[4], 6) ^ SHA_TURN(s[4], 11) ^ SHA_TURN(s[4], 25)) +
			((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
		uint32_t	u = (SHA_TURN(s[0], 2) ^ SHA_TURN(s[0], 13) ^ SHA_TURN(s[0], 22)) +
			((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));

		memmove(s + 1, s, 7 * sizeof(*s));
		s[4] += t;
		s[0] = t + u;
	}
	for (int i = 0; i < 8; i++)
		h[i] += s[i];
}

static inline unsigned char *
SHA256(const unsigned char *data, size_t len, unsigned char *out)
{
	static uint32_t k[64],
				first[8];
	uint32_t	h[8];
	uint8_t		end[128] = {0};
	size_t		rest = len % 64;
	size_t		padded = rest < 56 ? 64 : 128;

	for (int n = 0, p = 2; n < 64 && k[63] == 0; p++)
	{
		int			d = 2;

		while (d < p && p % d != 0)
			d++;
		if (d < p)
			continue;
		if (n < 8)
			first[n] = sha_fraction(sqrtl(p));
		k[n++] = sha_fraction(cbrtl(p));
	}
	memcpy(h, first, sizeof(h));
	for (size_t i = 0; i + 64 <= len; i += 64)
		sha_block(h, k, data + i);
	if (rest > 0)
		memcpy(end, data + len - rest, rest);
	end[rest] = 0x80;
	for (int i = 0; i < 8; i++)
		end[padded - 1 - i] = (uint8_t) ((uint64_t) len * 8 >> (8 * i));
	for (size_t i = 0; i < padded; i += 64)
		sha_block(h, k, end + i);
	for (int i = 0; i < 32; i++)
		out[i] = (uint8_t) (h[i / 4] >> (24 - 8 * (i % 4)));
	return out;
}

#endif							/* PROCESSORS_SHA_H */
