/*
 * http_head.c
 *		The head of an HTTP/1.1 response, and the check that it accepts a WebSocket: see http_head.h.
 */
#include "core/syntax/chars.h"
#include "core/wire/http_head.h"

static bool
equals_nocase(AtpSpan s, const char *literal)
{
	size_t		n = strlen(literal);

	if (s.len != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (atp_char_lower(s.ptr[i]) != literal[i])
			return false;
	return true;
}

static AtpSpan
trim_span(const char *from, const char *to)
{
	while (from < to && (*from == ' ' || *from == '\t'))
		from++;
	while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r'))
		to--;
	return (AtpSpan) {from, to - from};
}

/* Is token one of the value's comma-separated words? */
static bool
has_token(AtpSpan value, const char *token)
{
	const char *p = value.ptr;
	const char *end = value.ptr + value.len;

	while (p < end)
	{
		const char *comma = memchr(p, ',', end - p);

		if (equals_nocase(trim_span(p, comma ? comma : end), token))
			return true;
		if (comma == NULL)
			break;
		p = comma + 1;
	}
	return false;
}

/* The line at p without its line end; *next is the line after it. ptr NULL: the line is incomplete. */
static AtpSpan
next_line(const char *p, const char *end, const char **next)
{
	const char *newline = p < end ? memchr(p, '\n', end - p) : NULL;

	if (newline == NULL)
		return (AtpSpan) {NULL, 0};
	*next = newline + 1;
	if (newline > p && newline[-1] == '\r')
		newline--;
	return (AtpSpan) {p, newline - p};
}

/* Parses a line such as "HTTP/1.1 101 Switching Protocols". */
static AtpErr
parse_status_line(AtpSpan line, AtpHttpHead *head, size_t *at)
{
	const char *s = line.ptr;

	*at = 0;
	if (line.len < 12 || memcmp(s, "HTTP/1.", 7) != 0 || s[8] != ' ')
		return ATP_E_HTTP_STATUS;
	for (*at = 9; *at < 12; (*at)++)
		if (!atp_char_is(s[*at], ATP_C_DIGIT))
			return ATP_E_HTTP_STATUS;
	head->status = (s[9] - '0') * 100 + (s[10] - '0') * 10 + (s[11] - '0');
	if (head->status < 100)
		return ATP_E_HTTP_STATUS;
	head->minor = s[7] - '0';
	head->reason = trim_span(s + 12, s + line.len);
	return ATP_OK;
}

/*
 * Parses one head at buf + head->len, and moves head->len behind it. n is at most ATP_HTTP_HEAD_MAX, the
 * limit for all heads together.
 */
static AtpErr
parse_one(const char *buf, size_t n, AtpHttpHead *head, size_t *at)
{
	const char *end = buf + n;
	const char *p = buf + head->len;
	const AtpErr incomplete = n == ATP_HTTP_HEAD_MAX ? ATP_E_HTTP_HEAD_LONG : ATP_E_HTTP_MORE;
	AtpSpan		line = next_line(p, end, &p);
	AtpErr		err;

	*at = head->len;
	if (line.ptr == NULL)
		return incomplete;
	if ((err = parse_status_line(line, head, at)) != ATP_OK)
	{
		*at += head->len;
		return err;
	}
	head->headers = (AtpSpan) {p, 0};
	for (;;)
	{
		const char *colon;

		*at = p - buf;
		line = next_line(p, end, &p);
		if (line.ptr == NULL)
			return incomplete;
		if (line.len == 0)
		{
			head->headers.len = line.ptr - head->headers.ptr;
			head->len = p - buf;
			return ATP_OK;
		}
		/* obsolete line folding is refused, as RFC 9112 section 5.2 allows */
		colon = memchr(line.ptr, ':', line.len);
		if (colon == NULL || colon == line.ptr || *line.ptr == ' ' || *line.ptr == '\t')
			return ATP_E_HTTP_HEADER;
	}
}

AtpErr
atp_http_head_parse(const char *buf, size_t n, AtpHttpHead *head, size_t *at)
{
	*head = (AtpHttpHead) {0};
	if (n > ATP_HTTP_HEAD_MAX)
		n = ATP_HTTP_HEAD_MAX;
	for (int interim = 0; interim <= ATP_HTTP_INTERIM_MAX; interim++)
	{
		AtpErr		err = parse_one(buf, n, head, at);

		/*
		 * RFC 9110, section 15.2: interim (1xx) responses may precede the answer. 101 ends the loop, too: it
		 * is the answer that accepts a WebSocket.
		 */
		if (err != ATP_OK || head->status >= 200 || head->status == 101)
			return err;
	}
	*at = head->len;
	return ATP_E_HTTP_INTERIM;
}

/* The next header of this name from *p on; ptr NULL after the last. */
static AtpSpan
next_header(const AtpHttpHead *head, const char **p, const char *name)
{
	const char *end = head->headers.ptr + head->headers.len;

	while (*p < end)
	{
		AtpSpan		line = next_line(*p, end, p);
		const char *colon = memchr(line.ptr, ':', line.len);

		if (equals_nocase((AtpSpan) {line.ptr, colon - line.ptr}, name))
			return trim_span(colon + 1, line.ptr + line.len);
	}
	return (AtpSpan) {NULL, 0};
}

AtpSpan
atp_http_header(const AtpHttpHead *head, const char *name)
{
	const char *p = head->headers.ptr;
	AtpSpan		last = {NULL, 0};
	AtpSpan		value;

	while ((value = next_header(head, &p, name)).ptr != NULL)
		last = value;
	return last;
}

bool
atp_http_has_token(const AtpHttpHead *head, const char *name, const char *token)
{
	const char *p = head->headers.ptr;
	AtpSpan		value;

	while ((value = next_header(head, &p, name)).ptr != NULL)
		if (has_token(value, token))
			return true;
	return false;
}

bool
atp_http_persists(const AtpHttpHead *head)
{
	if (atp_http_has_token(head, "connection", "close"))
		return false;
	return head->minor > 0 || atp_http_has_token(head, "connection", "keep-alive");
}

bool
atp_retry_after_seconds(AtpSpan value, uint32_t *seconds)
{
	uint32_t	v = 0;

	if (value.len == 0 || value.len > 9)
		return false;
	for (size_t i = 0; i < value.len; i++)
	{
		if (!atp_char_is(value.ptr[i], ATP_C_DIGIT))
			return false;
		v = v * 10 + (value.ptr[i] - '0');
	}
	*seconds = v;
	return true;
}

/* Is there a header of this name with a value that differs from expected, and is not empty? */
static bool
says_other(const AtpHttpHead *head, const char *name, const char *expected)
{
	const char *p = head->headers.ptr;
	AtpSpan		value;

	while ((value = next_header(head, &p, name)).ptr != NULL)
		if (value.len > 0 && !atp_span_is(value, expected))
			return true;
	return false;
}

bool
atp_http_is_websocket(const AtpHttpHead *head, const char *accept, const char *protocol)
{
	AtpSpan		proof = atp_http_header(head, "sec-websocket-accept");

	return atp_http_has_token(head, "upgrade", "websocket") &&
		atp_http_has_token(head, "connection", "upgrade") &&
		proof.ptr != NULL && atp_span_is(proof, accept) &&
		/* E-09: a server must not choose an extension or a protocol that was not offered. */
		!says_other(head, "sec-websocket-extensions", "") &&
		!says_other(head, "sec-websocket-protocol", protocol != NULL ? protocol : "");
}
