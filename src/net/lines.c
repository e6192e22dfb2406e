/*
 * lines.c
 *		Messages that are the lines of an HTTP body: see lines.h.
 */
#include <stdlib.h>

#include "core/wire/frame.h"
#include "net/lines.h"

#define LENGTH_DIGITS	15
#define ROOM			65536	/* bytes that are decoded at once */

/*
 * W-55: compressed contents of more than PACKED_PER_BYTE bytes for each byte of text, beyond PACKED_FREE, are traffic
 * without text, for example empty gzip members.
 */
#define PACKED_FREE		65536
#define PACKED_PER_BYTE	2

/* The contents are compressed only by gzip, which alone was asked for. */
static void
begin_decoding(AtpLines *lines, const AtpHttpHead *head)
{
	AtpSpan		encoding = atp_http_header(head, "content-encoding");

	if (encoding.len == 0 || atp_http_has_token(head, "content-encoding", "identity"))
		return;
	if (!atp_http_has_token(head, "content-encoding", "gzip"))
	{
		atp_end(lines->end, ATP_DROP_COMPRESSION, "the page is compressed, but not by gzip");
		return;
	}
	lines->inflate = atp_inflate_new();
	lines->room = malloc(ROOM);
	if (lines->inflate == NULL || lines->room == NULL)
		atp_end(lines->end, ATP_DROP_MEMORY, "no memory for a compressed page");
}

void
atp_lines_begin(AtpLines *lines, const AtpHttpHead *head, const AtpReceiver *receiver, AtpEnd *end)
{
	AtpSpan		length = atp_http_header(head, "content-length");

	atp_lines_free(lines);
	*lines = (AtpLines) {.receiver = *receiver, .end = end};
	begin_decoding(lines, head);
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

/* The text of the present piece, or the next part of it. */
static void
next_text(AtpLines *lines)
{
	size_t		before = lines->piece.len;

	if (lines->inflate == NULL)
	{
		lines->text = lines->piece;
		lines->piece.len = 0;
		return;
	}
	lines->text = (AtpBytes) {lines->room, atp_inflate(lines->inflate, &lines->piece.ptr, &lines->piece.len, lines->room, ROOM)};
	lines->more = lines->text.len == ROOM;
	lines->packed += before - lines->piece.len;
	lines->unpacked += lines->text.len;
	if (atp_inflate_is_broken(lines->inflate))
		atp_end(lines->end, ATP_DROP_COMPRESSION, "the compressed page is broken");
	else if (lines->packed > PACKED_FREE && (lines->packed - PACKED_FREE) / PACKED_PER_BYTE > lines->unpacked)
		atp_end(lines->end, ATP_DROP_COMPRESSION, "the compressed page has far fewer bytes than what was sent");
}

/* The line is complete; an empty line is none. */
static void
end_line(AtpLines *lines)
{
	if (lines->len > 0)
		lines->receiver.message(lines->receiver.arg, lines->len, true, lines->end);
	lines->len = 0;
}

/* Takes the text up to the end of its first line. */
static void
take_line(AtpLines *lines, size_t *budget)
{
	const uint8_t *feed = memchr(lines->text.ptr, '\n', lines->text.len);
	size_t		n = feed != NULL ? (size_t) (feed - lines->text.ptr) : lines->text.len;
	size_t		text = feed != NULL && n > 0 && feed[-1] == '\r' ? n - 1 : n;
	size_t		taken = feed != NULL ? n + 1 : n;

	/* E-11: as a message of a stream */
	if (lines->len + text > ATP_FRAME_MAX)
		atp_end(lines->end, ATP_DROP_TOO_LARGE, "a line of the page has more than %d bytes", ATP_FRAME_MAX);
	else if (text > 0 && !lines->receiver.put(lines->receiver.arg, lines->text.ptr, text))
		atp_end(lines->end, ATP_DROP_MEMORY, "no memory for a line");
	if (lines->end->drop != ATP_DROP_NONE)
		return;
	lines->len += text;
	lines->text.ptr += taken;
	lines->text.len -= taken;
	*budget -= taken < *budget ? taken : *budget;
	if (feed != NULL)
		end_line(lines);
}

bool
atp_lines_pending(const AtpLines *lines)
{
	return lines->text.len > 0 || lines->piece.len > 0 || lines->more;
}

/* Does the receiver want a message? */
static bool
is_ready(const AtpLines *lines)
{
	return lines->end->drop == ATP_DROP_NONE && lines->receiver.want(lines->receiver.arg);
}

/* The last line needs no line feed, but the text of the body must be whole. */
static void
end_body(AtpLines *lines)
{
	if (lines->inflate != NULL && !atp_inflate_is_whole(lines->inflate))
	{
		atp_end(lines->end, ATP_DROP_COMPRESSION, "the compressed page is not whole");
		return;
	}
	end_line(lines);
	lines->read = lines->end->drop == ATP_DROP_NONE;
}

void
atp_lines_take(AtpLines *lines, const uint8_t **in, size_t *n, size_t *budget)
{
	while (*budget > 0 && is_ready(lines))
	{
		if (lines->text.len > 0)
			take_line(lines, budget);
		else if (lines->piece.len > 0 || lines->more)
			next_text(lines);
		else if (!lines->whole && *n > 0)
			next_piece(lines, in, n);
		else
			break;
	}
	if (lines->whole && !lines->read && !atp_lines_pending(lines) && is_ready(lines))
		end_body(lines);
}

void
atp_lines_closed(AtpLines *lines)
{
	if (lines->until_close && (lines->inflate == NULL || atp_inflate_is_whole(lines->inflate)))
		lines->whole = lines->read = true;
	if (!lines->whole)
		atp_end(lines->end, ATP_DROP_CLOSED, "the connection was cut within a page");
}

void
atp_lines_free(AtpLines *lines)
{
	atp_inflate_free(lines->inflate);
	free(lines->room);
	lines->inflate = NULL;
	lines->room = NULL;
}
