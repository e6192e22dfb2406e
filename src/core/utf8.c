/*
 * utf8.c
 *		Is this UTF-8?
 */
#include "utf8.h"

static inline bool
is_tail(uint8_t b)
{
	return (b & 0xc0) == 0x80;
}

/* Length of the valid multi-byte character at s, or 0. */
static inline size_t
multibyte(const uint8_t *s, size_t n)
{
	uint8_t		b = s[0];

	if (b >= 0xc2 && b <= 0xdf)
		return n >= 2 && is_tail(s[1]) ? 2 : 0;
	if (b >= 0xe0 && b <= 0xef)
	{
		if (n < 3 || !is_tail(s[1]) || !is_tail(s[2]))
			return 0;
		if ((b == 0xe0 && s[1] < 0xa0) ||	/* overlong */
			(b == 0xed && s[1] > 0x9f)) /* surrogate */
			return 0;
		return 3;
	}
	if (b >= 0xf0 && b <= 0xf4)
	{
		if (n < 4 || !is_tail(s[1]) || !is_tail(s[2]) || !is_tail(s[3]))
			return 0;
		if ((b == 0xf0 && s[1] < 0x90) ||	/* overlong */
			(b == 0xf4 && s[1] > 0x8f)) /* above U+10FFFF */
			return 0;
		return 4;
	}
	return 0;
}

/* How many of the eight bytes of a word, in memory's order, are ASCII before the first that is not. */
static inline unsigned
ascii_before(uint64_t high_bits)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return (unsigned) __builtin_clzll(high_bits) / 8;
#else
	return (unsigned) __builtin_ctzll(high_bits) / 8;
#endif
}

size_t
atp_utf8_valid(const uint8_t *s, size_t n)
{
	size_t		i = 0;

	for (;;)
	{
		/* nearly all text is ASCII: eight bytes at a time */
		while (n - i >= 8)
		{
			uint64_t	word;

			memcpy(&word, s + i, 8);
			word &= ATP_UTF8_HIGH_BITS;
			if (word != 0)
			{
				i += ascii_before(word);
				break;
			}
			i += 8;
		}
		while (i < n && s[i] < 0x80)
			i++;
		if (i == n)
			return n;
		do
		{
			size_t		len = multibyte(s + i, n - i);

			if (len == 0)
				return i;
			i += len;
		} while (i < n && s[i] >= 0x80);
	}
}
