/*
 * utf8.h
 *		Is this UTF-8?  Rule B-08: no overlong form, no surrogate, nothing above
 *		U+10FFFF.  That is also what a database in UTF8 accepts, U+0000 apart.
 */
#ifndef ATP_UTF8_H
#define ATP_UTF8_H

#include "atp.h"

#define ATP_UTF8_HIGH_BITS	UINT64_C(0x8080808080808080)

/* The number of leading bytes that are whole, valid characters: n if all are. */
extern size_t atp_utf8_valid(const uint8_t *s, size_t n);

/* Keys and short words, 4 to 8 bytes: two loads that may overlap. */
static inline bool
atp_is_short_ascii(const uint8_t *s, size_t n)
{
	uint32_t	first;
	uint32_t	last;

	if (n < 4 || n > 8)
		return false;
	memcpy(&first, s, 4);
	memcpy(&last, s + n - 4, 4);
	return ((first | last) & (uint32_t) ATP_UTF8_HIGH_BITS) == 0;
}

#endif							/* ATP_UTF8_H */
