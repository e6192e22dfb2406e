/*
 * uri.h
 *		AT URIs and NOSH URIs: one parser for both schemes, the three levels of
 *		validity, normal form, stored form and order.  Rules,
 *		N1 to N10, N-01 to N-10; its levels are those of doc/conformance.md.
 *
 * Stored form (what the SQL types aturi and noshuri hold): the text after
 * "at://" (or "nosh://"), with three substitutions: an authority that is a
 * "did:plc:" DID with 24 characters of [a-z2-7] becomes ATP_URI_TAG_PLC and
 * 15 bytes (as in did.h); the beginning of the path, if it is one of those in
 * uri_private.h, becomes one byte from ATP_URI_TAG_PATH on (the longest one
 * counts); and a second path segment, with the '/' before it, that is a valid
 * TID becomes ATP_URI_TAG_TID and 8 bytes, big-endian.  Each text has exactly
 * one stored form.
 *
 * Order: by component (authority, then path segments, query, fragment), each
 * bytewise: '/', '?' and '#' and the end of the text sort before every other
 * byte, in the order end < '#' < '?' < '/'.  So a repository, and a collection
 * in it, is one contiguous range.
 */
#ifndef ATP_URI_H
#define ATP_URI_H

#include "core/atp.h"

#define ATP_URI_MAX		8192	/* bytes, A-17, D17 */
#define ATP_URI_TAG_PLC	0x01
#define ATP_URI_TAG_TID	0x02
#define ATP_URI_TAG_PATH	0x03

typedef enum AtpScheme
{
	ATP_SCHEME_AT,
	ATP_SCHEME_NOSH
} AtpScheme;

typedef enum AtpAuthority
{
	ATP_AUTHORITY_OPAQUE,		/* valid, but of no kind */
	ATP_AUTHORITY_DID,			/* at only */
	ATP_AUTHORITY_HANDLE,		/* for nosh: kind "name" (N-08) */
	ATP_AUTHORITY_ADDRESS,		/* nosh only, N-02 */
	ATP_AUTHORITY_AGENT			/* nosh only, N-02 */
} AtpAuthority;

/* The parts of a URI, as spans of the text.  Absent parts have ptr NULL. */
typedef struct AtpUri
{
	AtpScheme	scheme;
	AtpAuthority kind;
	AtpSpan		authority;
	AtpSpan		path;			/* with its leading '/' */
	AtpSpan		seg1;			/* first segment */
	AtpSpan		seg2;			/* second segment */
	unsigned	segments;
	AtpSpan		query;			/* without '?'; may be empty */
	AtpSpan		fragment;		/* without '#' */
	AtpSpan		collection;		/* seg1 when it is an NSID */
	AtpSpan		rkey;			/* seg2 when it is a record key and seg1 an NSID */
} AtpUri;

/* The general syntax; fills *uri. */
extern AtpErr atp_uri_parse(AtpScheme scheme, const char *s, size_t n, AtpUri *uri, size_t *at);

/* The higher levels, of a URI that atp_uri_parse() accepted; s as given there. */
extern AtpErr atp_uri_check_lexicon(const AtpUri *uri, const char *s, size_t *at);
extern AtpErr atp_uri_check_strict(const AtpUri *uri, const char *s, size_t n, size_t *at);

/*
 * lexicon-valid, with an authority that cannot pass to somebody else (a
 * DID; for nosh an address or agent), a collection and a record key.
 */
extern AtpErr atp_uri_check_record(const AtpUri *uri, const char *s, size_t *at);

/* N-08: strict, and the authority is an address or agent, not a name. */
extern bool atp_uri_is_strict_nosh(const AtpUri *uri, const char *s, size_t n);

/*
 * The normal form (N1 to N10) of liberal text.  out holds ATP_URI_MAX bytes; *on
 * is the length of the result, which is valid and its own normal form, and never
 * longer than the input.  A %7E stays encoded in a DID, which cannot have a '~'.
 */
extern AtpErr atp_uri_normalize(AtpScheme scheme, const char *restrict s, size_t n,
								char *restrict out, size_t *on, size_t *at);

/*
 * The normal form of a valid URI: every one has one, so this is ATP_OK for them.
 * It is what atp_uri_normalize() gives, which refuses an authority that would be a
 * DID if its escaped colons were colons, and is not valid: "did%3Aplc3Aabc".  Of
 * a valid URI that is an opaque authority like others.
 */
extern AtpErr atp_uri_normal_form(AtpScheme scheme, const char *restrict s, size_t n,
								  char *restrict out, size_t *on);

/*
 * As in did.h; the text is at most ATP_URI_MAX bytes.  After atp_uri_parse(),
 * atp_uri_store_parsed() does the same as atp_uri_store() without a search.
 */
extern size_t atp_uri_store(AtpScheme scheme, const char *restrict s, size_t n, uint8_t *restrict out);
extern size_t atp_uri_store_parsed(const AtpUri *uri, const char *restrict s, size_t n, uint8_t *restrict out);
extern size_t atp_uri_text(AtpScheme scheme, const uint8_t *restrict stored, size_t n, char *restrict out);
extern int	atp_uri_cmp(const uint8_t *a, size_t an, const uint8_t *b, size_t bn);

/*
 * Is a (stored) equal to b, or inside it: b and then '/', '?' or '#'?  If b has
 * a query itself, only b and '#'; if it has a fragment, only b and '/'.
 */
extern bool atp_uri_is_inside(const uint8_t *a, size_t an, const uint8_t *b, size_t bn);

/*
 * The smallest URI (stored, out holds ATP_URI_MAX bytes) greater than all that
 * are inside the given one: those are the range from it, to this one exclusive.
 * False when there is no such URI: with a query or fragment (what is inside is
 * then no single range), or when it would be longer than is allowed.
 */
extern bool atp_uri_upper_bound(AtpScheme scheme, const uint8_t *restrict stored, size_t n,
								uint8_t *restrict out, size_t *on);

/*
 * How much of a stored form is its authority; and its authority and first
 * segment, which is the same when there is no path.
 */
extern size_t atp_uri_repo_len(const uint8_t *stored, size_t n);
extern size_t atp_uri_collection_len(const uint8_t *stored, size_t n);

/* Eight bytes for sorting, as atp_did_abbrev() (did.h). */
extern uint64_t atp_uri_abbrev(const uint8_t *stored, size_t n);

/*
 * The reference tokens of a fragment as RFC 6901 has them: %HH is decoded
 * first (so that %2F separates, too), then ~1 is '/' and ~0 is '~'; D19: any
 * other '~' is an error.  Start with *pos = 0; false when there is no more
 * (*err = ATP_OK) or on an error, *at being its offset in the fragment.  token
 * holds fragment.len bytes; a token can be empty, have any byte in it, and be
 * no valid UTF-8.
 */
extern bool atp_uri_pointer_next(AtpSpan fragment, size_t *pos, char *token, size_t *len,
								 AtpErr *err, size_t *at);

#endif							/* ATP_URI_H */
