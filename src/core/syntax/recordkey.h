/*
 * recordkey.h
 *		Record keys, rules K-01 to K-10: the only validator, key types, the
 *		stored form and the order.
 *
 * Stored form (of the SQL type recordkey): the text itself, except that a valid
 * TID becomes ATP_RKEY_TAG and 8 bytes, big-endian.  Each text has exactly one
 * stored form; the tag is not a character of record keys.
 */
#ifndef ATP_RECORDKEY_H
#define ATP_RECORDKEY_H

#include "core/atp.h"

#define ATP_RKEY_MAX		512
#define ATP_RKEY_TAG		0x01
#define ATP_RKEY_TID_STORED	9

extern AtpErr atp_rkey_check(const char *s, size_t n, size_t *at);	/* K-01 to K-03, D2 */
extern AtpErr atp_rkey_check_strict(const char *s, size_t n, size_t *at);	/* D2: no ':' */

/*
 * K-07. type is "any", "tid", "nsid" or "literal:<value>".
 * atp_rkey_type_check() tells whether type is valid.  atp_rkey_matches()
 * expects a valid type and a valid record key s.
 */
extern AtpErr atp_rkey_type_check(const char *type, size_t n, size_t *at);
extern bool atp_rkey_matches(const char *s, size_t n, const char *type, size_t tn);

/* Stored form, text and order: as the functions for DIDs in did.h. */
extern size_t atp_rkey_store(const char *restrict s, size_t n, uint8_t *restrict out);
extern bool atp_rkey_fits(const uint8_t *stored, size_t n);
extern size_t atp_rkey_text(const uint8_t *restrict stored, size_t n, char *restrict out);	/* ATP_RKEY_MAX */
extern int	atp_rkey_cmp(const uint8_t *a, size_t an, const uint8_t *b, size_t bn);

/*
 * As atp_did_abbrev(): the first eight characters of the text.  For TIDs this
 * is a resolution of 33 milliseconds.
 */
extern uint64_t atp_rkey_abbrev(const uint8_t *stored, size_t n);

#endif							/* ATP_RECORDKEY_H */
