/*
 * uri_normal.c
 *		The normal form of a URI: never longer, valid, and its own normal form; and a valid URI has one.
 *
 * proves: atp_uri_normalize atp_uri_normal_form
 * sources: core/syntax/uri_normalize.c core/syntax/uri_parse.c core/syntax/did.c core/syntax/handle.c
 *	core/syntax/nsid.c core/syntax/recordkey.c core/syntax/tid.c core/syntax/base32.c core/syntax/chars.c
 * short: -DN=4 --unwind 10 --unwindset strchr.0:5
 * long: -DN=7 --unwind 13
 * not proved: authorities that are DIDs (7 characters and more): only the long form has the shortest of them
 */
#include "core/syntax/uri.h"
#include "lib/proof.h"

int
main(void)
{
	char		s[5 + N];
	char		once[5 + N];
	char		twice[5 + N];
	size_t		n = 5 + any_size(N);
	char	   *text = s + sizeof(s) - n;
	char	   *out = once + sizeof(once) - n;
	size_t		len;
	size_t		again;
	size_t		at;
	AtpUri		uri;
	AtpErr		err;

	memcpy(text, any_bool() ? "at://" : "AT://", 5);
	err = atp_uri_normalize(ATP_SCHEME_AT, text, n, out, &len, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
	{
		LAW(atp_uri_parse(ATP_SCHEME_AT, text, n, &uri, &at) != ATP_OK || atp_uri_normal_form(ATP_SCHEME_AT, text, n, out, &len) == ATP_OK);
		return 0;
	}
	LAW(len <= n);
	LAW(atp_uri_parse(ATP_SCHEME_AT, out, len, &uri, &at) == ATP_OK);
	LAW(atp_uri_normalize(ATP_SCHEME_AT, out, len, twice, &again, &at) == ATP_OK && same_bytes(out, len, twice, again));
	if (len < n)
		REACHED("a text that gets shorter");
	return 0;
}
