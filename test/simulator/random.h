/*
 * random.h
 *		Random numbers that depend on the seed alone: splitmix64.
 */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdint.h>
#include <string.h>

typedef struct Random
{
	uint64_t	state;
} Random;

static inline uint64_t
random_next(Random *r)
{
	uint64_t	z = r->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* 0 to n - 1 */
static inline uint64_t
random_below(Random *r, uint64_t n)
{
	return (uint64_t) ((unsigned __int128) random_next(r) * n >> 64);
}

/* 0 to n - 1, small numbers more often: a tenth of them gets a third of the hits. */
static inline uint64_t
random_skewed(Random *r, uint64_t n)
{
	double		u = (double) (random_next(r) >> 11) * 0x1p-53;

	return (uint64_t) (u * u * (double) n);
}

static inline void
random_bytes(Random *r, uint8_t *out, size_t n)
{
	for (size_t i = 0; i < n; i += 8)
	{
		uint64_t	word = random_next(r);

		memcpy(out + i, &word, n - i < 8 ? n - i : 8);
	}
}

#endif							/* SIM_RANDOM_H */
