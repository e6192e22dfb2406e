/*
 * multikey.h
 *		Public keys as text, did:key, Multikey and older (W-09 to W-12).  A key is kept
 *		as the bytes of its Multikey: two that name the curve, and a compressed
 *		point.
 */
#ifndef ATP_MULTIKEY_H
#define ATP_MULTIKEY_H

#include "core/atp.h"

#define ATP_POINT_LEN		33	/* 02 or 03, and x */
#define ATP_POINT_LONG_LEN	65	/* 04, x and y */
#define ATP_MULTIKEY_LEN	(2 + ATP_POINT_LEN)
#define ATP_BASE58_MAX		128	/* characters, W-12: the time it takes grows with the square */

typedef enum AtpCurve
{
	ATP_K256,					/* secp256k1 */
	ATP_P256					/* NIST P-256, secp256r1 */
} AtpCurve;

static inline AtpCurve
atp_multikey_curve(const uint8_t key[ATP_MULTIKEY_LEN])
{
	return key[0] == 0xe7 ? ATP_K256 : ATP_P256;
}

/*
 * "z…", or "did:key:z…".  Whether the point is one of the curve's has to be asked
 * of whoever knows the curve (W-11).
 */
extern AtpErr atp_multikey_parse(const char *s, size_t n, uint8_t key[ATP_MULTIKEY_LEN], size_t *at);

/*
 * W-10: "z…" of a point alone, compressed or not.  The point is given as it was
 * written, too: compressing would hide that it is not on the curve.
 */
extern AtpErr atp_multikey_parse_bare(const char *s, size_t n, AtpCurve curve, uint8_t key[ATP_MULTIKEY_LEN],
									  uint8_t point[ATP_POINT_LONG_LEN], size_t *len, size_t *at);

#define ATP_MULTIKEY_TEXT	49	/* "z" and 48 digits: with what they begin with, keys have so many */

/* As text, "z…"; returns its length. */
extern size_t atp_multikey_text(const uint8_t key[ATP_MULTIKEY_LEN], char out[ATP_MULTIKEY_TEXT]);

#endif							/* ATP_MULTIKEY_H */
