/*
 * uri_from.c
 *		AT URIs in spellings that people paste (A-42), and from addresses of web pages (A-43).
 *
 * Escapes are decoded once.  A text that would still have an escape after this decoding is not known: whether
 * its author escaped twice or meant an escape, the text does not tell.
 */
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri.h"
#include "core/syntax/uri_from.h"

/* Does the text begin with a prefix that is written in lower case here, and in any case there? */
static bool
begins_with(AtpSpan s, const char *prefix)
{
	size_t		n = strlen(prefix);

	if (s.len < n)
		return false;
	for (size_t i = 0; i < n; i++)
	{
		if (atp_char_lower(s.ptr[i]) != prefix[i])
			return false;
	}
	return true;
}

static AtpSpan
skip_bytes(AtpSpan s, size_t n)
{
	return (AtpSpan) {s.ptr + n, s.len - n};
}

/* The part before the first byte of stop, or all. */
static AtpSpan
text_before(AtpSpan s, const char *stop)
{
	for (size_t i = 0; i < s.len; i++)
	{
		if (s.ptr[i] != '\0' && strchr(stop, s.ptr[i]) != NULL)
			return (AtpSpan) {s.ptr, i};
	}
	return s;
}

static bool
is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static AtpSpan
trim_space(const char *s, size_t n)
{
	while (n > 0 && is_space(s[n - 1]))
		n--;
	while (n > 0 && is_space(*s))
		s++, n--;
	return (AtpSpan) {s, n};
}

static bool
has_byte(AtpSpan s, char c)
{
	return s.len > 0 && memchr(s.ptr, c, s.len) != NULL;
}

/* --- candidate forms (A-42) --- */

/* The length of the colon that a text begins with, escaped or not; 0 for no colon. */
static size_t
colon_length(AtpSpan s)
{
	return begins_with(s, ":") ? 1 : begins_with(s, "%3a") ? 3 : 0;
}

/* Writes "did:" method ":" identifier for a DID of which the two colons may be escaped.  Returns the length, or 0. */
static size_t
write_did(AtpSpan a, char *out)
{
	size_t		colon = colon_length(skip_bytes(a, 3));
	AtpSpan		method = text_before(skip_bytes(a, 3 + colon), ":%");
	AtpSpan		id = skip_bytes(a, 3 + colon + method.len);
	bool		plain = colon + colon_length(id) == 2;

	if (colon_length(id) == 0)
		return 0;
	id = skip_bytes(id, colon_length(id));
	for (size_t i = 0; i < id.len; i++)
	{
		if (id.ptr[i] == '%' && (!plain || begins_with(skip_bytes(id, i), "%25")))
			return 0;
	}
	memcpy(out, a.ptr, 3);
	out[3] = ':';
	memcpy(out + 4, method.ptr, method.len);
	out[4 + method.len] = ':';
	memcpy(out + 5 + method.len, id.ptr, id.len);
	return 5 + method.len + id.len;
}

/* An authority that is no DID has no escapes here: no handle has any. */
static size_t
write_authority(AtpSpan a, char *out)
{
	if (begins_with(a, "did") && colon_length(skip_bytes(a, 3)) > 0)
		return write_did(a, out);
	if (has_byte(a, '%'))
		return 0;
	memcpy(out, a.ptr, a.len);
	return a.len;
}

/* Writes the text of a known form with "at://" before a plain authority.  Returns the length, 0 for an unknown form. */
static size_t
write_plain(AtpSpan s, char *out)
{
	AtpSpan		a;
	AtpSpan		authority;
	size_t		n;

	if (begins_with(s, "at:did:"))
		a = skip_bytes(s, 3);
	else if (begins_with(s, "at:///did:"))
		a = skip_bytes(s, 6);
	else if (begins_with(s, "at://"))
		a = skip_bytes(s, 5);
	else
		return 0;
	authority = text_before(a, "/?#");
	n = authority.len > 0 ? write_authority(authority, out + 5) : 0;
	if (n == 0)
		return 0;
	memcpy(out, "at://", 5);
	memcpy(out + 5 + n, a.ptr + authority.len, a.len - authority.len);
	return 5 + n + a.len - authority.len;
}

/* The normal form of a text, if the authority is an account. */
static bool
normalize_account(const char *restrict s, size_t n, char *restrict out, size_t *on)
{
	AtpUri		uri;
	size_t		at;

	return atp_uri_normalize(ATP_SCHEME_AT, s, n, out, on, &at) == ATP_OK &&
		atp_uri_parse(ATP_SCHEME_AT, out, *on, &uri, &at) == ATP_OK &&
		uri.kind != ATP_AUTHORITY_OPAQUE;
}

