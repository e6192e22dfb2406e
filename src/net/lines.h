/*
 * lines.h
 *		The body of an HTTP answer whose lines are messages: a page of a did:plc directory (M-12).
 *
 * No socket and no PostgreSQL header: the caller receives bytes and offers them here, as to websocket.h.
 */
#ifndef ATP_LINES_H
#define ATP_LINES_H

#include "core/wire/chunked.h"
#include "core/wire/http_head.h"
#include "net/websocket.h"

typedef struct AtpLines
{
	AtpReceiver receiver;
	AtpEnd	   *end;
	bool		in_chunks;
	bool		until_close;	/* the end of the connection is the end of the body */
	bool		whole;			/* the body was read to its end */
	uint64_t	left;			/* bytes of the body still to come; neither in chunks nor until close */
	AtpChunked	chunked;
	AtpBytes	piece;			/* contents not taken yet; points into the caller's bytes */
	size_t		len;			/* bytes of the present line so far */
} AtpLines;

/* Begins a body with this head; a length that is no number ends the body in *end. */
extern void atp_lines_begin(AtpLines *lines, const AtpHttpHead *head, const AtpReceiver *receiver, AtpEnd *end);

/*
 * Offers bytes, which must stay in place until all are taken: *in and *n move behind the bytes that are no longer needed
 * for the framing, but lines->piece may still point to some.  Stops when the receiver wants no message.
 */
extern void atp_lines_take(AtpLines *lines, const uint8_t **in, size_t *n);

/* Does the receiver want a message while bytes of the body are at hand? */
extern bool atp_lines_ready(const AtpLines *lines);

/* The connection has ended.  The last line of a body without a stated end may be cut, and does not count. */
extern void atp_lines_closed(AtpLines *lines);

#endif							/* ATP_LINES_H */
