/*
 * http_body.c
 *		The body of an answer: decoded and kept up to its limit, or, with stream, kept
 *		as received until the caller reads.
 *
 * Both ways the memory is bounded, whatever the compression ratio.  Therefore this file decodes gzip
 * and not libcurl, which would decode a piece without limit before handing it over.
 */
#include "postgres.h"

#include "net/http_private.h"

#define PIECE	16384

/*
 * W-55: gzip adds a few bytes at most to incompressible data.  So an answer with more than PACKED_PER_BYTE
 * compressed bytes for each decoded byte, beyond PACKED_FREE, is traffic without content, for example empty
 * gzip members.
 */
#define PACKED_FREE		65536
#define PACKED_PER_BYTE	2

static bool
is_padded(const AtpHttpBody *body)
{
	return body->packed > PACKED_FREE && (body->packed - PACKED_FREE) / PACKED_PER_BYTE > body->len;
}

bool
atp_body_has_room_for(const AtpHttpBody *body, size_t n)
{
	return body->raw_max - (body->raw_to - body->raw_from) >= n;
}

const char *
atp_body_fault(AtpHttpBodyResult result, AtpHttpOutcome *outcome)
{
	*outcome = result == ATP_BODY_FULL || result == ATP_BODY_PADDED ? ATP_HTTP_TOO_LARGE : ATP_HTTP_BROKEN;
	switch (result)
	{
		case ATP_BODY_FULL:
			return "the answer is too large";
		case ATP_BODY_PADDED:
			return "what was sent is far more than the answer";
		case ATP_BODY_BROKEN:
			return "the answer's encoding is wrong";
		default:
			return "out of memory";
	}
}

AtpHttpBodyResult
atp_body_take(AtpHttpBody *body, const void *data, size_t n)
{
	const uint8_t *in = data;
	AtpHttpBodyResult result = ATP_BODY_TAKEN;

	if (body->stream)
	{
		if (body->raw == NULL && (body->raw = malloc(body->raw_max)) == NULL)
			return ATP_BODY_NO_MEMORY;
		if (!atp_body_has_room_for(body, n))
			return ATP_BODY_LATER;
		if (body->raw_max - body->raw_to < n)
		{
			memmove(body->raw, body->raw + body->raw_from, body->raw_to - body->raw_from);
			body->raw_to -= body->raw_from;
			body->raw_from = 0;
		}
		memcpy(body->raw + body->raw_to, data, n);
		body->raw_to += n;
		return ATP_BODY_TAKEN;
	}
	if (body->gzip && body->inflate == NULL && (body->inflate = atp_inflate_new()) == NULL)
		return ATP_BODY_NO_MEMORY;
	for (;;)
	{
		size_t		want = Min(body->max + 1 - body->len, body->gzip ? PIECE : (int64) n);
		size_t		got;

		if (body->len + want + 1 > body->room)
		{
			size_t		room = Max(2 * body->room, body->len + want + 1);
			char	   *more = realloc(body->kept, room);

			if (more == NULL)
				return ATP_BODY_NO_MEMORY;
			body->kept = more;
			body->room = room;
		}
		if (body->gzip)
		{
			size_t		given = n;

			got = atp_inflate(body->inflate, &in, &n, body->kept + body->len, want);
			body->packed += given - n;
		}
		else
		{
			memcpy(body->kept + body->len, in, want);
			got = want;
		}
		body->len += got;
		if (body->len > body->max)
		{
			body->len = body->max;
			result = ATP_BODY_FULL;
		}
		body->kept[body->len] = '\0';
		if (body->gzip && atp_inflate_is_broken(body->inflate))
			return ATP_BODY_BROKEN;
		if (is_padded(body))
			return ATP_BODY_PADDED;
		if (result == ATP_BODY_FULL || !body->gzip || got < want)
			return result;
	}
}

size_t
atp_body_read(AtpHttpBody *body, void *buf, size_t size, AtpHttpBodyResult *result)
{
	const uint8_t *in;
	size_t		n = body->raw_to - body->raw_from;
	size_t		want = Min(size, body->max + 1 - body->len);
	size_t		got;

	*result = ATP_BODY_TAKEN;
	if (body->raw == NULL || size == 0)
		return 0;
	in = body->raw + body->raw_from;
	if (body->gzip && body->inflate == NULL && (body->inflate = atp_inflate_new()) == NULL)
	{
		*result = ATP_BODY_NO_MEMORY;
		return 0;
	}
	if (body->gzip)
		got = atp_inflate(body->inflate, &in, &n, buf, want);
	else
	{
		got = Min(n, want);
		memcpy(buf, in, got);
		n -= got;
	}
	if (body->gzip)
		body->packed += (body->raw_to - body->raw_from) - n;
	body->raw_from = body->raw_to - n;
	body->len += got;
	if (body->len > body->max)
	{
		got -= body->len - body->max;
		body->len = body->max;
		*result = ATP_BODY_FULL;
	}
	else if (body->gzip && atp_inflate_is_broken(body->inflate))
		*result = ATP_BODY_BROKEN;
	else if (is_padded(body))
		*result = ATP_BODY_PADDED;
	return got;
}

bool
atp_body_has_room(const AtpHttpBody *body)
{
	return body->raw_max - (body->raw_to - body->raw_from) >= body->raw_max / 2;
}

bool
atp_body_is_whole(const AtpHttpBody *body)
{
	return body->inflate == NULL || atp_inflate_is_whole(body->inflate);
}

void
atp_body_reset(AtpHttpBody *body)
{
	atp_inflate_free(body->inflate);
	free(body->kept);
	free(body->raw);
	*body = (AtpHttpBody) {.stream = body->stream, .max = body->max, .raw_max = body->raw_max};
}
