/*
 * uri_store.c
 *		The stored form of URIs: see uri.h.
 */
#include "core/syntax/base32.h"
#include "core/syntax/did.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri_private.h"

#define PATH(s)			{s, sizeof(s) - 1}

const AtpSpan atp_uri_path[ATP_URI_PATHS] = {
	PATH("/app.bsky."),
	PATH("/app.bsky.feed."),
	PATH("/app.bsky.graph."),
};

/* The index of the longest beginning in atp_uri_path that s has; -1 for none. */
static int
find_path(const char *s, size_t n)
{
	for (int i = ATP_URI_PATHS - 1; i >= 0; i--)
		if (n >= atp_uri_path[i].len && memcmp(s, atp_uri_path[i].ptr, atp_uri_path[i].len) == 0)
			return i;
	return -1;
}

const uint8_t *
atp_uri_path_tag(const uint8_t *p, const uint8_t *end)
{
	if (p < end && *p == ATP_URI_TAG_PLC)
		p += ATP_DID_PLC_STORED;
	else
		while (p < end && !atp_is_path_tag(*p) && *p != ATP_URI_TAG_TID &&
			   !atp_char_is((char) *p, ATP_C_DELIMITER))
			p++;
	return p < end && atp_is_path_tag(*p) ? p : NULL;
}

/* The next '/', '?' or '#' from p on, or end. */
static const char *
find_delimiter(const char *p, const char *end)
{
	while (p < end && !atp_char_is(*p, ATP_C_DELIMITER))
		p++;
	return p;
}

static uint8_t *
put_bytes(uint8_t *out, const void *p, size_t n)
{
	memcpy(out, p, n);
	return out + n;
}

/* Writes the stored form, given the places of the authority and of the second segment. */
static size_t
store_parts(AtpSpan authority, AtpSpan seg2, const char *end, uint8_t *out)
{
	uint8_t    *o = out + atp_did_store(authority.ptr, authority.len, out);
	const char *p = authority.ptr + authority.len;
	int			path = find_path(p, end - p);
	uint64_t	tid;
	size_t		at;

	if (path >= 0)
	{
		*o++ = (uint8_t) (ATP_URI_TAG_PATH + path);
		p += atp_uri_path[path].len;
	}
	if (seg2.ptr != NULL && atp_tid_parse(seg2.ptr, seg2.len, &tid, &at) == ATP_OK)
	{
		o = put_bytes(o, p, seg2.ptr - 1 - p);
		*o++ = ATP_URI_TAG_TID;
		atp_put_be64(o, tid);
		o += ATP_URI_TID_STORED - 1;
		p = seg2.ptr + seg2.len;
	}
	return put_bytes(o, p, end - p) - out;
}

size_t
atp_uri_store_parsed(const AtpUri *uri, const char *restrict s, size_t n, uint8_t *restrict out)
{
	return store_parts(uri->authority, uri->seg2, s + n, out);
}

size_t
atp_uri_store(AtpScheme scheme, const char *restrict s, size_t n, uint8_t *restrict out)
{
	const char *end = s + n;
	const char *authority = s + atp_uri_prefix_len(scheme);
	const char *p = find_delimiter(authority, end);
	const char *authority_end = p;
	AtpSpan		seg2 = {NULL, 0};

	if (p < end && *p == '/')
		p = find_delimiter(p + 1, end);
	if (p < end && *p == '/')
	{
		seg2.ptr = p + 1;
		seg2.len = find_delimiter(p + 1, end) - seg2.ptr;
	}
	return store_parts((AtpSpan) {authority, authority_end - authority}, seg2, end, out);
}

/* The text is at least as long as scheme and stored form together. */
bool
atp_uri_fits(AtpScheme scheme, const uint8_t *stored, size_t n)
{
	const uint8_t *end = stored + n;
	const uint8_t *p = stored;

	if (n == 0 || n > ATP_URI_MAX - atp_uri_prefix_len(scheme))
		return false;
	if (*p == ATP_URI_TAG_PLC)
	{
		if (n < ATP_DID_PLC_STORED)
			return false;
		p += ATP_DID_PLC_STORED;
	}
	p = memchr(p, ATP_URI_TAG_TID, end - p);
	return p == NULL || end - p >= ATP_URI_TID_STORED;
}

size_t
atp_uri_text(AtpScheme scheme, const uint8_t *restrict stored, size_t n, char *restrict out)
{
	const uint8_t *end = stored + n;
	const uint8_t *path = atp_uri_path_tag(stored, end);
	const uint8_t *tag;
	char	   *o = out;

	o = (char *) put_bytes((uint8_t *) o, atp_uri_prefix(scheme), atp_uri_prefix_len(scheme));
	if (stored[0] == ATP_URI_TAG_PLC)
	{
		o += atp_did_text(stored, ATP_DID_PLC_STORED, o);
		stored += ATP_DID_PLC_STORED;
	}
	if (path != NULL)
	{
		const AtpSpan *prefix = &atp_uri_path[*path - ATP_URI_TAG_PATH];

		o = (char *) put_bytes((uint8_t *) o, stored, path - stored);
		o = (char *) put_bytes((uint8_t *) o, prefix->ptr, prefix->len);
		stored = path + 1;
	}
	tag = memchr(stored, ATP_URI_TAG_TID, end - stored);
	if (tag != NULL)
	{
		o = (char *) put_bytes((uint8_t *) o, stored, tag - stored);
		*o++ = '/';
		atp_tid_format(atp_get_be64(tag + 1), o);
		o += ATP_TID_TEXT;
		stored = tag + ATP_URI_TID_STORED;
	}
	o = (char *) put_bytes((uint8_t *) o, stored, end - stored);
	return o - out;
}