/* "at:did:" becomes longer by 2 bytes, "did%3Aplc%3A" shorter by 4. */
bool
atp_uri_from(const char *restrict s, size_t n, char *restrict out, size_t *on)
{
	char		plain[ATP_URI_MAX + 6];
	AtpSpan		text = trim_space(s, n);

	if (text.len > ATP_URI_MAX + 4)
		return false;
	n = write_plain(text, plain);
	return n > 0 && normalize_account(plain, n, out, on);
}

/* --- web pages (A-43) --- */

typedef enum Place
{
	AUTHORITY,
	COLLECTION,
	RKEY,
	NO_PLACE
} Place;

#define PLACES	NO_PLACE

static const char *const place_names[PLACES] = {"{authority}", "{collection}", "{rkey}"};

static Place
placeholder_of(AtpSpan segment)
{
	Place		place = AUTHORITY;

	while (place < PLACES && !atp_span_is(segment, place_names[place]))
		place++;
	return place;
}

static AtpErr
check_value(Place place, AtpSpan value, size_t *at)
{
	return place == AUTHORITY ? atp_identifier_check(value.ptr, value.len, at) :
		place == COLLECTION ? atp_nsid_check(value.ptr, value.len, at) :
		atp_rkey_check(value.ptr, value.len, at);
}

/* The next segment of a path that begins with '/', or is at its end. */
static bool
next_segment(AtpSpan *path, AtpSpan *segment)
{
	if (path->len == 0)
		return false;
	*segment = text_before(skip_bytes(*path, 1), "/");
	*path = skip_bytes(*path, 1 + segment->len);
	return true;
}

/* Literal segments may be empty: https://pdsls.dev/at://{authority} has one.  The last segment is not empty. */
AtpErr
atp_web_pattern_check(AtpSpan pattern, unsigned *places, size_t *at)
{
	AtpSpan		path;
	AtpSpan		host;
	AtpSpan		segment = {NULL, 0};

	*places = 0;
	if (pattern.len > ATP_WEB_MAX)
		return atp_fail(ATP_E_TOO_LONG, ATP_WEB_MAX, at);
	if (pattern.len < 8 || memcmp(pattern.ptr, "https://", 8) != 0)
		return atp_fail(ATP_E_WEB_SCHEME, 0, at);
	path = skip_bytes(pattern, 8);
	host = text_before(path, "/");
	if (atp_handle_check(host.ptr, host.len, at) != ATP_OK)
		return atp_fail(ATP_E_WEB_HOST, 8 + *at, at);
	for (size_t i = 0; i < host.len; i++)
	{
		if (atp_char_is(host.ptr[i], ATP_C_UPPER))
			return atp_fail(ATP_E_WEB_HOST, 8 + i, at);
	}
	path = skip_bytes(path, host.len);
	while (next_segment(&path, &segment))
	{
		Place		place = placeholder_of(segment);

		if (place != NO_PLACE && (*places & 1u << place) != 0)
			return atp_fail(ATP_E_WEB_TWICE, segment.ptr - pattern.ptr, at);
		if (place != NO_PLACE)
			*places |= 1u << place;
		for (size_t i = 0; place == NO_PLACE && i < segment.len; i++)
		{
			if (!atp_char_is(segment.ptr[i], ATP_C_PCHAR))
				return atp_fail(ATP_E_WEB_SEGMENT, segment.ptr + i - pattern.ptr, at);
		}
	}
	if (segment.ptr != NULL && segment.len == 0)
		return atp_fail(ATP_E_WEB_SEGMENT, pattern.len, at);
	return ATP_OK;
}

/* Each part is its placeholder or a value; a value is no placeholder, since no value has a '{'. */
AtpErr
atp_web_uri_check(AtpSpan uri, unsigned *places, size_t *at)
{
	AtpSpan		path;
	AtpSpan		segment;
	Place		place = AUTHORITY;

	*places = 0;
	if (uri.len > ATP_WEB_MAX)
		return atp_fail(ATP_E_TOO_LONG, ATP_WEB_MAX, at);
	if (uri.len < 5 || memcmp(uri.ptr, "at://", 5) != 0)
		return atp_fail(ATP_E_WEB_URI, 0, at);
	for (path = skip_bytes(uri, 4); next_segment(&path, &segment); place++)
	{
		size_t		offset = segment.ptr - uri.ptr;

		if (place == NO_PLACE)
			return atp_fail(ATP_E_WEB_URI, offset, at);
		if (placeholder_of(segment) == place)
			*places |= 1u << place;
		else if (check_value(place, segment, at) != ATP_OK || has_byte(segment, '%'))
			return atp_fail(ATP_E_WEB_URI, offset, at);
	}
	return ATP_OK;
}

