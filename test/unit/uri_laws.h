/*
 * uri_laws.h
 *		The laws of every URI, and of every pair of URIs: the unit tests assert them on random values, and the
 *		fuzzer on its inputs.  Each function returns the broken law, or NULL.
 */
#ifndef URI_LAWS_H
#define URI_LAWS_H

#include "core/syntax/did.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/uri.h"
#include "protocol/stored.h"

#define LAW(law, cond) \
	do { \
		if (!(cond)) \
			return law; \
	} while (0)

static inline bool
same_bytes(const void *a, size_t an, const void *b, size_t bn)
{
	return an == bn && memcmp(a, b, an) == 0;
}

/* Of any bytes, as text. */
static inline const char *
broken_text_law(AtpScheme scheme, const char *s, size_t n)
{
	static char normal[ATP_URI_MAX];
	static char again[ATP_URI_MAX];
	static char token[ATP_URI_MAX];
	static uint8_t stored[ATP_URI_MAX];
	size_t		at = SIZE_MAX;
	size_t		normal_n;
	size_t		again_n;
	size_t		stored_n;
	AtpUri		uri;
	AtpUri		form;
	AtpErr		err;
	bool		normalizes;
	bool		is_normal;
	bool		lexicon;
	bool		strict;

	err = atp_uri_normalize(scheme, s, n, normal, &normal_n, &at);
	normalizes = err == ATP_OK;
	LAW("an error of normalizing is within the text", normalizes || at <= n);
	is_normal = normalizes && same_bytes(s, n, normal, normal_n);
	if (normalizes)
	{
		LAW("the normal form is valid",
			atp_uri_parse(scheme, normal, normal_n, &uri, &at) == ATP_OK);
		LAW("the normal form is its own",
			atp_uri_normalize(scheme, normal, normal_n, again, &again_n, &at) == ATP_OK &&
			same_bytes(again, again_n, normal, normal_n));
	}

	at = SIZE_MAX;
	if (atp_uri_parse(scheme, s, n, &uri, &at) != ATP_OK)
	{
		LAW("an error is within the text", at <= n);
		return NULL;
	}
	LAW("what is valid has a normal form",
		atp_uri_normal_form(scheme, s, n, again, &again_n) == ATP_OK && again_n <= n);
	if (normalizes)
		LAW("it is the one of liberal text", same_bytes(again, again_n, normal, normal_n));
	memcpy(normal, again, again_n);
	normal_n = again_n;
	LAW("it is valid", atp_uri_parse(scheme, normal, normal_n, &form, &at) == ATP_OK);
	LAW("it is its own", atp_uri_normal_form(scheme, normal, normal_n, again, &again_n) == ATP_OK &&
		same_bytes(again, again_n, normal, normal_n));
	if (form.kind == ATP_AUTHORITY_DID)
		LAW("and so is its DID", same_bytes(again, atp_did_normalize(form.authority.ptr, form.authority.len, again),
											form.authority.ptr, form.authority.len));
	if (uri.kind == ATP_AUTHORITY_DID)
		LAW("which is the normal form of the DID", same_bytes(again, atp_did_normalize(uri.authority.ptr, uri.authority.len, again),
															  form.authority.ptr, form.authority.len));
	LAW("a collection is the first segment",
		uri.collection.ptr == NULL || uri.collection.ptr == uri.seg1.ptr);
	LAW("a record key is the second segment, of a collection",
		uri.rkey.ptr == NULL || (uri.rkey.ptr == uri.seg2.ptr && uri.collection.ptr != NULL));
	LAW("the parts make up the whole",
		(scheme == ATP_SCHEME_AT ? 5 : 7) + uri.authority.len + uri.path.len +
		(uri.query.ptr != NULL) + uri.query.len +
		(uri.fragment.ptr != NULL) + uri.fragment.len == n);

	lexicon = atp_uri_check_lexicon(&uri, s, &at) == ATP_OK;
	LAW("an error of the lexicon level is within the text", lexicon || at <= n);
	strict = atp_uri_check_strict(&uri, s, n, &at) == ATP_OK;
	LAW("an error of the strict level is within the text", strict || at <= n);
	LAW("strict is lexicon, normal, blessed, with a strict record key",
		strict == (lexicon && is_normal &&
				   (uri.kind != ATP_AUTHORITY_DID ||
					atp_did_is_blessed(uri.authority.ptr, uri.authority.len)) &&
				   (uri.rkey.ptr == NULL ||
					atp_rkey_check_strict(uri.rkey.ptr, uri.rkey.len, &at) == ATP_OK)));
	LAW("a record is lexicon, with both segments",
		atp_uri_check_record(&uri, s, &at) != ATP_OK || (lexicon && uri.rkey.ptr != NULL));

	stored_n = atp_uri_store(scheme, s, n, stored);
	LAW("the stored form is shorter", stored_n <= n - (scheme == ATP_SCHEME_AT ? 5 : 7));
	/* bytes after the stored form in memory do not count */
	stored[stored_n] = '/';
	LAW("the beginning of a stored form is that of the authority",
		same_bytes(again, atp_uri_store(scheme, s, uri.authority.ptr + uri.authority.len - s, (uint8_t *) again),
				   stored, atp_uri_repo_len(stored, stored_n)));
	if (uri.segments > 0)
		LAW("and of the first segment",
			same_bytes(again, atp_uri_store(scheme, s, uri.seg1.ptr + uri.seg1.len - s, (uint8_t *) again),
					   stored, atp_uri_collection_len(stored, stored_n)));
	else
		LAW("without a path both are the same",
			atp_uri_collection_len(stored, stored_n) == atp_uri_repo_len(stored, stored_n));
	LAW("it is the same when the URI has been parsed",
		same_bytes(again, atp_uri_store_parsed(&uri, s, n, (uint8_t *) again), stored, stored_n));
	LAW("the stored form is valid",
		atp_uri_check_stored(scheme, stored, stored_n, &at) == ATP_OK);
	LAW("the text comes back",
		same_bytes(again, atp_uri_text(scheme, stored, stored_n, again), s, n));

	if (uri.fragment.ptr != NULL)
	{
		size_t		pos = 0;
		size_t		tokens = 0;
		size_t		len;

		while (atp_uri_pointer_next(uri.fragment, &pos, token, &len, &err, &at))
		{
			LAW("no more tokens than characters", ++tokens <= uri.fragment.len);
			LAW("a token is shorter than the fragment", len < uri.fragment.len);
		}
		LAW("an error of a pointer is within it", err == ATP_OK || at < uri.fragment.len);
	}
	return NULL;
}

