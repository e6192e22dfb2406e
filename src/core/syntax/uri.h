/*
 * uri.h
 *		AT URIs and NOSH URIs: one parser for both schemes, the three levels of
 *		validity, normal form, stored form and order.  Rules, N1 to
 *		N10, N-01 to N-10; doc/develop/conformance.md defines the levels.
 *
 * Stored form (of the SQL types aturi and noshuri): the text after "at://" (or
 * "nosh://"), with three substitutions.  An authority that is a "did:plc:" DID
 * with 24 characters of [a-z2-7] becomes ATP_URI_TAG_PLC and 15 bytes (as in
 * did.h).  A beginning of the path that is listed in uri_store.c becomes one
 * byte from ATP_URI_TAG_PATH on (the longest beginning counts).  A second path
 * segment that is a valid TID becomes, with the '/' before it, ATP_URI_TAG_TID
 * and 8 bytes, big-endian.  Each text has exactly one stored form.
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

/* The longest text of a stored form of n bytes: scheme, DID, path and TID are unpacked. */
#define ATP_URI_TEXT_BOUND(n)	((n) + 64)

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
	ATP_AUTHORITY_OPAQUE,		/* valid, but of no kind below */
	ATP_AUTHORITY_DID,			/* at only */
	ATP_AUTHORITY_HANDLE,		/* in NOSH URIs: kind "name" (N-08) */
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

/* Checks of the higher levels, for a URI that atp_uri_parse() accepted; s is the same text. */
extern AtpErr atp_uri_check_lexicon(const AtpUri *uri, const char *s, size_t *at);
extern AtpErr atp_uri_check_strict(const AtpUri *uri, const char *s, size_t n, size_t *at);

/*
 * lexicon-valid, with a collection, a record key, and an authority that
 * cannot pass to another owner (a DID; in a NOSH URI an address or agent).
 */
extern AtpErr atp_uri_check_record(const AtpUri *uri, const char *s, size_t *at);

/* N-08: strict, and the authority is an address or agent, not a name. */
extern bool atp_uri_is_strict_nosh(const AtpUri *uri, const char *s, size_t n);

/*
 * The normal form (N1 to N10) of liberal text. out holds ATP_URI_MAX bytes; *on
 * is the length of the result.  The result is valid, is its own normal form,
 * and is never longer than the input. %7E stays encoded in a DID, which cannot
 * contain '~'.
 */
extern AtpErr atp_uri_normalize(AtpScheme scheme, const char *restrict s, size_t n,
								char *restrict out, size_t *on, size_t *at);

/*
 * The normal form of a valid URI; always ATP_OK.  The result is the same as
 * that of atp_uri_normalize(), with one exception: an authority that would be
 * an invalid DID if its encoded colons were colons ("did%3Aplc3Aabc").
 * atp_uri_normalize() refuses it; here it is an opaque authority.
 */
extern AtpErr atp_uri_normal_form(AtpScheme scheme, const char *restrict s, size_t n,
								  char *restrict out, size_t *on);

/*
 * Stored form, text and order: as the functions for DIDs in did.h; the text has
 * at most ATP_URI_MAX bytes, or ATP_URI_TEXT_BOUND(n) of a value that fits and
 * is damaged.  After atp_uri_parse(), atp_uri_store_parsed()
 * gives the same as atp_uri_store() without a search.
 */
extern size_t atp_uri_store(AtpScheme scheme, const char *restrict s, size_t n, uint8_t *restrict out);
extern size_t atp_uri_store_parsed(const AtpUri *uri, const char *restrict s, size_t n, uint8_t *restrict out);
extern bool atp_uri_fits(AtpScheme scheme, const uint8_t *stored, size_t n);
extern size_t atp_uri_text(AtpScheme scheme, const uint8_t *restrict stored, size_t n, char *restrict out);
extern int	atp_uri_cmp(const uint8_t *a, size_t an, const uint8_t *b, size_t bn);

/*
 * Is a (stored) equal to b, or inside it: b followed by '/', '?' or '#'?  If b
 * has a query, only by '#' counts; if b has a fragment, only by '/'.
 */
extern bool atp_uri_is_inside(const uint8_t *a, size_t an, const uint8_t *b, size_t bn);

/*
 * The smallest URI (stored, out holds ATP_URI_MAX bytes) greater than all URIs
 * inside the given one: they are the range from the given URI to the result,
 * exclusive.  False when there is no such URI: with a query or fragment (then
 * the URIs inside are no single range), or when the result would be too long.
 */
extern bool atp_uri_upper_bound(AtpScheme scheme, const uint8_t *restrict stored, size_t n,
								uint8_t *restrict out, size_t *on);

/*
 * The length of a stored form's authority; and of its authority and first
 * segment.  Both are the same without a path.
 */
extern size_t atp_uri_repo_len(const uint8_t *stored, size_t n);
extern size_t atp_uri_collection_len(const uint8_t *stored, size_t n);

/* Eight bytes for sorting, as atp_did_abbrev() (did.h). */
extern uint64_t atp_uri_abbrev(const uint8_t *stored, size_t n);

/*
 * The reference tokens of a fragment by RFC 6901: first %HH is decoded (so that
 * %2F separates, too), then ~1 becomes '/' and ~0 '~'.  D19: any other '~' is
 * an error.  Start with *pos = 0.  False after the last token (*err = ATP_OK),
 * or on an error, with *at its offset in the fragment. token holds fragment.len
 * bytes.  A token can be empty, contain any byte, and be invalid UTF-8.
 */
extern bool atp_uri_pointer_next(AtpSpan fragment, size_t *pos, char *token, size_t *len,
								 AtpErr *err, size_t *at);

#endif							/* ATP_URI_H */
