/*
 * http_head_lines.c
 *		A head from its lines, at any place of a buffer, and a header in it.
 *
 * proves: parse_one next_header
 * sources: core/syntax/chars.c
 * replaces: parse_status_line:any_status_line
 * short: -DN=5 --unwind 6 --unwindset strlen.0:3
 * long: -DN=8 --unwind 9
 * assumes: parse_status_line() does what http_head.c proves
 */
#include "core/wire/http_head.c"
#include "lib/proof.h"

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
	AtpHttpHead head = {0};
	size_t		before;
	size_t		at;
	AtpErr		err;

	ANY_TEXT(s, n, N);
	head.len = before = any_size(n > 0);
	err = parse_one(s, n, &head, &at);
	/* what http_head_whole.c gives in its place */
	LAW(err == ATP_OK || err == ATP_E_HTTP_MORE || err == ATP_E_HTTP_STATUS || err == ATP_E_HTTP_HEADER);
	LAW(at >= before && at <= n && head.len <= n);
	if (err != ATP_OK)
		return 0;
	LAW(head.len > before && head.status >= 100 && head.status <= 999);
	LAW(head.headers.ptr > s + before && head.headers.ptr + head.headers.len < s + head.len);
	if (head.headers.len > 0)
	{
		const char *p = head.headers.ptr;
		AtpSpan		value = next_header(&head, &p, "a");

		LAW(p > head.headers.ptr && p <= head.headers.ptr + head.headers.len);
		LAW(value.ptr == NULL || (value.ptr > head.headers.ptr && value.ptr + value.len <= p));
		if (value.ptr != NULL)
			REACHED("a header");
	}
	return 0;
}
