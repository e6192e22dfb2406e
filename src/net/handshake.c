/*
 * handshake.c
 *		The opening handshake of a WebSocket: see handshake.h.
 */
#include "net/handshake.h"

#include <openssl/evp.h>
#include <stdio.h>

#include "core/syntax/chars.h"
#include "core/codec/json.h"
#include "core/syntax/markup.h"

#define WEBSOCKET_GUID		"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#define ERROR_BODY_MAX		8192	/* most bytes read of an error's body ... */
#define ERROR_SHOWN_MAX		1024	/* ... and shown */
#define REASON_MAX			60

void
atp_handshake_start(AtpHandshake *hs, const uint8_t nonce[16], const char *protocol)
{
	char		proof[sizeof(hs->key) + sizeof(WEBSOCKET_GUID)];
	uint8_t		sha1[20];

	memset(hs, 0, sizeof(*hs));
	hs->protocol = protocol;
	(void) EVP_EncodeBlock((unsigned char *) hs->key, nonce, 16);
	(void) snprintf(proof, sizeof(proof), "%s%s", hs->key, WEBSOCKET_GUID);
	(void) EVP_Digest(proof, strlen(proof), sha1, NULL, EVP_sha1(), NULL);
	(void) EVP_EncodeBlock((unsigned char *) hs->accept, sha1, sizeof(sha1));
}

void
atp_handshake_next(AtpHandshake *hs)
{
	const char *protocol = hs->protocol;

	memset(hs, 0, sizeof(*hs));
	hs->protocol = protocol;
}

size_t
atp_handshake_request(const AtpHandshake *hs, const char *host, const char *target,
					  const char *headers, char *out, size_t size)
{
	return snprintf(out, size,
					"GET %s HTTP/1.1\r\n"
					"Host: %s\r\n"
					"Upgrade: websocket\r\n"
					"Connection: Upgrade\r\n"
					"Sec-WebSocket-Key: %s\r\n"
					"Sec-WebSocket-Version: 13\r\n"
					"%s%s%s"
					"%s\r\n",
					target, host, hs->key,
					hs->protocol ? "Sec-WebSocket-Protocol: " : "", hs->protocol ? hs->protocol : "", hs->protocol ? "\r\n" : "",
					headers);
}

/* The value of Content-Length; 0: missing, invalid, or too long to wait for. */
static size_t
body_length(AtpSpan length)
{
	size_t		n = 0;

	for (size_t i = 0; i < length.len; i++)
	{
		if (length.ptr[i] < '0' || length.ptr[i] > '9' || n > ERROR_BODY_MAX)
			return 0;
		n = 10 * n + (size_t) (length.ptr[i] - '0');
	}
	return n <= ERROR_BODY_MAX ? n : 0;
}

/* Keep what the head of a refusal says of the body: a head may have a thousand fields. */
static void
note_body(AtpHandshake *hs)
{
	AtpSpan		length = atp_http_header(&hs->answer, "content-length");

	hs->in_chunks = atp_http_has_token(&hs->answer, "transfer-encoding", "chunked");
	hs->until_close = length.ptr == NULL && atp_http_has_token(&hs->answer, "connection", "close");
	hs->body_len = length.ptr == NULL ? 0 : body_length(length);
	hs->body_read = 0;
	hs->chunked = (AtpChunked) {0};
}

/*
 * Can the head be complete, or recognized as none, by the bytes that have come since the last call?  The first line
 * has ended, or an empty line, or the bytes have doubled since the head was parsed.
 */
static bool
is_due(AtpHandshake *hs, const char *buf, size_t n)
{
	bool		due = buf != hs->buf || n / 2 >= hs->parsed || n >= ATP_HTTP_HEAD_MAX;

	for (size_t i = buf == hs->buf ? hs->seen : 0; i < n; i++)
	{
		if (buf[i] != '\n')
			continue;
		due = due || !hs->has_line || buf[i - 1] == '\n' || (i > 1 && buf[i - 1] == '\r' && buf[i - 2] == '\n');
		hs->has_line = true;
	}
	hs->buf = buf;
	hs->seen = n;
	return due;
}

static AtpHandshakeState
judge_answer(AtpHandshake *hs, const char *buf, size_t n)
{
	const AtpHttpHead *answer = &hs->answer;
	size_t		at;

	hs->parsed = n;
	hs->err = atp_http_head_parse(buf, n, &hs->answer, &at);
	if (hs->err == ATP_E_HTTP_MORE)
		return ATP_HANDSHAKE_MORE;
	if (hs->err != ATP_OK)
		return ATP_HANDSHAKE_BROKEN;
	if (answer->status != 101)
	{
		note_body(hs);
		return ATP_HANDSHAKE_REFUSED;
	}
	return atp_http_is_websocket(answer, hs->accept, hs->protocol) ? ATP_HANDSHAKE_DONE : ATP_HANDSHAKE_BROKEN;
}

