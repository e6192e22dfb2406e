/*
 * utf8.h
 *		Is this UTF-8?  Rule B-08: no overlong form, no surrogate, nothing above
 *		U+10FFFF.  That is also what a database in UTF8 accepts, U+0000 apart,
 *		which is looked for on the way (B-30).
 */
#ifndef ATP_UTF8_H
#define ATP_UTF8_H

#include "core/atp.h"

/*
 * The number of leading bytes that are whole, valid characters: n if all are, and
 * then *has_nul says whether U+0000 is among them.
 */
extern size_t atp_utf8_valid(const uint8_t *s, size_t n, bool *has_nul);

/*
 * The top bits of the bytes of a word that are 0 or not ASCII.  After one that
 * is 0 a byte of 1 may seem to be, too.
 */
static inline uint64_t
atp_utf8_unplain(uint64_t word)
{
	return (word | (word - UINT64_C(0x0101010101010101))) & UINT64_C(0x8080808080808080);
}

/* Keys and words of at most 16 bytes, all ASCII but 0: two loads that may overlap. */
static inline bool
atp_is_short_plain(const uint8_t *s, size_t n)
{
	uint64_t	first;
	uint64_t	last;

	if (n > 16)
		return false;
	if (n >= 8)
	{
		memcpy(&first, s, 8);
		memcpy(&last, s + n - 8, 8);
	}
	else if (n >= 4)
	{
		uint32_t	half;

		memcpy(&half, s, 4);
		first = half | (uint64_t) half << 32;
		memcpy(&half, s + n - 4, 4);
		last = half | (uint64_t) half << 32;
	}
	else if (n > 0)
	{
		first = UINT64_C(0x0101010101010100) | s[0];
		last = UINT64_C(0x0101010101010000) | (uint64_t) s[n / 2] << 8 | s[n - 1];
	}
	else
		return true;
	return (atp_utf8_unplain(first) | atp_utf8_unplain(last)) == 0;
}

#endif							/* ATP_UTF8_H */
