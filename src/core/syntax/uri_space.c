/*
 * uri_space.c
 *		URIs of spaces, and of the records in them: see uri_space.h.
 */
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri_space.h"

/* The segments of a path, by their places. */
enum
{
	MARKER, TYPE, SKEY, AUTHOR, COLLECTION, RKEY, SEGMENTS
};

#define SPACE_SEGMENTS	(SKEY + 1)

static bool
is_nsid(AtpSpan s)
{
	size_t		at;

	return atp_nsid_check(s.ptr, s.len, &at) == ATP_OK;
}

static bool
is_did(AtpSpan s)
{
	size_t		at;

	return atp_did_check(s.ptr, s.len, &at) == ATP_OK;
}

static bool
is_rkey(AtpSpan s)
{
	size_t		at;

	return atp_rkey_check(s.ptr, s.len, &at) == ATP_OK;
}

bool
atp_uri_space(const AtpUri *uri, AtpUriSpace *space)
{
	AtpSpan		segment[SEGMENTS];
	const char *p = uri->path.ptr;
	const char *end = uri->path.ptr + uri->path.len;

	if (uri->kind != ATP_AUTHORITY_DID || (uri->segments != SPACE_SEGMENTS && uri->segments != SEGMENTS))
		return false;
	for (unsigned i = 0; i < uri->segments; i++)
	{
		const char *slash = memchr(p + 1, '/', end - p - 1);

		segment[i] = (AtpSpan) {p + 1, (slash != NULL ? slash : end) - p - 1};
		p = slash;
	}
	if (!atp_span_is(segment[MARKER], "space") || !is_nsid(segment[TYPE]) || !is_rkey(segment[SKEY]))
		return false;
	*space = (AtpUriSpace) {.end = segment[SKEY].ptr + segment[SKEY].len, .type = segment[TYPE], .skey = segment[SKEY]};
	if (uri->segments == SPACE_SEGMENTS)
		return true;
	space->author = segment[AUTHOR];
	space->collection = segment[COLLECTION];
	space->rkey = segment[RKEY];
	return is_did(segment[AUTHOR]) && is_nsid(segment[COLLECTION]) && is_rkey(segment[RKEY]);
}

void
atp_uri_space_normalize(char *path, char *end)
{
	for (int i = 0; path < end; i++)
	{
		char	   *slash = memchr(path, '/', end - path);
		char	   *stop = slash != NULL ? slash : end;
		AtpSpan		segment = {path, stop - path};

		if (i == MARKER && !atp_span_is(segment, "space"))
			return;
		if ((i == TYPE || i == COLLECTION) && is_nsid(segment))
			atp_nsid_normalize(path, segment.len, path);
		else if (i == AUTHOR && is_did(segment) && atp_did_is_blessed(path, segment.len))
			atp_lower_encoded(path, segment.len);
		path = slash != NULL ? slash + 1 : end;
	}
}
