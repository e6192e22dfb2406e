/*
 * test_handshake.c
 *		The beginning of a WebSocket: the request, and each answer that a server may give (E-02, E-05, E-09).
 */
#include "net/handshake.h"
#include "unit.h"

static AtpHandshake hs;
static const char *protocol;	/* that is offered */
static AtpEnd end;
static bool more;				/* of the answer is under way */

#define ACCEPT	"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"
#define SWITCH	"HTTP/1.1 101 Switching Protocols\r\n"
#define BAD		"HTTP/1.1 400 Bad Request\r\n"
#define UP		"Upgrade: websocket\r\nConnection: Upgrade\r\n"

/* The nonce and proof of RFC 6455, section 1.3. */
static void
begin(void)
{
	atp_handshake_start(&hs, (const uint8_t *) "the sample nonce", protocol);
	memset(&end, 0, sizeof(end));
}

static AtpHandshakeState
answer(const char *s)
{
	size_t		n = strlen(s);
	char	   *copy = malloc(n);	/* exact size: ASan finds a read past the end */
	AtpHandshakeState state;

	begin();
	memcpy(copy, s, n);
	state = atp_handshake_answer(&hs, copy, n);
	more = state == ATP_HANDSHAKE_REFUSED && atp_handshake_has_more(&hs, copy, n);
	if (state == ATP_HANDSHAKE_REFUSED || state == ATP_HANDSHAKE_BROKEN)
		atp_handshake_end(&hs, copy, n, &end);
	free(copy);
	return state;
}

static void
test_request(void)
{
	const char *expected = "GET /xrpc/a.b.c?cursor=5 HTTP/1.1\r\n"
		"Host: example.com:8080\r\n"
		"Upgrade: websocket\r\n"
		"Connection: Upgrade\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
		"Sec-WebSocket-Version: 13\r\n"
		"X-More: yes\r\n"
		"\r\n";
	char		out[512];
	size_t		n;

	begin();
	n = atp_handshake_request(&hs, "example.com:8080", "/xrpc/a.b.c?cursor=5", "X-More: yes\r\n", out, sizeof(out));
	ok(n == strlen(expected) && strcmp(out, expected) == 0, "the request, with the key of its nonce");
	ok(atp_handshake_request(&hs, "example.com:8080", "/xrpc/a.b.c?cursor=5", "X-More: yes\r\n", NULL, 0) == n, "its length");
	protocol = "xrpc.v1.json";
	begin();
	n = atp_handshake_request(&hs, "example.com:8080", "/xrpc/a.b.c?cursor=5", "X-More: yes\r\n", out, sizeof(out));
	ok(n == strlen(out) && strstr(out, "\r\nSec-WebSocket-Protocol: xrpc.v1.json\r\nX-More: yes\r\n\r\n") != NULL, "a subprotocol is offered");
	ok(answer(SWITCH UP ACCEPT "Sec-WebSocket-Protocol: xrpc.v1.json\r\n\r\n") == ATP_HANDSHAKE_DONE, "E-09: and chosen");
	protocol = NULL;
}

static void
test_answers(void)
{
	const char *good = SWITCH UP ACCEPT "\r\n";
	int			wrong = 0;

	ok(answer(SWITCH UP ACCEPT "\r\n\x82\x01x") == ATP_HANDSHAKE_DONE && hs.answer.len == strlen(good),
	   "the proof of the request: the stream begins after the head");
	ok(answer("HTTP/1.1 103 Early Hints\r\n\r\n" SWITCH UP ACCEPT "\r\n") == ATP_HANDSHAKE_DONE, "an interim response before it");
	for (size_t n = 0; n < strlen(good); n++)
	{
		char		part[256];

		snprintf(part, sizeof(part), "%.*s", (int) n, good);
		wrong += answer(part) != ATP_HANDSHAKE_MORE;
	}
	ok(wrong == 0, "every prefix asks for more");
}

/* The answer arrives byte by byte: the bytes after which there is a result, which is *state. */
static size_t
trickle(const char *s, AtpHandshakeState *state)
{
	size_t		n = 0;

	begin();
	do
		*state = atp_handshake_answer(&hs, s, ++n);
	while (*state == ATP_HANDSHAKE_MORE && n < strlen(s));
	return n;
}

