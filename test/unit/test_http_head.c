/*
 * test_http_head.c
 *		The head of an HTTP response, and the answer to the request for a
 *		WebSocket (E-02, E-04, E-05, E-09).
 */
#include "core/wire/http_head.h"
#include "unit.h"

#define GOOD \
	"HTTP/1.1 101 Switching Protocols\r\n" \
	"Upgrade: WebSocket\r\n" \
	"Connection: keep-alive, Upgrade\r\n" \
	"Sec-WebSocket-Accept:  s3pPLMBiTxaQ9kYGzzhZRbK+xOo= \r\n" \
	"\r\n"

static AtpHttpHead head;
static size_t at;

#define ACCEPT	"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

#define HINTS	"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\nRetry-After: 5\r\n\r\n"

static AtpErr
parse(const char *s)
{
	return atp_http_head_parse(s, strlen(s), &head, &at);
}

static AtpSpan
header(const char *name)
{
	return atp_http_header(&head, name);
}

static const char *protocol;	/* that is offered */

/* Does a head with these values, and further lines, switch to a WebSocket? */
static bool
switches(const char *upgrade, const char *connection, const char *accept, const char *more)
{
	char		answer[1000];

	snprintf(answer, sizeof(answer), "HTTP/1.1 101 x\r\n%s\r\n%s\r\n%s\r\n%s\r\n",
			 upgrade, connection, accept, more);
	return parse(answer) == ATP_OK && atp_http_is_websocket(&head, ACCEPT, protocol);
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
	ok(parse(GOOD "\x82\x01x") == ATP_OK && head.status == 101, "an upgrade");
	ok(atp_span_is(header("sec-websocket-accept"), ACCEPT), "a header, in any case, trimmed");
	ok(head.len == strlen(GOOD), "the stream begins after the head");
	ok(atp_span_is(head.reason, "Switching Protocols"), "its reason");

	ok(parse("HTTP/1.0 503 \r\nRETRY-AFTER: 120\r\n\r\nbusy") == ATP_OK && head.status == 503, "E-04: a refusal");
	ok(atp_span_is(header("retry-after"), "120") && head.reason.len == 0, "E-04: Retry-After in any case");
	ok(header("retry-afte").ptr == NULL && header("retry-after2").ptr == NULL, "no other header");
	ok(parse("HTTP/1.1 404 Not Found\n\n") == ATP_OK && head.status == 404, "bare line feeds are endured");
	ok(head.headers.len == 0 && header("a").ptr == NULL, "no headers at all");
	ok(parse("HTTP/1.1 200\r\n\r\n") == ATP_OK && head.status == 200, "no reason, not even its space");
	ok(parse("HTTP/1.1 200 OK\r\nA: 1\r\nB:\r\nA:  2 \t\r\nVary: x , Y\r\nVary: z\r\n\r\nA: 3\r\n\r\n") == ATP_OK &&
	   atp_span_is(header("a"), "2"), "of several the last, and none from the body");
	ok(header("b").ptr != NULL && header("b").len == 0, "a header without a value");
	ok(atp_http_has_token(&head, "vary", "y") && atp_http_has_token(&head, "vary", "z") &&
	   !atp_http_has_token(&head, "vary", "x , y") && !atp_http_has_token(&head, "b", "y"), "words of headers");
}

#define UPGRADE		"Upgrade: WebSocket"
#define CONNECTION	"Connection: keep-alive, Upgrade"
#define PROOF		"Sec-WebSocket-Accept: " ACCEPT

