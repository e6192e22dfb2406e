/*
 * tid.c
 *		Timestamp identifiers: 13 characters of sortable base32.
 */
#include "core/syntax/base32.h"
#include "core/syntax/chars.h"
#include "core/syntax/tid.h"

/*
 * T-01, T-02: 13 characters, the first of them at most 'j'.  The published
 * limits (T-05) and examples with their times (T-06) are valid by this, the
 * published invalid ones (T-07) are not.  T-11: no time is refused, also none
 * of the future, because the time is only what the TID's author claims.
 */
AtpErr
atp_tid_parse(const char *s, size_t n, uint64_t *tid, size_t *at)
{
	uint64_t	bits = 0;
	unsigned	seen = 0;

	if (n != ATP_TID_TEXT)
		return atp_fail(ATP_E_TID_LENGTH, n < ATP_TID_TEXT ? n : ATP_TID_TEXT, at);
	for (int i = 0; i < ATP_TID_TEXT; i++)
	{
		uint8_t		v = atp_base32_value[(uint8_t) s[i]];

		seen |= v;
		bits = bits << 5 | (v & 31);
	}
	if (seen > 31)
	{
		size_t		i = 0;

		while (atp_base32_value[(uint8_t) s[i]] <= 31)
			i++;
		return atp_fail(ATP_E_TID_CHAR, i, at);
	}
	/* 13 characters have 65 bits: the first bit must be 0. */
	if (atp_base32_value[(uint8_t) s[0]] > 15)
		return atp_fail(ATP_E_TID_FIRST, 0, at);
	*tid = bits;
	return ATP_OK;
}

/* T-04: the alphabet is in ASCII order, so that texts and numbers order alike. */
void
atp_tid_format(uint64_t tid, char out[ATP_TID_TEXT])
{
	for (int i = ATP_TID_TEXT - 1; i >= 0; i--)
	{
		out[i] = atp_base32_digit[tid & 31];
		tid >>= 5;
	}
}
