/*
 * uri_parse.c
 *		The parser of URIs: each part lies in the text, and the parts with their delimiters are the text.
 *
 * proves: atp_uri_parse atp_uri_check_lexicon atp_uri_check_strict atp_uri_check_record atp_uri_is_strict_nosh
 * sources: core/syntax/uri_parse.c core/syntax/uri_level.c core/syntax/did.c core/syntax/handle.c core/syntax/nsid.c
 *	core/syntax/recordkey.c core/syntax/tid.c core/syntax/base32.c core/syntax/chars.c
 * short: -DN=5 --unwind 9
 * long: -DN=9 --unwind 13
 * assumes: the text begins with the scheme; scheme.c has the others
 * not proved: DIDs and NSIDs in a URI (too long for the bound), which did.c and nsid.c have on their own
 */
#include "core/syntax/uri.h"
#include "lib/proof.h"

static void
inside(AtpSpan part, const char *s, size_t n)
{
	LAW(part.ptr == NULL || (part.ptr >= s && part.len <= n && part.ptr + part.len <= s + n));
}

int
main(void)
{
	char		s[7 + N];
	AtpScheme	scheme = any_bool() ? ATP_SCHEME_AT : ATP_SCHEME_NOSH;
	size_t		skip = scheme == ATP_SCHEME_AT ? 5 : 7;
	size_t		rest = any_size(N);
	size_t		n = skip + rest;
	/* the last byte of the text is the last of its memory */
	char	   *text = s + sizeof(s) - n;
	AtpUri		uri;
	size_t		at;
	AtpErr		err;

	memcpy(text, scheme == ATP_SCHEME_AT ? "at://" : "nosh://", skip);
	err = atp_uri_parse(scheme, text, n, &uri, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(uri.authority.ptr == text + skip && uri.authority.len > 0);
	LAW(skip + uri.authority.len + uri.path.len + (uri.query.ptr != NULL ? 1 + uri.query.len : 0) +
		(uri.fragment.ptr != NULL ? 1 + uri.fragment.len : 0) == n);
	inside(uri.authority, text, n);
	inside(uri.path, text, n);
	inside(uri.seg1, text, n);
	inside(uri.seg2, text, n);
	inside(uri.query, text, n);
	inside(uri.fragment, text, n);
	LAW((uri.segments == 0) == (uri.path.len == 0));
	if (uri.segments == 2)
		REACHED("two segments");
	if (uri.fragment.ptr != NULL)
		REACHED("a fragment");
	err = atp_uri_check_lexicon(&uri, text, &at);
	LAW_OF_ERRORS(err, at, n);
	err = atp_uri_check_strict(&uri, text, n, &at);
	LAW_OF_ERRORS(err, at, n);
	err = atp_uri_check_record(&uri, text, &at);
	LAW_OF_ERRORS(err, at, n);
	if (atp_uri_is_strict_nosh(&uri, text, n))
		REACHED("a strict NOSH URI");
	return 0;
}
