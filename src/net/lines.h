/*
 * lines.h
 *		The body of an HTTP answer whose lines are messages: a page of a did:plc directory (M-12).
 *
 * A compressed body is decoded in pieces of bounded size, however high the compression ratio.  No socket and no PostgreSQL
 * header: the caller receives bytes and offers them here, as to websocket.h.
 */
#ifndef ATP_LINES_H
#define ATP_LINES_H

#include "core/wire/chunked.h"
#include "core/wire/http_head.h"
#include "net/inflate.h"
#include "net/websocket.h"

typedef struct AtpLines
{
	AtpReceiver receiver;
	AtpEnd	   *end;
	bool		in_chunks;
	bool		until_close;	/* the end of the connection is the end of the body */
	bool		whole;			/* the body was received to its end ... */
	bool		read;			/* ... and its last line was given to the receiver */
	uint64_t	left;			/* bytes of the body still to come; neither in chunks nor until close */
	AtpChunked	chunked;
	AtpBytes	piece;			/* contents not decoded yet; points into the caller's bytes */
	AtpInflate *inflate;		/* NULL: the contents are the text */
	uint8_t    *room;			/* for decoded text */
	bool		more;			/* the decoder may have more text of the bytes before */
	uint64_t	packed;			/* contents decoded so far ... */
	uint64_t	unpacked;		/* ... and their text */
	AtpBytes	text;			/* text not taken yet; points into the caller's bytes, or into room */
	size_t		len;			/* bytes of the present line so far */
} AtpLines;

/* Begins a body with this head; a body that cannot be read ends in *end.  *lines is all zeros, or had a body before. */
extern void atp_lines_begin(AtpLines *lines, const AtpHttpHead *head, const AtpReceiver *receiver, AtpEnd *end);

/*
 * Offers bytes, which must stay in place until all are taken: *in and *n move behind the bytes that are no longer needed
 * for the framing, but the lines may still refer to some.  Stops when the receiver wants no message, or when *budget
 * bytes of text were taken; *budget is what is left of it.  Bytes behind the body's end are not taken.
 */
extern void atp_lines_take(AtpLines *lines, const uint8_t **in, size_t *n, size_t *budget);

/* Do the lines refer to bytes that were offered, or have text that was not taken? */
extern bool atp_lines_pending(const AtpLines *lines);

/* The connection has ended.  The last line of a body without a stated end may be cut, and does not count. */
extern void atp_lines_closed(AtpLines *lines);

/* Frees the memory for decoding. */
extern void atp_lines_free(AtpLines *lines);

#endif							/* ATP_LINES_H */