/* Of any bytes, as a stored form. */
static inline const char *
broken_stored_law(AtpScheme scheme, const uint8_t *stored, size_t n)
{
	static char text[ATP_URI_MAX];
	static uint8_t again[ATP_URI_MAX];
	size_t		at = SIZE_MAX;
	size_t		text_n;
	AtpUri		uri;

	if (atp_uri_check_stored(scheme, stored, n, &at) != ATP_OK)
	{
		LAW("an error is within the stored form", at <= n);
		return NULL;
	}
	text_n = atp_uri_text(scheme, stored, n, text);
	LAW("what is stored is a valid text",
		text_n <= ATP_URI_MAX && atp_uri_parse(scheme, text, text_n, &uri, &at) == ATP_OK);
	LAW("a text has one stored form",
		same_bytes(again, atp_uri_store(scheme, text, text_n, again), stored, n));
	return NULL;
}

/* The order of one component: bytewise, with the delimiters first. */
static inline int
component_order(AtpSpan a, AtpSpan b)
{
	static const char delimiters[] = "#?/";

	/* an absent component sorts before an empty component */
	if (a.ptr == NULL || b.ptr == NULL)
		return (a.ptr != NULL) - (b.ptr != NULL);
	for (size_t i = 0; i < a.len && i < b.len; i++)
	{
		const char *ad = strchr(delimiters, a.ptr[i]);
		const char *bd = strchr(delimiters, b.ptr[i]);

		if (a.ptr[i] == b.ptr[i])
			continue;
		if (ad != NULL && bd != NULL)
			return ad < bd ? -1 : 1;
		if (ad != NULL || bd != NULL)
			return ad != NULL ? -1 : 1;
		return (uint8_t) a.ptr[i] < (uint8_t) b.ptr[i] ? -1 : 1;
	}
	return (a.len > b.len) - (a.len < b.len);
}

