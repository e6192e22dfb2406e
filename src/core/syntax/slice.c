/*
 * slice.c
 *		Parser of slices of all repositories: see slice.h.
 */
#include "core/syntax/chars.h"
#include "core/syntax/slice.h"

/* Reads the number at *at, and moves *at behind it. */
static bool
read_number(const char *s, size_t n, size_t *at, uint32_t *number)
{
	size_t		first = *at;
	uint64_t	value = 0;

	while (*at < n && atp_char_is(s[*at], ATP_C_DIGIT) && value <= ATP_SLICES_MAX)
		value = value * 10 + (uint64_t) (s[(*at)++] - '0');
	*number = (uint32_t) value;
	return *at > first && value <= ATP_SLICES_MAX && (s[first] != '0' || *at == first + 1);
}

AtpErr
atp_slice_parse(const char *s, size_t n, AtpSlice *slice, size_t *at)
{
	*at = 0;
	if (!read_number(s, n, at, &slice->number) || *at == n || s[*at] != '/')
		return ATP_E_SLICE;
	(*at)++;
	if (!read_number(s, n, at, &slice->of) || *at < n)
		return ATP_E_SLICE;
	if (slice->of == 0)
		return atp_fail(ATP_E_SLICE_NONE, n - 1, at);
	return slice->number < slice->of ? ATP_OK : atp_fail(ATP_E_SLICE_NUMBER, 0, at);
}
