/*
 * uri_parse.c
 *		The general syntax of AT URIs, and the same syntax with
 *		the scheme nosh (N-01): one pass over the text that fills AtpUri.  The
 *		higher levels are in uri_level.c.
 */
#include "core/syntax/base32.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri_private.h"

/* N-02: "0x" and 40 hexadecimal digits.  N-09: whether an address is registered, its text does not tell. */
static bool
is_address(AtpSpan a)
{
	if (a.len != 42 || a.ptr[0] != '0' || a.ptr[1] != 'x')
		return false;
	for (size_t i = 2; i < a.len; i++)
	{
		if (!atp_char_is(a.ptr[i], ATP_C_HEX))
			return false;
	}
	return true;
}

/* N-02: a decimal integer from 1 to 2^256 - 1, no leading zero. */
static bool
is_agent(AtpSpan a)
{
	static const char limit[] =
		"115792089237316195423570985008687907853269984665640564039457584007913129639935";
	const size_t digits = sizeof(limit) - 1;

	if (a.len > digits || a.ptr[0] == '0')
		return false;
	for (size_t i = 0; i < a.len; i++)
	{
		if (!atp_char_is(a.ptr[i], ATP_C_DIGIT))
			return false;
	}
	return a.len < digits || memcmp(a.ptr, limit, digits) <= 0;
}

/*
 * an authority that is neither a DID nor a handle stays one opaque
 * text, also with what looks like a port, and also as a single label.  N-10: an
 * address or agent identifier has a kind with the scheme nosh only.
 */
static AtpAuthority
authority_kind(AtpScheme scheme, AtpSpan a, bool did)
{
	size_t		at;

	if (scheme == ATP_SCHEME_NOSH)
	{
		if (is_address(a))
			return ATP_AUTHORITY_ADDRESS;
		if (is_agent(a))
			return ATP_AUTHORITY_AGENT;
	}
	else if (did)
		return ATP_AUTHORITY_DID;
	if (!did && atp_handle_check(a.ptr, a.len, &at) == ATP_OK)
		return ATP_AUTHORITY_HANDLE;
	return ATP_AUTHORITY_OPAQUE;
}

/* Nearly every authority is a did:plc DID: this check looks at each character once. */
static bool
begins_with_plc(const char *p, const char *end)
{
	return end - p >= ATP_DID_PLC_TEXT && atp_did_is_plc(p, ATP_DID_PLC_TEXT) &&
		(end - p == ATP_DID_PLC_TEXT || atp_char_is(p[ATP_DID_PLC_TEXT], ATP_C_DELIMITER));
}

/*
 * Checks an authority that was scanned from start to stop: there is no user
 * information and no reserved character that is not escaped; the
 * authority is a DID, or is not empty and does not begin or end
 * with a colon.  A-06: "did:3000" is no host with a port, but a DID that
 * is not valid.
 */
static AtpErr
check_authority(const char *s, const char *start, const char *stop, const char *end,
				bool did, size_t *at)
{
	AtpErr		err;

	if (stop < end && !atp_char_is(*stop, ATP_C_DELIMITER))
		return atp_fail(*stop == '@' ? ATP_E_URI_USERINFO :
						*stop == '%' ? ATP_E_PERCENT : ATP_E_URI_AUTHORITY_CHAR, stop - s, at);
	if (did)
	{
		err = atp_did_check(start, stop - start, at);
		if (err != ATP_OK)
			*at += start - s;
		return err;
	}
	if (stop == start)
		return atp_fail(ATP_E_URI_AUTHORITY_EMPTY, start - s, at);
	if (*start == ':' || stop[-1] == ':')
		return atp_fail(ATP_E_URI_AUTHORITY_COLON, (*start == ':' ? start : stop - 1) - s, at);
	return ATP_OK;
}

/* Moves *p over the authority.  D5: the colons of a DID do not split the authority. */
static AtpErr
parse_authority(const char *s, const char **p, const char *end, AtpUri *uri, size_t *at)
{
	const char *start = *p;
	const char *stop;
	bool		did = uri->scheme == ATP_SCHEME_AT && atp_uri_begins_did(start, end);
	AtpErr		err;

	if (begins_with_plc(start, end))
		stop = start + ATP_DID_PLC_TEXT;
	else
	{
		stop = atp_scan_encoded(start, end, ATP_C_AUTHORITY);
		err = check_authority(s, start, stop, end, did, at);
		if (err != ATP_OK)
			return err;
	}
	uri->authority = (AtpSpan) {start, stop - start};
	uri->kind = authority_kind(uri->scheme, uri->authority, did);
	*p = stop;
	return ATP_OK;
}