/* Takes host and path of an address: false for user information and ports, which no pattern has. */
static bool
split_address(AtpSpan s, AtpSpan *host, AtpSpan *path)
{
	if (begins_with(s, "https://"))
		s = skip_bytes(s, 8);
	else if (begins_with(s, "http://"))
		s = skip_bytes(s, 7);
	else
		return false;
	s = text_before(s, "?#");
	*host = text_before(s, "/");
	*path = skip_bytes(s, host->len);
	if (path->len > 0 && path->ptr[path->len - 1] == '/')
		path->len--;
	return true;
}

/*
 * Are some colons of a segment escaped, and others not?  "did:web:localhost%3A3000" can be a DID whose port is
 * escaped, put into the address as it is, or a DID whose last colon the address escapes: these are two DIDs.
 */
static bool
has_mixed_colons(AtpSpan segment)
{
	bool		escaped = false;

	for (size_t i = 0; i < segment.len; i++)
		escaped = escaped || begins_with(skip_bytes(segment, i), "%3a");
	return escaped && has_byte(segment, ':');
}

/* Decodes each escape of a segment once; false for a '%' that is none, or that comes of an escape. */
static bool
decode_segment(AtpSpan segment, char *out, size_t *n)
{
	const char *end = segment.ptr + segment.len;

	*n = 0;
	for (const char *p = segment.ptr; p < end; p++)
	{
		char		c = *p;

		if (c == '%')
		{
			if (!atp_is_triplet(p, end))
				return false;
			c = atp_triplet_value(p);
			p += 2;
		}
		if (c == '%' || *n == ATP_DID_MAX)
			return false;
		out[(*n)++] = c;
	}
	return true;
}

/* Writes the URI with the values in their places. */
static bool
write_places(AtpSpan uri, const AtpSpan *values, char *out, size_t *n)
{
	AtpSpan		path = skip_bytes(uri, 4);
	AtpSpan		segment;

	memcpy(out, "at:/", 4);
	*n = 4;
	while (next_segment(&path, &segment))
	{
		Place		place = placeholder_of(segment);

		if (place != NO_PLACE)
			segment = values[place];
		if (segment.ptr == NULL || *n + 1 + segment.len > ATP_URI_MAX)
			return false;
		out[(*n)++] = '/';
		memcpy(out + *n, segment.ptr, segment.len);
		*n += segment.len;
	}
	return true;
}

bool
atp_uri_from_web(const char *restrict s, size_t n, AtpSpan pattern, AtpSpan uri,
				 char *restrict out, size_t *on)
{
	char		decoded[PLACES][ATP_DID_MAX];
	char		text[ATP_URI_MAX];
	AtpSpan		values[PLACES] = {{NULL, 0}};
	AtpSpan		address = trim_space(s, n);
	AtpSpan		host;
	AtpSpan		path;
	AtpSpan		pattern_host;
	AtpSpan		pattern_path;
	AtpSpan		segment;
	AtpSpan		wanted;
	size_t		at;

	if (address.len > ATP_URI_MAX ||
		!split_address(address, &host, &path) ||
		!split_address(pattern, &pattern_host, &pattern_path) ||
		!atp_span_same_letters(host, pattern_host))
		return false;
	while (next_segment(&pattern_path, &wanted))
	{
		Place		place = placeholder_of(wanted);

		if (!next_segment(&path, &segment))
			return false;
		if (place == NO_PLACE)
		{
			if (segment.len != wanted.len || memcmp(segment.ptr, wanted.ptr, wanted.len) != 0)
				return false;
			continue;
		}
		values[place].ptr = decoded[place];
		if ((place == AUTHORITY && has_mixed_colons(segment)) ||
			!decode_segment(segment, decoded[place], &values[place].len) ||
			check_value(place, values[place], &at) != ATP_OK)
			return false;
	}
	return path.len == 0 && write_places(uri, values, text, &n) && normalize_account(text, n, out, on);
}
