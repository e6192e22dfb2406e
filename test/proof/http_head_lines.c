/*
 * http_head_lines.c
 *		A head from its lines: one head at any place of a buffer, and the heads before the answer.
 *
 * proves: parse_one atp_http_head_parse atp_http_header
 * sources: core/syntax/chars.c
 * replaces: next_line:any_line parse_status_line:any_status_line
 * short: -DN=6 --unwind 7 --unwindset strlen.0:3
 * long: -DN=10 --unwind 11
 * assumes: next_line() and parse_status_line() do what http_head.c proves
 */
#include "core/wire/http_head.c"
#include "lib/proof.h"

/* Any line that begins at p and ends before its line end, or none: what http_head.c proves of next_line(). */
AtpSpan
any_line(const char *p, const char *end, const char **next)
{
	size_t		skip = any_size(N);

	if (skip == 0)
		return (AtpSpan) {NULL, 0};
	ASSUME(skip <= (size_t) (end - p) && p[skip - 1] == '\n');
	*next = p + skip;
	return (AtpSpan) {p, skip >= 2 && p[skip - 2] == '\r' ? skip - 2 : skip - 1};
}

/* Accepts a line, or says where it is wrong. */
AtpErr
any_status_line(AtpSpan line, AtpHttpHead *head, size_t *at)
{
	*at = any_size(line.len);
	if (any_bool())
		return ATP_E_HTTP_STATUS;
	head->status = 100 + (int) any_size(899);
	head->reason = (AtpSpan) {line.ptr + *at, line.len - *at};
	return ATP_OK;
}

int
main(void)
{
	AtpHttpHead head;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	err = atp_http_head_parse(s, n, &head, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(head.len <= n);
	if (err != ATP_OK)
		return 0;
	LAW(head.status == 101 || (head.status >= 200 && head.status <= 999));
	LAW(head.headers.ptr >= s && head.headers.ptr + head.headers.len <= s + head.len);
	if (head.headers.len > 0)
	{
		AtpSpan		value = atp_http_header(&head, "a");

		LAW(value.ptr == NULL || (value.ptr >= head.headers.ptr && value.ptr + value.len <= head.headers.ptr + head.headers.len));
		if (value.ptr != NULL)
			REACHED("a header");
	}
	return 0;
}
