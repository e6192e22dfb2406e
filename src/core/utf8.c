/*
 * utf8.c
 *		Is this UTF-8?
 */
#include "utf8.h"

/* Up to four bytes, the first one lowest; what is not there is 0, which no character goes on with. */
static inline uint32_t
four_bytes(const uint8_t *s, size_t n)
{
	uint32_t	word = 0;

	if (n >= 4)
		return s[0] | (uint32_t) s[1] << 8 | (uint32_t) s[2] << 16 | (uint32_t) s[3] << 24;
	for (size_t i = 0; i < n; i++)
		word |= (uint32_t) s[i] << 8 * i;
	return word;
}

/* Length of the valid multi-byte character that these bytes begin with, or 0. */
static inline size_t
multibyte(uint32_t word)
{
	if ((word & 0xc0e0) == 0x80c0)
		return (word & 0x1e) != 0 ? 2 : 0;	/* or overlong */
	if ((word & 0xc0c0f0) == 0x8080e0)
	{
		uint32_t	bits = word & 0x200f;	/* 15 to 11 */

		return bits != 0 /* overlong */ && bits != 0x200d /* surrogate */ ? 3 : 0;
	}
	if ((word & 0xc0c0c0f8) == 0x808080f0)
	{
		uint32_t	plane = (word & 7) << 2 | (word >> 12 & 3);

		return plane >= 1 /* or overlong */ && plane <= 16 ? 4 : 0;
	}
	return 0;
}

/* How many bytes of a word, in memory's order, are before the first marked one. */
static inline unsigned
bytes_before(uint64_t top_bits)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return (unsigned) __builtin_clzll(top_bits) / 8;
#else
	return (unsigned) __builtin_ctzll(top_bits) / 8;
#endif
}

size_t
atp_utf8_valid(const uint8_t *s, size_t n, bool *has_nul)
{
	size_t		i = 0;

	for (;;)
	{
		/* nearly all text is ASCII: eight bytes at a time */
		while (n - i >= 8)
		{
			uint64_t	word;

			memcpy(&word, s + i, 8);
			word = atp_utf8_unplain(word);
			if (word != 0)
			{
				i += bytes_before(word);
				break;
			}
			i += 8;
		}
		/* what is left of them lies in the last eight */
		if (n - i < 8 && n >= 8)
		{
			uint64_t	word;

			memcpy(&word, s + n - 8, 8);
			if (atp_utf8_unplain(word) == 0)
				return n;
		}
		for (; i < n && s[i] < 0x80; i++)
		{
			if (s[i] == 0)
				*has_nul = true;
		}
		if (i == n)
			return n;
		do
		{
			size_t		len = multibyte(four_bytes(s + i, n - i));

			if (len == 0)
				return i;
			i += len;
		} while (i < n && s[i] >= 0x80);
	}
}
