/*
 * multikey.h
 *		Public keys as text: did:key, Multikey and older forms (W-09 to W-12).  A key is kept as the bytes of
 *		its Multikey: two bytes for the curve, and a compressed point.  Whether the point lies on the curve is
 *		checked elsewhere (src/common/signature.c).
 */
#ifndef ATP_MULTIKEY_H
#define ATP_MULTIKEY_H

#include "core/atp.h"

#define ATP_POINT_LEN		33	/* 02 or 03, and x */
#define ATP_POINT_LONG_LEN	65	/* 04, x and y */
#define ATP_MULTIKEY_LEN	(2 + ATP_POINT_LEN)
#define ATP_BASE58_MAX		128 /* characters (W-12): the decoder's time grows with the square */

typedef enum AtpCurve
{
	ATP_K256,					/* secp256k1 */
	ATP_P256					/* NIST P-256, secp256r1 */
} AtpCurve;

/* V-08: the key's first two bytes name its curve. */
static inline AtpCurve
atp_multikey_curve(const uint8_t key[ATP_MULTIKEY_LEN])
{
	return key[0] == 0xe7 ? ATP_K256 : ATP_P256;
}

/*
 * W-09: parses "z…", or "did:key:z…".  The caller must check that the point lies on the curve (W-11), which needs a
 * library for curves.
 */
extern AtpErr atp_multikey_parse(const char *s, size_t n, uint8_t key[ATP_MULTIKEY_LEN], size_t *at);

/*
 * W-10: parses "z…" of a point alone, compressed or not. point is the point as written: the check of the
 * curve needs it, because compression would hide that an uncompressed point is not on the curve.
 */
extern AtpErr atp_multikey_parse_bare(const char *s, size_t n, AtpCurve curve, uint8_t key[ATP_MULTIKEY_LEN],
									  uint8_t point[ATP_POINT_LONG_LEN], size_t *len, size_t *at);

/* The key of this curve with this compressed point, which is not checked. */
extern void atp_multikey_make(AtpCurve curve, const uint8_t point[ATP_POINT_LEN], uint8_t key[ATP_MULTIKEY_LEN]);

#define ATP_MULTIKEY_TEXT	49	/* "z" and 48 digits: the first two bytes make the text of each key so long */

/* The key as text, "z…"; returns its length. */
extern size_t atp_multikey_text(const uint8_t key[ATP_MULTIKEY_LEN], char out[ATP_MULTIKEY_TEXT]);

#endif							/* ATP_MULTIKEY_H */
