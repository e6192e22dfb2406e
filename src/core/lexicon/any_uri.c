/*
 * any_uri.c
 *		URIs of any scheme: see any_uri.h.
 */
#include "core/lexicon/any_uri.h"
#include "core/syntax/chars.h"

/*
 * Skips the authority after "//"; the host may be an IPv6 address in brackets.  Returns the end of the authority, or
 * the place of the fault: a bracket without its partner, or a forbidden character in the user information.
 */
static const char *
skip_authority(const char *p, const char *end)
{
	const char *host = p;
	const char *q;

	for (q = p; q < end && !atp_char_is(*q, ATP_C_DELIMITER); q++)
		if (*q == '@')
			host = q + 1;
	if (host < end && *host == '[')
	{
		q = atp_scan_encoded(p, host, ATP_C_PCHAR);
		if (q != host)
			return q;
		for (q = host + 1; q < end && (atp_char_is(*q, ATP_C_HEX) || *q == ':' || *q == '.' || *q == 'v'); q++)
			;
		if (q == end || *q != ']')
			return host;
		p = q + 1;
	}
	return atp_scan_encoded(p, end, ATP_C_PCHAR);
}

AtpErr
atp_any_uri_check(const char *s, size_t n, size_t *at)
{
	const char *end = s + n;
	const char *p = s;

	if (n == 0)
		return atp_fail(ATP_E_EMPTY, 0, at);
	if (n > ATP_ANY_URI_MAX)
		return atp_fail(ATP_E_TOO_LONG, ATP_ANY_URI_MAX, at);
	if (!atp_char_is(*p, ATP_C_LETTER))
		return atp_fail(ATP_E_ANY_URI_SCHEME, 0, at);
	while (p < end && (atp_char_is(*p, ATP_C_LETTER | ATP_C_DIGIT) || *p == '+' || *p == '-' || *p == '.'))
		p++;
	if (p == end || *p != ':')
		return atp_fail(ATP_E_ANY_URI_SCHEME, p - s, at);
	p++;
	if (p == end)
		return atp_fail(ATP_E_ANY_URI_EMPTY, n, at);
	if (end - p >= 2 && p[0] == '/' && p[1] == '/')
		p = skip_authority(p + 2, end);
	p = atp_scan_encoded(p, end, ATP_C_QUERY);
	if (p < end && *p == '#')
		p = atp_scan_encoded(p + 1, end, ATP_C_QUERY);
	if (p < end)
		return atp_fail(*p == '%' ? ATP_E_PERCENT : ATP_E_URI_CHAR, p - s, at);
	return ATP_OK;
}