static void
test_trickle(void)
{
	static const char *const good[] = {
		SWITCH UP ACCEPT "\r\n", "HTTP/1.1 103 Early Hints\r\n\r\n" SWITCH UP ACCEPT "\n", "HTTP/1.1 404 Not Found\r\n\r\n",
		"HTTP/1.1 400 Bad Request\r\nTransfer-Encoding: chunked\r\n\r\n", "220 ftp.example.com\r\n"
	};
	static const AtpHandshakeState states[] = {
		ATP_HANDSHAKE_DONE, ATP_HANDSHAKE_DONE, ATP_HANDSHAKE_REFUSED, ATP_HANDSHAKE_REFUSED, ATP_HANDSHAKE_BROKEN
	};
	static const char chunks[] = BAD "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n2\r\nyz\r\n0\r\n\r\n";
	AtpHandshakeState state;
	int			wrong = 0;
	size_t		n;

	for (int i = 0; i < 5; i++)
		wrong += trickle(good[i], &state) != strlen(good[i]) || state != states[i];
	ok(wrong == 0, "an answer that comes byte by byte has its result at its last byte");
	ok(trickle(SWITCH "nonsense\r\n" UP ACCEPT "\r\n", &state) > 0 && state == ATP_HANDSHAKE_BROKEN, "a line that is no header is found in the end");
	for (n = trickle(chunks, &state); n < sizeof(chunks) - 1 && atp_handshake_answer(&hs, chunks, n) == state && atp_handshake_has_more(&hs, chunks, n); n++)
		;
	ok(n == sizeof(chunks) - 1 && !atp_handshake_has_more(&hs, chunks, n), "E-05: a body in chunks ends with its last byte");
}

static void
breaks(const char *s, const char *why, const char *name)
{
	ok(answer(s) == ATP_HANDSHAKE_BROKEN && end.drop == ATP_DROP_WEBSOCKET && strstr(end.why, why) != NULL, "%s: %s", name, end.why);
}

static void
test_broken(void)
{
	breaks(SWITCH UP "\r\n", "no WebSocket upgrade", "no proof");
	breaks(SWITCH UP "Sec-WebSocket-Accept:\r\n\r\n", "no WebSocket upgrade", "an empty proof");
	breaks(SWITCH UP "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo\r\n\r\n", "no WebSocket upgrade", "a proof cut short");
	breaks(SWITCH UP "Sec-WebSocket-Accept: S3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n", "no WebSocket upgrade", "another one's proof");
	breaks(SWITCH "Connection: Upgrade\r\n" ACCEPT "\r\n", "no WebSocket upgrade", "no Upgrade");
	breaks(SWITCH "Upgrade: websocket\r\n" ACCEPT "\r\n", "no WebSocket upgrade", "no Connection");
	breaks(SWITCH UP ACCEPT "Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n", "no WebSocket upgrade", "E-09: an extension");
	breaks(SWITCH UP ACCEPT "Sec-WebSocket-Protocol: chat\r\n\r\n", "no WebSocket upgrade", "E-09: a subprotocol");
	breaks("220 ftp.example.com\r\n", "status line", "no HTTP");
	breaks(SWITCH "nonsense\r\n\r\n", "header line", "no header");
}

static void
test_refused(void)
{
	char		big[8192];
	char		expected[2048];
	int			n;

	ok(answer("HTTP/1.1 404 Not Found\r\n\r\n") == ATP_HANDSHAKE_REFUSED && end.drop == ATP_DROP_HTTP &&
	   strcmp(end.why, "HTTP status 404 Not Found") == 0, "a refusal without a body");
	ok(answer("HTTP/1.1 200 \r\n\r\n{\"error\":\"No\"}") == ATP_HANDSHAKE_REFUSED &&
	   strcmp(end.why, "HTTP status 200 : {\"error\":\"No\"}") == 0, "200 is one, too; its body is shown");
	ok(answer("HTTP/1.1 400 \x1b[2J\r\n\r\nb>\n\xc3\xa9</b>") == ATP_HANDSHAKE_REFUSED &&
	   strcmp(end.why, "HTTP status 400 ?[2J: b>?" "?" "?</b>") == 0, "E-05: what is not printable is not shown");

	n = snprintf(big, sizeof(big), "HTTP/1.1 500 ");
	memset(big + n, 'r', 100);
	n += 100;
	n += snprintf(big + n, sizeof(big) - n, "\r\n\r\n");
	memset(big + n, 'b', 4000);
	big[n + 4000] = '\0';
	n = snprintf(expected, sizeof(expected), "HTTP status 500 %.60s: ", big + 13);
	memset(expected + n, 'b', sizeof(expected) - n);
	expected[sizeof(end.why) - 1] = '\0';
	ok(answer(big) == ATP_HANDSHAKE_REFUSED && strcmp(end.why, expected) == 0, "E-05: a long reason and a long body are cut");
}

