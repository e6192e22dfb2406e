/*
 * lines.c
 *		Messages that are the lines of an HTTP body: see lines.h.
 */
#include "core/wire/frame.h"
#include "net/lines.h"

#define LENGTH_DIGITS	15

void
atp_lines_begin(AtpLines *lines, const AtpHttpHead *head, const AtpReceiver *receiver, AtpEnd *end)
{
	AtpSpan		length = atp_http_header(head, "content-length");

	*lines = (AtpLines) {.receiver = *receiver, .end = end};
	lines->in_chunks = atp_http_has_token(head, "transfer-encoding", "chunked");
	lines->until_close = !lines->in_chunks && length.ptr == NULL;
	if (lines->in_chunks || lines->until_close)
		return;
	for (size_t i = 0; i < length.len && end->drop == ATP_DROP_NONE; i++)
	{
		if (length.ptr[i] < '0' || length.ptr[i] > '9' || i == LENGTH_DIGITS)
			atp_end(end, ATP_DROP_HTTP, "the length of the page is no number");
		lines->left = 10 * lines->left + (uint64_t) (length.ptr[i] - '0');
	}
	lines->whole = lines->left == 0;
}

/* The next bytes of the contents. */
static void
next_piece(AtpLines *lines, const uint8_t **in, size_t *n)
{
	if (lines->in_chunks)
	{
		if (atp_chunked_next(&lines->chunked, in, n, &lines->piece) != ATP_OK)
			atp_end(lines->end, ATP_DROP_HTTP, "the chunks of the page are broken");
		lines->whole = atp_chunked_is_whole(&lines->chunked);
		return;
	}
	lines->piece = (AtpBytes) {*in, lines->until_close || *n < lines->left ? *n : (size_t) lines->left};
	*in += lines->piece.len;
	*n -= lines->piece.len;
	if (lines->until_close)
		return;
	lines->left -= lines->piece.len;
	lines->whole = lines->left == 0;
}

/* The line is complete; an empty line is none. */
static void
end_line(AtpLines *lines)
{
	if (lines->len > 0)
		lines->receiver.message(lines->receiver.arg, lines->len, true, lines->end);
	lines->len = 0;
}

/* Takes the piece up to the end of its first line. */
static void
take_line(AtpLines *lines)
{
	const uint8_t *feed = memchr(lines->piece.ptr, '\n', lines->piece.len);
	size_t		n = feed != NULL ? (size_t) (feed - lines->piece.ptr) : lines->piece.len;
	size_t		text = feed != NULL && n > 0 && feed[-1] == '\r' ? n - 1 : n;

	/* E-11: as a message of a stream */
	if (lines->len + text > ATP_FRAME_MAX)
		atp_end(lines->end, ATP_DROP_TOO_LARGE, "a line of the page has more than %d bytes", ATP_FRAME_MAX);
	else if (text > 0 && !lines->receiver.put(lines->receiver.arg, lines->piece.ptr, text))
		atp_end(lines->end, ATP_DROP_MEMORY, "no memory for a line");
	if (lines->end->drop != ATP_DROP_NONE)
		return;
	lines->len += text;
	lines->piece.ptr += feed != NULL ? n + 1 : n;
	lines->piece.len -= feed != NULL ? n + 1 : n;
	if (feed != NULL)
		end_line(lines);
}

bool
atp_lines_ready(const AtpLines *lines)
{
	return lines->end->drop == ATP_DROP_NONE && lines->receiver.want(lines->receiver.arg);
}

void
atp_lines_take(AtpLines *lines, const uint8_t **in, size_t *n)
{
	while (atp_lines_ready(lines))
	{
		if (lines->piece.len == 0)
		{
			if (lines->whole || *n == 0)
				break;
			next_piece(lines, in, n);
			if (lines->piece.len == 0)
				continue;
		}
		take_line(lines);
	}
	if (lines->whole && lines->piece.len == 0 && atp_lines_ready(lines))
		end_line(lines);		/* the last line needs no line feed */
}

void
atp_lines_closed(AtpLines *lines)
{
	if (lines->until_close)
		lines->whole = true;
	if (!lines->whole)
		atp_end(lines->end, ATP_DROP_CLOSED, "the connection was cut within a page");
}