/* Takes the first segment off a path. */
static inline AtpSpan
take_segment(AtpSpan *path)
{
	AtpSpan		segment = {NULL, 0};

	if (path->len == 0)
		return segment;
	segment.ptr = path->ptr + 1;
	while (segment.len + 1 < path->len && segment.ptr[segment.len] != '/')
		segment.len++;
	path->ptr += segment.len + 1;
	path->len -= segment.len + 1;
	return segment;
}

/* The order of uri.h, from the parts of the texts. */
static inline int
uri_order(const AtpUri *a, const AtpUri *b)
{
	int			c = component_order(a->authority, b->authority);
	AtpSpan		ap = a->path;
	AtpSpan		bp = b->path;

	while (c == 0 && (ap.len > 0 || bp.len > 0))
		c = component_order(take_segment(&ap), take_segment(&bp));
	if (c == 0)
		c = component_order(a->query, b->query);
	if (c == 0)
		c = component_order(a->fragment, b->fragment);
	return c;
}

static inline bool
inside_text(const char *a, size_t an, const char *b, size_t bn)
{
	AtpSpan		query = {memchr(b, '?', bn), 0};
	AtpSpan		fragment = {memchr(b, '#', bn), 0};

	if (an < bn || memcmp(a, b, bn) != 0)
		return false;
	if (an == bn)
		return true;
	if (fragment.ptr != NULL)
		return a[bn] == '/';
	if (query.ptr != NULL)
		return a[bn] == '#';
	return a[bn] == '/' || a[bn] == '?' || a[bn] == '#';
}

/* The laws of two texts of one scheme, valid or not. */
static inline const char *
broken_pair_law(AtpScheme scheme, const char *a, size_t an, const char *b, size_t bn)
{
	static uint8_t as[ATP_URI_MAX];
	static uint8_t bs[ATP_URI_MAX];
	static uint8_t bound[ATP_URI_MAX];
	AtpUri		ua;
	AtpUri		ub;
	size_t		at;
	size_t		asn;
	size_t		bsn;
	size_t		bound_n;
	int			order;
	bool		inside;
	uint64_t	ka;
	uint64_t	kb;

	if (atp_uri_parse(scheme, a, an, &ua, &at) != ATP_OK ||
		atp_uri_parse(scheme, b, bn, &ub, &at) != ATP_OK)
		return NULL;
	asn = atp_uri_store(scheme, a, an, as);
	bsn = atp_uri_store(scheme, b, bn, bs);
	order = uri_order(&ua, &ub);
	inside = inside_text(a, an, b, bn);
	ka = atp_uri_abbrev(as, asn);
	kb = atp_uri_abbrev(bs, bsn);

#define SIGN(c) (((c) > 0) - ((c) < 0))
	LAW("the order is that of the components", SIGN(atp_uri_cmp(as, asn, bs, bsn)) == order);
	LAW("the order is antisymmetric", SIGN(atp_uri_cmp(bs, bsn, as, asn)) == -order);
	LAW("a value is equal to itself", atp_uri_cmp(as, asn, as, asn) == 0);
	LAW("equal are only equal bytes", (order == 0) == same_bytes(as, asn, bs, bsn));
	LAW("abbreviations are monotone", !(ka < kb && order >= 0) && !(ka > kb && order <= 0));
	LAW("inside is so of the texts", atp_uri_is_inside(as, asn, bs, bsn) == inside);
	if (atp_uri_upper_bound(scheme, bs, bsn, bound, &bound_n))
	{
		LAW("an upper bound is a value",
			atp_uri_check_stored(scheme, bound, bound_n, &at) == ATP_OK);
		LAW("what is inside is the range up to the bound",
			inside == (order >= 0 && atp_uri_cmp(as, asn, bound, bound_n) < 0));
	}
	else
		LAW("there is a bound unless a query, a fragment or a limit forbids it",
			ub.query.ptr != NULL || ub.fragment.ptr != NULL || bn + 3 > ATP_URI_MAX ||
			(scheme == ATP_SCHEME_AT && ub.authority.len + 3 > ATP_DID_MAX));
	return NULL;
}

#endif							/* URI_LAWS_H */
