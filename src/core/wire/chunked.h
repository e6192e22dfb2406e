/*
 * chunked.h
 *		Decoder of HTTP/1.1 chunked bodies (RFC 9112, section 7.1), fed as the bytes arrive.
 *
 * libcurl could decode them, but does not report the bytes of framing.  A chunk extension without end, or one
 * extension for each byte, would be traffic that no limit on the body counts (W-55).
 */
#ifndef ATP_CHUNKED_H
#define ATP_CHUNKED_H

#include "core/atp.h"

/* Must be all zero at the beginning of a body. */
typedef struct AtpChunked
{
	int			state;
	unsigned	digits;			/* digits of the chunk's size read so far */
	uint64_t	left;			/* bytes of the chunk still to come */
	uint64_t	contents;		/* bytes of contents so far ... */
	uint64_t	around;			/* ... and bytes of framing */
} AtpChunked;

/*
 * The next piece of the contents, in place; *in and *n move behind it.  An empty piece: the input is used up,
 * or the body has ended.  Bytes after the body's end are not read.
 */
extern AtpErr atp_chunked_next(AtpChunked *c, const uint8_t **in, size_t *n, AtpBytes *piece);

/* Was the end of the body read? */
extern bool atp_chunked_is_whole(const AtpChunked *c);

#endif							/* ATP_CHUNKED_H */
