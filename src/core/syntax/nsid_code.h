/*
 * nsid_code.h
 *		The stored form of an NSID (of the SQL type nsid): a code for the collections of nsid_list.h, else the text.
 *
 * A code is one byte, 0x80 and the number, for the first ATP_NSID_ONE_BYTE numbers.  For later numbers it is two bytes,
 * big-endian: 0xF000 and the number less ATP_NSID_ONE_BYTE.  A text begins with a letter of ASCII, so never like a
 * code.
 *
 * The list grows.  So a text may have two stored forms: tables have it as text if an older library stored it.  Equality,
 * order and hash are those of the texts, and bytes alone decide only that equal bytes are equal texts.
 */
#ifndef ATP_NSID_CODE_H
#define ATP_NSID_CODE_H

#include "core/atp.h"

#define ATP_NSID_ONE_BYTE	112
#define ATP_NSID_CODES_MAX	(ATP_NSID_ONE_BYTE + 4096)

/* Text to stored form: returns its length (never more than n).  The text must have passed atp_nsid_check(). */
extern size_t atp_nsid_store(const char *restrict s, size_t n, uint8_t *restrict out);

/*
 * The text of a stored form, in the stored form itself or in constant memory.  False: a code that this library does not
 * know, since a newer one wrote it, or the value is damaged.
 */
extern bool atp_nsid_text(const uint8_t *stored, size_t n, AtpSpan *text);

/* Is the stored form a code, of whatever library? */
static inline bool
atp_nsid_is_code(const uint8_t *stored, size_t n)
{
	return n > 0 && stored[0] >= 0x80;
}

/* The order of two texts, bytewise: <0, 0, >0. */
extern int	atp_nsid_text_cmp(AtpSpan a, AtpSpan b);

/* The first eight characters of the text, for sorting: abbrev(a) < abbrev(b) only if a < b. */
extern uint64_t atp_nsid_text_abbrev(AtpSpan text);

#endif							/* ATP_NSID_CODE_H */
