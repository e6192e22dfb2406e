/*
 * chunked.h
 *		Bodies of HTTP/1.1 in chunks (RFC 9112, section 7.1), taken apart as they come.
 *
 * libcurl could do this, but tells nobody what came around the chunks: an extension without an end, or one
 * with each byte, is traffic that no limit of the body would count (W-55).
 */
#ifndef ATP_CHUNKED_H
#define ATP_CHUNKED_H

#include "core/atp.h"

/* All zero at the beginning of a body. */
typedef struct AtpChunked
{
	int			state;
	unsigned	digits;			/* of the size, so far */
	uint64_t	left;			/* of the chunk */
	uint64_t	contents;		/* bytes that chunks have brought ... */
	uint64_t	around;			/* ... and bytes around them */
} AtpChunked;

/*
 * The next piece of the contents, in place; *in and *n move behind it.  An empty piece: all that came is
 * used up, or the body has ended, behind which nothing is looked at.
 */
extern AtpErr atp_chunked_next(AtpChunked *c, const uint8_t **in, size_t *n, AtpBytes *piece);

/* Has the body come to its end? */
extern bool atp_chunked_is_whole(const AtpChunked *c);

#endif							/* ATP_CHUNKED_H */
