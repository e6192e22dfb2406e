/*
 * http_status.c
 *		The status line of an HTTP response, and Retry-After.
 *
 * proves: atp_http_head_parse atp_retry_after_seconds
 * sources: core/wire/http_head.c core/syntax/chars.c
 * short: -DN=2 -DM=10 --unwind 16
 * long: -DN=5 -DM=14 --unwind 19
 * assumes: the text begins with "HTTP/1." and is at least 11 bytes long
 */
#include "core/wire/http_head.h"
#include "lib/proof.h"

int
main(void)
{
	char		s[12 + N];
	size_t		n = 11 + any_size(1 + N);
	char	   *text = s + sizeof(s) - n;
	AtpHttpHead head;
	uint32_t	seconds;
	size_t		at;
	AtpErr		err;

	ASSUME(memcmp(text, "HTTP/1.", 7) == 0);
	err = atp_http_head_parse(text, n, &head, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err == ATP_OK)
	{
		LAW(head.status >= 101 && head.status <= 999 && head.len <= n);
		REACHED("a head without headers");
	}
	ANY_TEXT(value, m, M);
	if (atp_retry_after_seconds((AtpSpan) {value, m}, &seconds))
		LAW(m <= 9 && seconds < 1000000000);
	return 0;
}
