/*
 * utf8.h
 *		Validates UTF-8 by rule B-08: no overlong form, no surrogate, nothing above U+10FFFF.  A database in
 *		UTF8 accepts the same text, except U+0000, which is detected in the same pass (B-30).
 */
#ifndef ATP_UTF8_H
#define ATP_UTF8_H

#include "core/atp.h"

/*
 * The number of leading bytes that are complete, valid characters.  If this is n, *has_nul says whether
 * U+0000 is among them.
 */
extern size_t atp_utf8_valid(const uint8_t *s, size_t n, bool *has_nul);

/*
 * The top bit of each byte of the word that is 0 or not ASCII.  After a byte of 0, a byte of 1 may be marked
 * by mistake.
 */
static inline uint64_t
atp_utf8_unplain(uint64_t word)
{
	return (word | (word - UINT64_C(0x0101010101010101))) & UINT64_C(0x8080808080808080);
}

/*
 * Is a text of at most 16 bytes plain: ASCII without U+0000?  Uses two loads, which may overlap.  False may
 * also mean that the text is longer.
 */
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