/* E-02: any answer but the upgrade that was asked for ends the attempt. */
AtpHandshakeState
atp_handshake_answer(AtpHandshake *hs, const char *buf, size_t n)
{
	if ((hs->state == ATP_HANDSHAKE_MORE && is_due(hs, buf, n)) || buf != hs->buf)
	{
		hs->buf = buf;
		hs->state = judge_answer(hs, buf, n);
	}
	return hs->state;
}

/*
 * Parse the size line of the chunk at *at, and move *at behind the line.  False when the line is incomplete
 * or invalid.
 */
static bool
chunk_length(const char *body, size_t n, size_t *at, size_t *length)
{
	size_t		first = *at;

	*length = 0;
	for (; *at < n && *length <= ERROR_BODY_MAX && atp_char_is(body[*at], ATP_C_HEX); (*at)++)
		*length = *length << 4 | atp_hex_value(body[*at]);
	if (*at == first || *length > ERROR_BODY_MAX)
		return false;
	while (*at < n && body[*at] != '\n')
		(*at)++;
	return (*at)++ < n;
}

/*
 * Join the received chunks of a chunked body (proxies may send one) in place.  Returns the length of the joined data.
 */
static size_t
join_chunks(char *body, size_t n)
{
	size_t		len = 0;
	size_t		at = 0;
	size_t		chunk;

	while (chunk_length(body, n, &at, &chunk) && chunk > 0)
	{
		size_t		here = chunk < n - at ? chunk : n - at;

		memmove(body + len, body + at, here);
		len += here;
		at += here;
		/* skip the line end after the chunk's data */
		at = n - at < 2 ? n : at + 2;
	}
	return len;
}

bool
atp_handshake_has_more(AtpHandshake *hs, const char *buf, size_t n)
{
	size_t		come = n - hs->answer.len;
	const uint8_t *in = (const uint8_t *) buf + hs->answer.len + hs->body_read;
	size_t		left = come - hs->body_read;
	AtpBytes	piece;

	/*
	 * Only an answer about a faulty request (400) has an error name on which the consumer acts.  For other
	 * statuses the body is not worth waiting for.
	 */
	if (hs->answer.status != 400 || come >= ERROR_BODY_MAX)
		return false;
	if (!hs->in_chunks)
		return hs->until_close || come < hs->body_len;
	hs->body_read = come;
	do
	{
		if (atp_chunked_next(&hs->chunked, &in, &left, &piece) != ATP_OK)
			return false;
	} while (piece.len > 0);
	return !atp_chunked_is_whole(&hs->chunked);
}

/* The name in {"error": name, "message": text}. */
static void
read_error(AtpHandshake *hs, const char *body, size_t n)
{
	static const char *const names[] = {"error"};
	AtpJsonReader r;
	AtpJsonItem item;
	bool		repeated;
	size_t		at;
	size_t		len;

	atp_json_init(&r, body, n, ATP_JSON_DEPTH_DEFAULT);
	if (atp_json_next(&r, &item, &at) == ATP_OK && item.kind == ATP_JSON_OBJECT &&
		atp_json_members(&r, names, 1, &item, &repeated, &at) == ATP_OK && item.kind == ATP_JSON_TEXT && !repeated &&
		atp_json_text(&item, hs->error, sizeof(hs->error) - 1, &len))
		hs->error[len] = '\0';
	else
		hs->error[0] = '\0';
}

void
atp_handshake_end(AtpHandshake *hs, char *buf, size_t n, AtpEnd *end)
{
	const AtpHttpHead *answer = &hs->answer;
	size_t		reason = answer->reason.len < REASON_MAX ? answer->reason.len : REASON_MAX;

	if (hs->err != ATP_OK)
		atp_end(end, ATP_DROP_WEBSOCKET, "%s", atp_err_text(hs->err));
	else if (answer->status == 101)
		atp_end(end, ATP_DROP_WEBSOCKET, "the server's answer is no WebSocket upgrade");
	else
	{
		char	   *body = buf + answer->len;
		size_t		len = n - answer->len;

		if (hs->in_chunks)
			len = join_chunks(body, len);
		read_error(hs, body, len);
		len = atp_strip_markup(body, len);
		len = len < ERROR_SHOWN_MAX ? len : ERROR_SHOWN_MAX;
		atp_end(end, ATP_DROP_HTTP, "HTTP status %d %.*s%s%.*s", answer->status, (int) reason,
				answer->reason.ptr, len > 0 ? ": " : "", (int) len, body);
	}
}