/* E-05: the error's name in an XRPC body. */
static void
names(const char *body, const char *error)
{
	char		all[4096];

	snprintf(all, sizeof(all), "HTTP/1.1 400 Bad Request\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
	ok(answer(all) == ATP_HANDSHAKE_REFUSED && strcmp(hs.error, error) == 0 && !more,
	   "E-05: %s is named in %s", error[0] ? error : "nothing", body);
}

static bool
has_more(const char *all)
{
	return answer(all) == ATP_HANDSHAKE_REFUSED && more;
}

static void
test_errors(void)
{
	char		name[100];
	char		body[200];
	char		large[3000];
	const char	named[] = "{\"error\":\"CursorTooOld\"}";

	names("{\"error\":\"CursorTooOld\",\"message\":\"5 is too old\"}", "CursorTooOld");
	names(" {\"message\": {\"error\": \"no\"}, \"error\": \"Cursor\\u0054ooOld\"} ", "CursorTooOld");
	names("{\"error\":5}", "");
	names("{\"error\":\"A\",\"error\":\"B\"}", "");
	names("{\"error\":\"CursorTooOld\"", "");
	names("[\"error\",\"CursorTooOld\"]", "");
	names("\"CursorTooOld\"", "");
	names("CursorTooOld", "");
	names("", "");
	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	snprintf(body, sizeof(body), "{\"error\":\"%s\"}", name);
	names(body, "");
	name[sizeof(hs.error) - 1] = '\0';
	snprintf(body, sizeof(body), "{\"error\":\"%s\"}", name);
	names(body, name);

	memset(large, ' ', sizeof(large));
	strcpy(large + sizeof(large) - sizeof(named), named);
	names(large, "CursorTooOld");
	ok(has_more("HTTP/1.1 400 Bad Request\r\nContent-Length: 5\r\n\r\nfour"), "E-05: the rest of an error is under way");
	ok(has_more("HTTP/1.1 400 Bad Request\r\nContent-Length: 8192\r\n\r\n"), "E-05: or all of it");
	ok(!has_more("HTTP/1.1 400 Bad Request\r\nContent-Length: 4\r\n\r\nfour"), "E-05: or nothing");
	ok(!has_more("HTTP/1.1 400 Bad Request\r\nContent-Length: 8193\r\n\r\n"), "E-05: what is longer is not waited for");
	ok(!has_more("HTTP/1.1 400 Bad Request\r\nContent-Length: 99999999999999999999999999\r\n\r\n"), "E-05: nor what is endless");
	ok(!has_more("HTTP/1.1 400 Bad Request\r\nContent-Length: -1\r\n\r\n") && !has_more("HTTP/1.1 400 Bad Request\r\n\r\n"), "E-05: nor what does not say");
	ok(!has_more("HTTP/1.1 503 Unavailable\r\nContent-Length: 5\r\n\r\n"), "E-05: nor what has no name to be obeyed");
}

#define CHUNKED	BAD "Transfer-Encoding: gzip, Chunked\r\n\r\n"

/* Bodies that proxies have sent in chunks. */
static void
test_chunks(void)
{
	const char *all;
	static char many[10000];
	int			wrong = 0;
	int			n;

	all = CHUNKED "b\r\n{\"error\":\"C\r\n00C;x=y\r\nursorTooOld\"\r\n1\r\n}\r\n0\r\n\r\n";
	ok(!has_more(all) && strcmp(hs.error, "CursorTooOld") == 0 &&
	   strcmp(end.why, "HTTP status 400 Bad Request: {\"error\":\"CursorTooOld\"}") == 0, "E-05: a body in chunks: %s", end.why);
	for (size_t i = strlen(CHUNKED); i < strlen(all) - 3; i++)
	{
		char		part[256];

		snprintf(part, sizeof(part), "%.*s", (int) i, all);
		wrong += !has_more(part);
	}
	ok(wrong == 0, "E-05: every part of it asks for more");
	ok(answer(CHUNKED "x") == ATP_HANDSHAKE_REFUSED && answer(CHUNKED "fffffffffffffffffffffff\r\nx") == ATP_HANDSHAKE_REFUSED &&
	   answer(CHUNKED "2001\r\nx") == ATP_HANDSHAKE_REFUSED && hs.error[0] == '\0', "E-05: lengths that are none, or too large");
	n = snprintf(many, sizeof(many), CHUNKED);
	while (n + 7 < (int) sizeof(many))
		n += snprintf(many + n, sizeof(many) - n, "1\r\nx\r\n");
	ok(!has_more(many), "E-05: chunks without end are not waited for");
	ok(has_more(BAD "Connection: Close\r\n\r\n{"), "E-05: a body that ends with the connection");
}

int
main(void)
{
	test_request();
	test_answers();
	test_trickle();
	test_broken();
	test_refused();
	test_errors();
	test_chunks();
	return done_testing();
}
