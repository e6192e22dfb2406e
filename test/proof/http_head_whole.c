/*
 * http_head_whole.c
 *		The heads before the answer, and the answer's.
 *
 * proves: atp_http_head_parse
 * sources: core/syntax/chars.c
 * replaces: parse_one:any_one
 * short: --unwind 10
 * long: --unwind 10
 * assumes: parse_one() does what http_head_lines.c proves
 */
#include "core/wire/http_head.c"
#include "lib/proof.h"

static unsigned heads;

AtpErr
any_one(const char *buf, size_t n, AtpHttpHead *head, size_t *at)
{
	size_t		len = any_size(ATP_HTTP_HEAD_MAX);

	LAW(n <= ATP_HTTP_HEAD_MAX && head->len <= n);
	ASSUME(len <= n - head->len);
	*at = head->len + len;
	if (any_bool() || len == 0)
		return n == ATP_HTTP_HEAD_MAX ? ATP_E_HTTP_HEAD_LONG : ATP_E_HTTP_MORE;
	head->len += len;
	head->status = 100 + (int) any_size(899);
	heads++;
	return ATP_OK;
}

int
main(void)
{
	AtpHttpHead head;
	size_t		n = any_size(2 * ATP_HTTP_HEAD_MAX);
	size_t		at;
	AtpErr		err = atp_http_head_parse(NULL, n, &head, &at);

	LAW_OF_ERRORS(err, at, n);
	LAW(head.len <= n && head.len <= ATP_HTTP_HEAD_MAX && at <= ATP_HTTP_HEAD_MAX);
	LAW(heads <= ATP_HTTP_INTERIM_MAX + 1);
	if (err == ATP_OK)
	{
		LAW(head.status == 101 || head.status >= 200);
		if (heads == ATP_HTTP_INTERIM_MAX + 1)
			REACHED("an answer behind as many heads as can be");
	}
	else
		LAW(err != ATP_E_HTTP_INTERIM || heads == ATP_HTTP_INTERIM_MAX + 1);
	return 0;
}
