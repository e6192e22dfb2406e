/*
 * did.h
 *		Decentralized identifiers: the only validator, the stored form and the
 *		order.  Rules I-20 to I-24 (doc/develop/conformance.md), D18.
 *
 * Stored form (of the SQL type did): the text itself, except that "did:plc:"
 * followed by exactly 24 characters of [a-z2-7] becomes ATP_DID_TAG and 15
 * bytes.  The 24 characters are written 5 bits each, most significant first,
 * with the alphabet in ASCII order ('2' = 0 ... '7' = 5, 'a' = 6 ... 'z' = 31),
 * so that memcmp() of two packed forms gives the order of the texts.  Each text
 * has exactly one stored form; a stored text begins with 'd', never with
 * ATP_DID_TAG.
 */
#ifndef ATP_DID_H
#define ATP_DID_H

#include "core/atp.h"

#define ATP_DID_MAX			2048
#define ATP_DID_TAG			0x01
#define ATP_DID_PLC_TEXT	32	/* "did:plc:" + 24 */
#define ATP_DID_PLC_STORED	16	/* tag + 15 */

/* I-20, D9: syntax only. */
extern AtpErr atp_did_check(const char *s, size_t n, size_t *at);

/* The functions below expect a text that atp_did_check() accepts. */
extern AtpSpan atp_did_method(const char *s, size_t n);
extern bool atp_did_is_blessed(const char *s, size_t n);	/* I-23: plc, web */

/* "did:plc:" and 24 characters of [a-z2-7]. */
extern bool atp_did_is_plc(const char *s, size_t n);

/* Text to stored form: returns its length (never more than n). */
extern size_t atp_did_store(const char *restrict s, size_t n, uint8_t *restrict out);

/*
 * Has the value a length that a stored form has?  A value of a damaged page, or of a cast without a check, may have any
 * bytes; atp_did_text() reads and writes within its bounds only if the length fits.
 */
extern bool atp_did_fits(const uint8_t *stored, size_t n);

/* Stored form to text: returns its length; out holds ATP_DID_MAX bytes. */
extern size_t atp_did_text(const uint8_t *restrict stored, size_t n, char *restrict out);

/* Order of the texts, bytewise, computed on stored forms: <0, 0, >0. */
extern int	atp_did_cmp(const uint8_t *a, size_t an, const uint8_t *b, size_t bn);

/*
 * Eight bytes for sorting: abbrev(a) < abbrev(b) only if a < b; equal
 * abbreviations say nothing.  Top two bits: 0 before "did:plc:", 1 with this
 * prefix, 2 after it (3: after all DIDs).  In class 1, five bits for each of
 * the next 12 characters follow; in the other classes, 7 characters (in class 2
 * those after "did:").
 */
extern uint64_t atp_did_abbrev(const uint8_t *stored, size_t n);

/*
 * Normal form (I-24; as the authority of a URI N2 to N4): %HH only where
 * needed, in upper case, and not encoded twice; did:plc and did:web in lower
 * case, except the digits of %HH.  Returns the length, never more than n; out may be
 * s itself.
 */
extern size_t atp_did_normalize(const char *s, size_t n, char *out);

#endif							/* ATP_DID_H */
