/*
 * uri_private.h
 *		What the uri_*.c files share among themselves.
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

/* "did:" in any case: such an authority has to be a DID (D4, A-08). */
static inline bool
atp_uri_begins_did(const char *s, const char *end)
{
	return end - s >= 4 && s[3] == ':' && atp_char_lower(s[0]) == 'd' &&
		atp_char_lower(s[1]) == 'i' && atp_char_lower(s[2]) == 'd';
}

/* The bytes that stand for "/" and a TID. */
#define ATP_URI_TID_STORED		9

/*
 * Beginnings of paths that are stored in one byte, ATP_URI_TAG_PATH for the
 * first and so on: nearly all records of today's network are in collections
 * of these.  The first one is a prefix of the others.  The list is part of
 * the stored form: it cannot change.
 */
#define ATP_URI_PATHS			3
#define ATP_URI_PATH_MAX		16	/* the longest of them */

extern const AtpSpan atp_uri_path[ATP_URI_PATHS];

/* Not within the 8 bytes of a packed TID or the 15 of a DID: see uri.h. */
static inline bool
atp_is_path_tag(uint8_t c)
{
	return c >= ATP_URI_TAG_PATH && c < ATP_URI_TAG_PATH + ATP_URI_PATHS;
}

/* The tag of a path in a stored form, or NULL.  It comes after the authority. */
extern const uint8_t *atp_uri_path_tag(const uint8_t *p, const uint8_t *end);

#endif							/* ATP_URI_PRIVATE_H */