static void
test_websocket(void)
{
	ok(switches(UPGRADE, CONNECTION, PROOF, ""), "E-02: an upgrade to a WebSocket");
	ok(!switches("Upgrade: websocketx", CONNECTION, PROOF, "") && !switches(UPGRADE, "Connection: upgraded", PROOF, ""),
	   "E-02: whole tokens only");
	ok(!switches("A: b", CONNECTION, PROOF, "") && !switches(UPGRADE, "A: b", PROOF, "") && !switches(UPGRADE, CONNECTION, "A: b", ""),
	   "E-02: each of the headers is needed");
	ok(!switches(UPGRADE, CONNECTION, PROOF "x", "") && !switches(UPGRADE, CONNECTION, "Sec-WebSocket-Accept:", ""),
	   "E-02: the wrong proof");
	ok(!switches(UPGRADE, CONNECTION, PROOF, PROOF "x\r\n"), "E-02: the last proof counts");
	ok(!switches(UPGRADE, CONNECTION, PROOF, "Sec-WebSocket-Extensions: permessage-deflate\r\n") &&
	   !switches(UPGRADE, CONNECTION, PROOF, "Sec-WebSocket-Protocol: chat\r\n"), "E-09: what nobody offered");
	ok(!switches(UPGRADE, CONNECTION, PROOF, "Sec-WebSocket-Protocol: chat\r\nSec-WebSocket-Protocol:\r\n"),
	   "E-09: also when an empty one follows");
	ok(switches(UPGRADE, CONNECTION, PROOF, "Sec-WebSocket-Protocol:\r\n"), "E-09: nothing chosen");
	protocol = "xrpc.v1.json";
	ok(switches(UPGRADE, CONNECTION, PROOF, "Sec-WebSocket-Protocol: xrpc.v1.json\r\n") && switches(UPGRADE, CONNECTION, PROOF, ""),
	   "E-09: the one that was offered, or none");
	ok(!switches(UPGRADE, CONNECTION, PROOF, "Sec-WebSocket-Protocol: chat\r\n") &&
	   !switches(UPGRADE, CONNECTION, PROOF, "Sec-WebSocket-Protocol: xrpc.v1.json, chat\r\n"), "E-09: not another one");
	protocol = NULL;
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

/* Interim responses come before the answer and must be skipped. */
static void
test_interim(void)
{
	char		many[9 * sizeof("HTTP/1.1 100\r\n\r\n") + 1] = "";
	char	   *full;
	size_t		hints = strlen(HINTS);
	size_t		n = 0;

	ok(parse(HINTS GOOD "\x82\x01x") == ATP_OK && head.status == 101 && atp_http_is_websocket(&head, ACCEPT, protocol), "103, then an upgrade");
	ok(head.len == strlen(HINTS GOOD), "the stream begins after the last head");
	ok(header("retry-after").ptr == NULL, "headers of the first do not count");
	ok(parse("HTTP/1.1 100 Continue\n\nHTTP/1.1 102 \r\n\r\n" HINTS "HTTP/1.1 503 x\r\nRetry-After: 120\r\n\r\n") == ATP_OK &&
	   head.status == 503 && atp_span_is(header("retry-after"), "120"), "E-04: 100, 102, 103, then a refusal");
	ok(parse("HTTP/1.1 101 x\r\n\r\n" GOOD) == ATP_OK && head.headers.len == 0, "101 is the answer, even without what it needs");
	ok(parse(HINTS) == ATP_E_HTTP_MORE, "103 alone asks for more");
	refuses(HINTS "<html>\n\n", ATP_E_HTTP_STATUS, hints);
	refuses(HINTS "HTTP/1.1 1x1 y\r\n\r\n", ATP_E_HTTP_STATUS, hints + 10);
	refuses(HINTS "HTTP/1.1 101 y\r\nno colon\r\n\r\n", ATP_E_HTTP_HEADER, hints + 16);

	for (int i = 0; i < ATP_HTTP_INTERIM_MAX; i++)
		strcat(many, "HTTP/1.1 100\r\n\r\n");
	full = malloc(strlen(many) + 100 + strlen(GOOD));
	strcat(strcpy(full, many), GOOD);
	ok(parse(full) == ATP_OK && head.status == 101, "as many as are endured");
	strcat(strcat(strcpy(full, many), "HTTP/1.1 199\r\n\r\n"), GOOD);
	ok(parse(full) == ATP_E_HTTP_INTERIM, "one more");
	free(full);

	/* the limit of bytes counts all heads together */
	full = malloc(ATP_HTTP_HEAD_MAX + 200);
	n = sprintf(full, "HTTP/1.1 103\r\nA: ");
	memset(full + n, 'a', ATP_HTTP_HEAD_MAX - 100);
	strcpy(full + n + ATP_HTTP_HEAD_MAX - 100, "\r\n\r\n" GOOD);
	ok(parse(full) == ATP_E_HTTP_HEAD_LONG, "E-05: long interim responses count to the limit");
	free(full);
}

/* Every prefix of a head asks for more bytes, and no prefix counts as a whole head. */
static void
test_prefixes(const char *whole)
{
	int			wrong = 0;

	for (size_t n = 0; n < strlen(whole); n++)
	{
		char	   *copy = malloc(n);	/* exact size: ASan finds a read past the end */

		memcpy(copy, whole, n);
		if (atp_http_head_parse(copy, n, &head, &at) != ATP_E_HTTP_MORE)
			wrong++;
		free(copy);
	}
	ok(wrong == 0, "every prefix asks for more");
}

static void
test_bounds(void)
{
	size_t		n = ATP_HTTP_HEAD_MAX + 100;
	char	   *buf = malloc(n);

	memset(buf, 'a', n);
	memcpy(buf, "HTTP/1.1 101 ", 13);
	ok(atp_http_head_parse(buf, n, &head, &at) == ATP_E_HTTP_HEAD_LONG, "E-05: a head without end");
	ok(atp_http_head_parse(buf, ATP_HTTP_HEAD_MAX - 1, &head, &at) == ATP_E_HTTP_MORE, "just below the limit");
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
	test_websocket();
	test_refusals();
	test_interim();
	test_prefixes(GOOD);
	test_prefixes(HINTS GOOD);
	test_bounds();
	test_retry_after();
	return done_testing();
}
