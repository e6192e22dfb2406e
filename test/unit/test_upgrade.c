/*
 * test_upgrade.c
 *		The HTTP answer to an upgrade request (E-02, E-04, E-05).
 */
#include "core/upgrade.h"
#include "unit.h"

#define GOOD \
	"HTTP/1.1 101 Switching Protocols\r\n" \
	"Upgrade: WebSocket\r\n" \
	"Connection: keep-alive, Upgrade\r\n" \
	"Sec-WebSocket-Accept:  s3pPLMBiTxaQ9kYGzzhZRbK+xOo= \r\n" \
	"\r\n"

static AtpUpgrade up;
static size_t at;

static AtpErr
parse(const char *s)
{
	return atp_upgrade_parse(s, strlen(s), &up, &at);
}

static void
refuses(const char *s, AtpErr expected, size_t where)
{
	AtpErr		err = parse(s);

	ok(err == expected && at == where, "refused at %zu: %s", at, atp_err_text(err));
}

static void
test_answers(void)
{
	ok(parse(GOOD "\x82\x01x") == ATP_OK, "an upgrade");
	ok(up.status == 101 && up.upgrade && up.connection && !up.extension, "its fields");
	ok(atp_span_is(up.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "its proof, trimmed");
	ok(up.head_len == strlen(GOOD), "the stream begins after the head");
	ok(atp_span_is(up.reason, "Switching Protocols"), "its reason");

	ok(parse("HTTP/1.0 503 \r\nRETRY-AFTER: 120\r\n\r\nbusy") == ATP_OK && up.status == 503, "E-04: a refusal");
	ok(atp_span_is(up.retry_after, "120") && up.reason.len == 0, "E-04: Retry-After in any case");
	ok(!up.upgrade && !up.connection && up.accept.ptr == NULL, "no upgrade");
	ok(parse("HTTP/1.1 404 Not Found\n\n") == ATP_OK && up.status == 404, "bare line feeds are endured");
	ok(parse("HTTP/1.1 200\r\n\r\n") == ATP_OK && up.status == 200, "no reason, not even its space");
	ok(parse("HTTP/1.1 101 x\r\nUpgrade: websocketx\r\nConnection: upgraded\r\n\r\n") == ATP_OK &&
	   !up.upgrade && !up.connection, "whole tokens only");
	ok(parse("HTTP/1.1 101 x\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n") == ATP_OK &&
	   up.extension, "E-09: an extension that nobody offered");
}

static void
test_refusals(void)
{
	refuses("", ATP_E_HTTP_MORE, 0);
	refuses("<html>\n\n", ATP_E_HTTP_STATUS, 0);
	refuses("HTTP/2 101 x\r\n\r\n", ATP_E_HTTP_STATUS, 0);
	refuses("HTTP/1.1 1x1 y\r\n\r\n", ATP_E_HTTP_STATUS, 10);
	refuses("HTTP/1.1 099 y\r\n\r\n", ATP_E_HTTP_STATUS, 12);
	refuses("HTTP/1.1 101 y\r\nno colon\r\n\r\n", ATP_E_HTTP_HEADER, 16);
	refuses("HTTP/1.1 101 y\r\n: nameless\r\n\r\n", ATP_E_HTTP_HEADER, 16);
	refuses("HTTP/1.1 101 y\r\nA: b\r\n folded\r\n\r\n", ATP_E_HTTP_HEADER, 22);
}

/* Every prefix of a head asks for more, and none is taken for the whole. */
static void
test_prefixes(void)
{
	int			wrong = 0;

	for (size_t n = 0; n < strlen(GOOD); n++)
	{
		char	   *copy = malloc(n);	/* exact, so that ASan sees a read too far */

		memcpy(copy, GOOD, n);
		if (atp_upgrade_parse(copy, n, &up, &at) != ATP_E_HTTP_MORE)
			wrong++;
		free(copy);
	}
	ok(wrong == 0, "every prefix asks for more");
}

static void
test_bounds(void)
{
	size_t		n = ATP_UPGRADE_HEAD_MAX + 100;
	char	   *buf = malloc(n);

	memset(buf, 'a', n);
	memcpy(buf, "HTTP/1.1 101 ", 13);
	ok(atp_upgrade_parse(buf, n, &up, &at) == ATP_E_HTTP_HEAD_LONG, "E-05: a head without end");
	ok(atp_upgrade_parse(buf, ATP_UPGRADE_HEAD_MAX - 1, &up, &at) == ATP_E_HTTP_MORE, "just below the limit");
	free(buf);
}

static void
test_retry_after(void)
{
	uint32_t	s = 7;

	ok(atp_retry_after_seconds((AtpSpan) {"120", 3}, &s) && s == 120, "E-04: seconds");
	ok(atp_retry_after_seconds((AtpSpan) {"0", 1}, &s) && s == 0, "no delay");
	ok(atp_retry_after_seconds((AtpSpan) {"999999999", 9}, &s) && s == 999999999, "the longest");
	ok(!atp_retry_after_seconds((AtpSpan) {"9999999999", 10}, &s), "too long");
	ok(!atp_retry_after_seconds((AtpSpan) {"", 0}, &s), "nothing");
	ok(!atp_retry_after_seconds((AtpSpan) {"-1", 2}, &s), "negative");
	ok(!atp_retry_after_seconds((AtpSpan) {"Fri, 31 Dec 1999 23:59:59 GMT", 29}, &s), "a date is the other form");
}

int
main(void)
{
	test_answers();
	test_refusals();
	test_prefixes();
	test_bounds();
	test_retry_after();
	return done_testing();
}
