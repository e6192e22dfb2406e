/*
 * uri_level.c
 *		The levels above a valid URI: lexicon (N-03: of NOSH URIs, too), strict,
 *		and a record's URI.
 */
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri_private.h"

/* The error of check for this part, with its offset in the URI. */
static AtpErr
fail_part(AtpErr (*check) (const char *s, size_t n, size_t *at), AtpSpan part,
		  const char *s, size_t *at)
{
	AtpErr		err = check(part.ptr, part.len, at);

	*at += part.ptr - s;
	return err;
}

/*
 * a DID or handle, then a collection, then a record key.  A-05: a single
 * label is none of these. : the first segment is an NSID; A-34: the
 * second one keeps the rules of record keys: neither allows dot
 * segments or escapes.  A-32: there is no third segment; A-31: no query and no
 * fragment.
 */
AtpErr
atp_uri_check_lexicon(const AtpUri *uri, const char *s, size_t *at)
{
	if (uri->kind == ATP_AUTHORITY_OPAQUE)
	{
		if (uri->scheme == ATP_SCHEME_NOSH)
			return atp_fail(ATP_E_URI_NOSH_AUTHORITY, uri->authority.ptr - s, at);
		return fail_part(atp_handle_check, uri->authority, s, at);
	}
	if (uri->segments >= 1 && uri->collection.ptr == NULL)
		return fail_part(atp_nsid_check, uri->seg1, s, at);
	if (uri->segments >= 2 && uri->rkey.ptr == NULL)
		return fail_part(atp_rkey_check, uri->seg2, s, at);
	if (uri->segments > 2)
		return atp_fail(ATP_E_URI_SEGMENTS, uri->seg2.ptr + uri->seg2.len - s, at);
	if (uri->query.ptr != NULL)
		return atp_fail(ATP_E_URI_LEX_QUERY, uri->query.ptr - 1 - s, at);
	if (uri->fragment.ptr != NULL)
		return atp_fail(ATP_E_URI_LEX_FRAGMENT, uri->fragment.ptr - 1 - s, at);
	return ATP_OK;
}

/* Is the %HH at p, in a DID, in normal form? */
static bool
is_normal_triplet(const char *p, const char *end)
{
	char		value = atp_triplet_value(p);

	return !atp_char_is(p[1], ATP_C_LOWER) && !atp_char_is(p[2], ATP_C_LOWER) &&
		!atp_is_needless_encoding(value, true) &&
		!(value == '%' && atp_is_triplet(p + 2, end));
}

/*
 * The first character of an authority or collection that normalization would
 * change, or NULL. part is lexicon-valid: only upper case can be abnormal, and
 * in a DID an encoding that is needless, doubled, or has lower-case digits.
 */
static const char *
find_abnormal(AtpSpan part)
{
	const char *end = part.ptr + part.len;

	for (const char *p = part.ptr; p < end; p++)
	{
		if (atp_char_is(*p, ATP_C_UPPER))
			return p;
		if (*p == '%')
		{
			if (!is_normal_triplet(p, end))
				return p;
			p += 2;
		}
	}
	return NULL;
}

/*
 * strict is lexicon-valid, in normal form, and with a DID method that
 * is supported; D1: lexicon-valid URIs may have any method.
 */
AtpErr
atp_uri_check_strict(const AtpUri *uri, const char *s, size_t n, size_t *at)
{
	const char *abnormal;
	AtpErr		err = atp_uri_check_lexicon(uri, s, at);

	if (err != ATP_OK)
		return err;
	if (uri->kind == ATP_AUTHORITY_DID && !atp_did_is_blessed(uri->authority.ptr, uri->authority.len))
		return atp_fail(ATP_E_URI_DID_METHOD, uri->authority.ptr + 4 - s, at);
	abnormal = find_abnormal(uri->authority);
	if (abnormal == NULL && uri->collection.ptr != NULL)
		abnormal = find_abnormal(atp_nsid_domain(uri->collection.ptr, uri->collection.len));
	if (abnormal != NULL)
		return atp_fail(ATP_E_URI_NORMAL, abnormal - s, at);
	if (uri->rkey.ptr != NULL && memchr(uri->rkey.ptr, ':', uri->rkey.len) != NULL)
		return fail_part(atp_rkey_check_strict, uri->rkey, s, at);
	return ATP_OK;
}

AtpErr
atp_uri_check_record(const AtpUri *uri, const char *s, size_t *at)
{
	AtpErr		err = atp_uri_check_lexicon(uri, s, at);

	if (err != ATP_OK)
		return err;
	/* A name can pass to another owner: in uri.h. */
	if (uri->kind == ATP_AUTHORITY_HANDLE)
		return atp_fail(uri->scheme == ATP_SCHEME_AT ? ATP_E_URI_RECORD_DID :
						ATP_E_URI_RECORD_AGENT, uri->authority.ptr - s, at);
	if (uri->segments < 2)
	{
		AtpSpan		last = uri->segments == 0 ? uri->authority : uri->seg1;

		return atp_fail(uri->segments == 0 ? ATP_E_URI_RECORD_COLLECTION : ATP_E_URI_RECORD_RKEY,
						last.ptr + last.len - s, at);
	}
	return ATP_OK;
}

bool
atp_uri_is_strict_nosh(const AtpUri *uri, const char *s, size_t n)
{
	size_t		at;

	return uri->scheme == ATP_SCHEME_NOSH && uri->kind != ATP_AUTHORITY_HANDLE &&
		atp_uri_check_strict(uri, s, n, &at) == ATP_OK;
}