/*
 * Moves *p, which is at a '/', over the path: any number of segments, none of
 * them empty, and no slash at the end (A-13, D16).  A-14: "." and ".."
 * are segments like others.  A-19: a first segment that is no NSID is no error,
 * only no collection.
 */
static AtpErr
parse_path(const char *s, const char **p, const char *end, AtpUri *uri, size_t *at)
{
	const char *start = *p;
	const char *stop = start;
	size_t		unused;

	while (stop < end && *stop == '/')
	{
		const char *seg = stop + 1;

		stop = atp_scan_encoded(seg, end, ATP_C_PCHAR);
		if (stop < end && !atp_char_is(*stop, ATP_C_DELIMITER))
			return atp_fail(*stop == '%' ? ATP_E_PERCENT : ATP_E_URI_CHAR, stop - s, at);
		if (stop == seg)
			return stop < end && *stop == '/' ? atp_fail(ATP_E_URI_SEGMENT_EMPTY, stop - s, at) :
				atp_fail(ATP_E_URI_TRAILING_SLASH, stop - 1 - s, at);
		uri->segments++;
		if (uri->segments == 1)
			uri->seg1 = (AtpSpan) {seg, stop - seg};
		else if (uri->segments == 2)
			uri->seg2 = (AtpSpan) {seg, stop - seg};
	}
	uri->path = (AtpSpan) {start, stop - start};
	*p = stop;

	if (atp_nsid_check(uri->seg1.ptr, uri->seg1.len, &unused) != ATP_OK)
		return ATP_OK;
	uri->collection = uri->seg1;
	if (uri->seg2.ptr != NULL &&
		atp_rkey_check(uri->seg2.ptr, uri->seg2.len, &unused) == ATP_OK)
		uri->rkey = uri->seg2;
	return ATP_OK;
}

/*
 * the text begins with the scheme and "//", so that a relative
 * reference is refused. : a character that no part may contain is an
 * error, also a space around the URI.  A-15: a query may be empty.  A-16: a
 * fragment begins with '/'.
 *
 * The same rules accept (N-04, N-05) or refuse (N-06) the published examples of
 * NOSH URIs, and accept the URIs that only Lexicons refuse.
 */
AtpErr
atp_uri_parse(AtpScheme scheme, const char *s, size_t n, AtpUri *uri, size_t *at)
{
	const char *prefix = atp_uri_prefix(scheme);
	const char *end = s + n;
	const char *p = s;
	AtpErr		err;

	memset(uri, 0, sizeof(*uri));
	uri->scheme = scheme;
	if (n > ATP_URI_MAX)
		return atp_fail(ATP_E_URI_LONG, ATP_URI_MAX, at);
	for (; *prefix != '\0'; prefix++, p++)
	{
		if (p == end || *p != *prefix)
			return atp_fail(scheme == ATP_SCHEME_AT ? ATP_E_URI_SCHEME_AT :
							ATP_E_URI_SCHEME_NOSH, p - s, at);
	}
	err = parse_authority(s, &p, end, uri, at);
	if (err != ATP_OK)
		return err;
	if (p < end && *p == '/')
	{
		err = parse_path(s, &p, end, uri, at);
		if (err != ATP_OK)
			return err;
	}
	if (p < end && *p == '?')
	{
		const char *query = p + 1;

		p = atp_scan_encoded(query, end, ATP_C_QUERY);
		uri->query = (AtpSpan) {query, p - query};
	}
	if (p < end && *p == '#')
	{
		const char *fragment = p + 1;

		if (fragment == end || *fragment != '/')
			return atp_fail(ATP_E_URI_FRAGMENT, fragment - s, at);
		p = atp_scan_encoded(fragment, end, ATP_C_QUERY);
		uri->fragment = (AtpSpan) {fragment, p - fragment};
	}
	if (p < end)
		return atp_fail(*p == '%' ? ATP_E_PERCENT : ATP_E_URI_CHAR, p - s, at);
	return ATP_OK;
}
