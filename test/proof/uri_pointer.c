/*
 * uri_pointer.c
 *		The tokens of a fragment (RFC 6901): each call moves on, and a token is no longer than the fragment.
 *
 * proves: atp_uri_pointer_next
 * sources: core/syntax/uri_pointer.c core/syntax/chars.c
 * short: -DN=5 --unwind 7
 * by hand: 8 s
 * long: -DN=9 --unwind 11
 * assumes: the fragment is one that atp_uri_parse() accepts: '/' and characters of queries, %HH complete
 */
#include "core/syntax/uri_private.h"
#include "lib/proof.h"

int
main(void)
{
	char		token[N];
	size_t		pos = 0;
	size_t		last = 0;
	size_t		len;
	size_t		at;
	unsigned	tokens = 0;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	ASSUME(n == 0 || (s[0] == '/' && atp_scan_encoded(s, s + n, ATP_C_QUERY) == s + n));
	while (atp_uri_pointer_next((AtpSpan) {s, n}, &pos, token + N - n, &len, &err, &at))
	{
		LAW(len <= n);
		LAW(pos > last);
		last = pos;
		tokens++;
	}
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_OK || (tokens == 0) == (n == 0));
	if (err == ATP_OK && tokens > 2)
		REACHED("several tokens");
	return 0;
}
