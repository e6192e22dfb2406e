/*
 * test_any_uri.c
 *		URIs of any scheme: rule L-11.
 */
#include "core/lexicon/any_uri.h"
#include "syntax.h"

int
main(void)
{
	size_t		at;

	check_interop("uri", atp_any_uri_check, 9, 12);

	ACCEPTED("L-11", atp_any_uri_check, "https://example.com", "https://u:p@example.com:80/a/b?c=d&e#f?/g", "mailto:a@b.c",
			 "http://[2001:db8::7]:80/", "http://u@[::1]", "urn:isbn:0451450523", "a+b-c.1:x", "data:text/plain;base64,AA%3D%3D",
			 "HTTPS://EXAMPLE.COM", "x:/", "x:?", "x:#", "tel:+1-816-555-1212", "at://did:plc:abc", "file:///a", "http://[v1.a:]/");
	REFUSED("L-11", atp_any_uri_check,
			{"", ATP_E_EMPTY, 0},
			{"example.com", ATP_E_ANY_URI_SCHEME, 11},
			{"1a:b", ATP_E_ANY_URI_SCHEME, 0},
			{"a_b:c", ATP_E_ANY_URI_SCHEME, 1},
			{":a", ATP_E_ANY_URI_SCHEME, 0},
			{"a:", ATP_E_ANY_URI_EMPTY, 2},
			{"https://a/b c", ATP_E_URI_CHAR, 11},
			{"https://a/\xc3\xa9", ATP_E_URI_CHAR, 10},
			{"https://a/%4", ATP_E_PERCENT, 10},
			{"https://a/#b#c", ATP_E_URI_CHAR, 12},
			{"https://a/[b]", ATP_E_URI_CHAR, 10},
			{"http://[::1", ATP_E_URI_CHAR, 7},
			{"http://[::1/", ATP_E_URI_CHAR, 7},
			{"http://a[::1]/", ATP_E_URI_CHAR, 8},
			{"http://<@[::1]/", ATP_E_URI_CHAR, 7},
			{"x:{y}", ATP_E_URI_CHAR, 2},
			{"x:a\x01", ATP_E_URI_CHAR, 3});
	check_charset("L-11", atp_any_uri_check, "x:/*", ALNUM "-._~:@!$&'()*+,;=/?#");
	check_charset("L-11", atp_any_uri_check, "a*:x", ALNUM "+-.:");
	ok(atp_any_uri_check(filled("x:", 'a', 8192), 8192, &at) == ATP_OK, "L-11: 8192 bytes");
	ok(atp_any_uri_check(filled("x:", 'a', 8193), 8193, &at) == ATP_E_TOO_LONG && at == 8192, "L-11: 8193 bytes");
	return done_testing();
}
