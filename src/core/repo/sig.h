/*
 * sig.h
 *		Signatures of commits and labels (V-05 to V-08, V-49): which bytes are
 *		signed, and which signatures are invalid for any key.  The caller
 *		provides the arithmetic of curves, as it provides SHA-256.
 */
#ifndef ATP_SIG_H
#define ATP_SIG_H

#include "core/atp.h"
#include "core/codec/cbor_write.h"
#include "core/syntax/multikey.h"

#define ATP_SIG_LEN		64		/* r and s, big-endian (V-06) */

/*
 * Verifies a signature of the digest by the key.  ATP_E_SIG_WRONG: not this
 * key's signature.  ATP_E_KEY_POINT: the key is not a point of its curve
 * (W-11).  ATP_E_KEY_BUILD: this build lacks the curve.  The caller has checked
 * that r is in 1 to n - 1 and s in 1 to n / 2.
 */
typedef AtpErr (*AtpVerifyFn) (void *ctx, const uint8_t key[ATP_MULTIKEY_LEN],
							   const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN]);

/* Can the key be read?  ATP_E_KEY_POINT: it is not a point of its curve (W-11).  ATP_E_KEY_BUILD: as for AtpVerifyFn. */
typedef AtpErr (*AtpKeyFn) (void *ctx, const uint8_t key[ATP_MULTIKEY_LEN]);

/* The caller's arithmetic of curves. */
typedef struct AtpVerifier
{
	AtpVerifyFn verify;
	AtpKeyFn	read;			/* much cheaper than verify */
	void	   *ctx;
} AtpVerifier;

/*
 * V-05: writes the signed bytes to w, at most n: the map, as DAG-CBOR, without
 * "sig".  V-49: a label is signed without "$type", too.
 */
extern AtpErr atp_sig_cut(const uint8_t *block, size_t n, bool is_label, AtpCborWriter *w,
						  AtpBytes *sig, size_t *at);

/* V-06, V-07: 64 bytes, r and s in range, s in the lower half of its range. */
extern AtpErr atp_sig_check(AtpCurve curve, AtpBytes sig);

/*
 * B-61: checks and verifies the signature of the bytes that atp_sig_cut() wrote.  V-08: which curve, the key
 * alone says.
 */
extern AtpErr atp_sig_verify(const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t *bytes, size_t n, AtpBytes sig,
							 AtpSha256Fn sha256, void *sha_ctx, AtpVerifyFn verify, void *ctx);

#endif							/* ATP_SIG_H */
