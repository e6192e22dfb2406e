/*
 * segment_name.c
 *		Names of segments: see segment_name.h.
 */
#include "core/archive/segment_name.h"
#include "core/syntax/chars.h"

#define BASE		36
#define DIGITS_AT	4

static const char blank_name[] = "seg_0000000000.jss";

_Static_assert(sizeof(blank_name) - 1 == ATP_SEGMENT_NAME_LEN, "ten digits");

static bool
is_digit_at(size_t i)
{
	return i >= DIGITS_AT && i < DIGITS_AT + 10;
}

AtpErr
atp_segment_name_parse(AtpSpan name, uint64_t *index)
{
	uint64_t	value = 0;

	if (name.len != ATP_SEGMENT_NAME_LEN)
		return ATP_E_SEGMENT_NAME;
	for (size_t i = 0; i < ATP_SEGMENT_NAME_LEN; i++)
	{
		char		c = name.ptr[i];

		if (!is_digit_at(i) ? c != blank_name[i] : !atp_char_is(c, ATP_C_DIGIT | ATP_C_LOWER))
			return ATP_E_SEGMENT_NAME;
		if (is_digit_at(i))
			value = value * BASE + (atp_char_is(c, ATP_C_DIGIT) ? c - '0' : c - 'a' + 10);
	}
	*index = value;
	return ATP_OK;
}

void
atp_segment_name_format(uint64_t index, char out[ATP_SEGMENT_NAME_LEN])
{
	for (size_t end = ATP_SEGMENT_NAME_LEN; end > 0; end--)
	{
		out[end - 1] = blank_name[end - 1];
		if (is_digit_at(end - 1))
		{
			out[end - 1] = "0123456789abcdefghijklmnopqrstuvwxyz"[index % BASE];
			index /= BASE;
		}
	}
}
