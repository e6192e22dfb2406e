/*
 * upgrade.c
 *		The HTTP/1.1 response that answers a WebSocket upgrade request.
 */
#include "upgrade.h"

static char
lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static bool
equals_nocase(AtpSpan s, const char *literal)
{
	size_t		n = strlen(literal);

	if (s.len != n)
		return false;
	for (size_t i = 0; i < n; i++)
		if (lower(s.ptr[i]) != literal[i])
			return false;
	return true;
}

static AtpSpan
trim(const char *from, const char *to)
{
	while (from < to && (*from == ' ' || *from == '\t'))
		from++;
	while (to > from && (to[-1] == ' ' || to[-1] == '\t' || to[-1] == '\r'))
		to--;
	return (AtpSpan) {from, to - from};
}

/* Is token one of the comma-separated words of value? */
static bool
has_token(AtpSpan value, const char *token)
{
	const char *p = value.ptr;
	const char *end = value.ptr + value.len;

	while (p < end)
	{
		const char *comma = memchr(p, ',', end - p);
		const char *stop = comma ? comma : end;

		if (equals_nocase(trim(p, stop), token))
			return true;
		p = stop + 1;
	}
	return false;
}

/* "HTTP/1.1 101 Switching Protocols", without its line end. */
static AtpErr
parse_status_line(const char *line, size_t n, AtpUpgrade *up, size_t *at)
{
	*at = 0;
	if (n < 12 || memcmp(line, "HTTP/1.", 7) != 0 || line[8] != ' ')
		return ATP_E_HTTP_STATUS;
	for (*at = 9; *at < 12; (*at)++)
		if (line[*at] < '0' || line[*at] > '9')
			return ATP_E_HTTP_STATUS;
	up->status = (line[9] - '0') * 100 + (line[10] - '0') * 10 + (line[11] - '0');
	if (up->status < 100)
		return ATP_E_HTTP_STATUS;
	up->reason = trim(line + 12, line + n);
	return ATP_OK;
}

static void
take_header(AtpSpan name, AtpSpan value, AtpUpgrade *up)
{
	if (equals_nocase(name, "upgrade"))
		up->upgrade |= has_token(value, "websocket");
	else if (equals_nocase(name, "connection"))
		up->connection |= has_token(value, "upgrade");
	else if (equals_nocase(name, "sec-websocket-accept"))
		up->accept = value;
	else if (equals_nocase(name, "retry-after"))
		up->retry_after = value;
	else if (equals_nocase(name, "sec-websocket-extensions") ||
			 equals_nocase(name, "sec-websocket-protocol"))
		up->extension |= value.len > 0;
}

/* One head, from *where on, which moves behind it; n is at most the limit of all. */
static AtpErr
parse_head(const char *buf, size_t n, size_t *where, AtpUpgrade *up, size_t *at)
{
	size_t		pos = *where;
	bool		first = true;

	memset(up, 0, sizeof(*up));
	for (;;)
	{
		const char *line = buf + pos;
		const char *end = n > pos ? memchr(line, '\n', n - pos) : NULL;
		size_t		len;

		*at = pos;
		if (end == NULL)
			return n == ATP_UPGRADE_HEAD_MAX ? ATP_E_HTTP_HEAD_LONG : ATP_E_HTTP_MORE;
		len = end - line;
		if (len > 0 && line[len - 1] == '\r')
			len--;
		pos = end - buf + 1;
		if (first)
		{
			AtpErr		err = parse_status_line(line, len, up, at);

			if (err != ATP_OK)
			{
				*at += *where;
				return err;
			}
			first = false;
		}
		else if (len == 0)
		{
			*where = pos;
			return ATP_OK;
		}
		else
		{
			const char *colon = memchr(line, ':', len);

			/* obsolete line folding is refused, as RFC 9112 section 5.2 allows */
			if (colon == NULL || colon == line || line[0] == ' ' || line[0] == '\t')
				return ATP_E_HTTP_HEADER;
			take_header((AtpSpan) {line, colon - line}, trim(colon + 1, line + len), up);
		}
	}
}

AtpErr
atp_upgrade_parse(const char *buf, size_t n, AtpUpgrade *up, size_t *at)
{
	size_t		pos = 0;

	if (n > ATP_UPGRADE_HEAD_MAX)
		n = ATP_UPGRADE_HEAD_MAX;
	for (int interim = 0; interim <= ATP_UPGRADE_INTERIM_MAX; interim++)
	{
		AtpErr		err = parse_head(buf, n, &pos, up, at);

		if (err != ATP_OK)
			return err;
		/* RFC 9110, section 15.2: a client must be able to take any before the answer */
		if (up->status >= 200 || up->status == 101)
		{
			up->head_len = pos;
			return ATP_OK;
		}
	}
	*at = pos;
	return ATP_E_HTTP_INTERIM;
}

bool
atp_retry_after_seconds(AtpSpan value, uint32_t *seconds)
{
	uint32_t	v = 0;

	if (value.len == 0 || value.len > 9)
		return false;
	for (size_t i = 0; i < value.len; i++)
	{
		if (value.ptr[i] < '0' || value.ptr[i] > '9')
			return false;
		v = v * 10 + (value.ptr[i] - '0');
	}
	*seconds = v;
	return true;
}
