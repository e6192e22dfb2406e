/*
 * uri_private.h
 *		Shared by the uri_*.c files only.
 */
#ifndef ATP_URI_PRIVATE_H
#define ATP_URI_PRIVATE_H

#include "core/syntax/chars.h"
#include "core/syntax/uri.h"

static inline const char *
atp_uri_prefix(AtpScheme scheme)
{
	return scheme == ATP_SCHEME_AT ? "at://" : "nosh://";
}

static inline size_t
atp_uri_prefix_len(AtpScheme scheme)
{
	return scheme == ATP_SCHEME_AT ? 5 : 7;
}

/* Does the authority begin with "did:" in any case?  Then it must be a DID (D4, A-08). */
static inline bool
atp_uri_begins_did(const char *s, const char *end)
{
	return end - s >= 4 && s[3] == ':' && atp_char_lower(s[0]) == 'd' &&
		atp_char_lower(s[1]) == 'i' && atp_char_lower(s[2]) == 'd';
}

/* Bytes that stand for '/' and a TID. */
#define ATP_URI_TID_STORED		9

/*
 * Beginnings of paths that are stored in one byte, the first as
 * ATP_URI_TAG_PATH, the others as the following numbers: nearly all records of
 * today's network are in collections with these names.  The first entry is a
 * prefix of the others.  The list is part of the stored form: it cannot change.
 */
#define ATP_URI_PATHS			3
#define ATP_URI_PATH_MAX		16	/* length of the longest beginning */

extern const AtpSpan atp_uri_path[ATP_URI_PATHS];

/* Call only outside of a packed TID and a packed DID, whose bytes can have any value. */
static inline bool
atp_is_path_tag(uint8_t c)
{
	return c >= ATP_URI_TAG_PATH && c < ATP_URI_TAG_PATH + ATP_URI_PATHS;
}

/* The tag of a path in a stored form, or NULL; searched only directly after the authority. */
extern const uint8_t *atp_uri_path_tag(const uint8_t *p, const uint8_t *end);

#endif							/* ATP_URI_PRIVATE_H */
