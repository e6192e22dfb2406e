/*
 * base64.c
 *		base64 and base64url: see base64.h.
 */
#include "core/syntax/base64.h"

/* The last two digits of each alphabet. */
static const char last_of_base64[2] = {'+', '/'};
static const char last_of_base64url[2] = {'-', '_'};

/* Value of a digit, or -1. */
static inline int
digit_value(char c, const char last[2])
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == last[0] ? 62 : c == last[1] ? 63 : -1;
}

static bool
decode_digits(const char *restrict s, size_t n, const char last[2], uint8_t *restrict out, size_t *on, bool *exact)
{
	uint32_t	bits = 0;
	unsigned	nbits = 0;

	*on = 0;
	for (size_t i = 0; i < n; i++)
	{
		int			value = digit_value(s[i], last);

		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t) value;
		nbits += 6;
		if (nbits >= 8)
		{
			nbits -= 8;
			if (out != NULL)
				out[*on] = (uint8_t) (bits >> nbits);
			(*on)++;
		}
	}
	*exact = (bits & ((1u << nbits) - 1)) == 0;
	return nbits < 6;
}

bool
atp_base64_decode(const char *restrict s, size_t n, uint8_t *restrict out, size_t *on, bool *exact)
{
	if (n % 4 == 0 && n > 0 && s[n - 1] == '=')
		n -= s[n - 2] == '=' ? 2 : 1;
	return decode_digits(s, n, last_of_base64, out, on, exact);
}

bool
atp_base64url_decode(const char *restrict s, size_t n, uint8_t *restrict out, size_t *on, bool *exact)
{
	return decode_digits(s, n, last_of_base64url, out, on, exact);
}

size_t
atp_base64url_encode(const uint8_t *restrict bytes, size_t n, char *restrict out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint32_t	bits = 0;
	unsigned	nbits = 0;
	size_t		on = 0;

	for (size_t i = 0; i < n; i++)
	{
		bits = bits << 8 | bytes[i];
		for (nbits += 8; nbits >= 6;)
		{
			nbits -= 6;
			out[on++] = digits[bits >> nbits & 63];
		}
	}
	if (nbits > 0)
		out[on++] = digits[bits << (6 - nbits) & 63];
	return on;
}
