/*
 * inflate.c
 *		A gzip decoder with bounded output: see inflate.h.
 */
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "net/inflate.h"

#define GZIP	(16 + MAX_WBITS)	/* accept gzip only, not zlib's own format, and without zlib's detection of the format */

struct AtpInflate
{
	z_stream	stream;
	bool		inside;			/* a member has begun, and has not ended */
	bool		broken;
};

AtpInflate *
atp_inflate_new(void)
{
	AtpInflate *z = calloc(1, sizeof(AtpInflate));

	if (z != NULL && inflateInit2(&z->stream, GZIP) != Z_OK)
	{
		free(z);
		return NULL;
	}
	return z;
}

void
atp_inflate_free(AtpInflate *z)
{
	if (z == NULL)
		return;
	(void) inflateEnd(&z->stream);
	free(z);
}

size_t
atp_inflate(AtpInflate *z, const uint8_t **in, size_t *n, void *out, size_t size)
{
	size_t		room = size < UINT_MAX ? size : UINT_MAX;
	size_t		given = *n < UINT_MAX ? *n : UINT_MAX;

	z->stream.next_in = (Bytef *) *in;
	z->stream.avail_in = (uInt) given;
	z->stream.next_out = out;
	z->stream.avail_out = (uInt) room;
	while (!z->broken && z->stream.avail_out > 0 && (z->stream.avail_in > 0 || z->inside))
	{
		int			rc;

		z->inside = true;
		rc = inflate(&z->stream, Z_NO_FLUSH);
		if (rc == Z_STREAM_END)
		{
			/* another gzip member may follow (RFC 1952, section 2.2) */
			z->inside = false;
			(void) inflateReset(&z->stream);
		}
		else if (rc == Z_BUF_ERROR)
			break;
		else if (rc != Z_OK)
			z->broken = true;
	}
	*in += given - z->stream.avail_in;
	*n -= given - z->stream.avail_in;
	return room - z->stream.avail_out;
}

bool
atp_inflate_is_broken(const AtpInflate *z)
{
	return z->broken;
}

bool
atp_inflate_is_whole(const AtpInflate *z)
{
	return !z->broken && !z->inside;
}
