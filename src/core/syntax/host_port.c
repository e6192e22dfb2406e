/*
 * host_port.c
 *		A server's name, with or without a port: see host_port.h.
 */
#include "core/syntax/chars.h"
#include "core/syntax/host_port.h"

size_t
atp_host_spell(const char *s, size_t n, char *out)
{
	if (n > 1 && s[n - 1] == '.')
		n--;
	for (size_t i = 0; i < n; i++)
		out[i] = atp_char_lower(s[i]);
	return n;
}

bool
atp_host_port_parse(const char *s, size_t n, char *out, size_t *len, uint16_t *port)
{
	const char *end = s + n;
	const char *colon = memchr(s, ':', n);
	unsigned	labels;
	size_t		last;
	size_t		at;
	uint32_t	number = 0;

	if (colon != NULL)
	{
		if (end - colon < 2 || end - colon > 6 || colon[1] == '0')
			return false;
		for (const char *p = colon + 1; p < end; p++)
		{
			if (!atp_char_is(*p, ATP_C_DIGIT))
				return false;
			number = number * 10 + (uint32_t) (*p - '0');
		}
		if (number > UINT16_MAX)
			return false;
		*port = (uint16_t) number;
		end = colon;
	}
	if (end - s > 1 && end[-1] == '.')
		end--;
	/* A name whose last label begins with a digit is refused: resolvers read some such names as addresses. */
	if (end == s || end - s > ATP_HOST_MAX ||
		atp_labels_check(s, end - s, &labels, &last, &at) != ATP_OK || atp_char_is(s[last], ATP_C_DIGIT))
		return false;
	*len = atp_host_spell(s, end - s, out);
	return true;
}
