/*
 * http_head.c
 *		The head of an HTTP response: the status line and headers lie in the buffer, and what is read of them, too.
 *
 * proves: atp_http_head_parse atp_http_header atp_http_has_token atp_http_is_websocket
 * sources: core/wire/http_head.c core/syntax/chars.c
 * short: -DN=3 --unwind 17
 * long: -DN=10 --unwind 26
 * assumes: the text begins with a status line of status 101 or 103
 * not proved: more than one interim response
 */
#include "core/wire/http_head.h"
#include "lib/proof.h"

#define LINE	"HTTP/1.1 101\n"
#define LINE_LEN	(sizeof(LINE) - 1)

int
main(void)
{
	char		s[LINE_LEN + N];
	size_t		n = LINE_LEN + any_size(N);
	char	   *text = s + sizeof(s) - n;
	AtpHttpHead head;
	AtpSpan		value;
	size_t		at;
	AtpErr		err;

	memcpy(text, LINE, LINE_LEN);
	if (any_bool())
		text[11] = '3';
	err = atp_http_head_parse(text, n, &head, &at);
	LAW_OF_ERRORS(err, at, n);
	if (err != ATP_OK)
		return 0;
	LAW(head.status == 101 && head.len <= n && head.len >= LINE_LEN);
	LAW(head.headers.ptr == text + LINE_LEN && head.headers.ptr + head.headers.len < text + head.len);
	value = atp_http_header(&head, "a");
	LAW(value.ptr == NULL || (value.ptr > head.headers.ptr && value.ptr + value.len <= text + head.len));
	if (value.ptr != NULL && value.len > 0)
		REACHED("a header with a value");
	if (atp_http_has_token(&head, "a", "b"))
		REACHED("a header with a word");
	LAW(!atp_http_is_websocket(&head, "", NULL));
	return 0;
}
