/*
 * http_body.c
 *		The body of an answer: kept decoded up to its limit, or as it came until
 *		somebody reads it.  Either way its memory is bounded, however well it was
 *		packed: it is decoded here and not by libcurl, which decodes first.
 */
#include "postgres.h"

#include "net/http_private.h"

#define PIECE	16384

AtpHttpBodyResult
atp_body_take(AtpHttpBody *body, const void *data, size_t n)
{
	const uint8_t *in = data;
	AtpHttpBodyResult result = ATP_BODY_TAKEN;

	if (body->stream)
	{
		if (body->raw == NULL && (body->raw = malloc(ATP_HTTP_RAW_MAX)) == NULL)
			return ATP_BODY_NO_MEMORY;
		if (ATP_HTTP_RAW_MAX - (body->raw_to - body->raw_from) < n)
			return ATP_BODY_LATER;
		if (ATP_HTTP_RAW_MAX - body->raw_to < n)
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
			got = atp_inflate(body->inflate, &in, &n, body->kept + body->len, want);
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
	return got;
}

bool
atp_body_has_room(const AtpHttpBody *body)
{
	return ATP_HTTP_RAW_MAX - (body->raw_to - body->raw_from) >= ATP_HTTP_RAW_MAX / 2;
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
	*body = (AtpHttpBody) {.stream = body->stream, .max = body->max};
}
