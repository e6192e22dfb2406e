/*
 * signature.h
 *		Signature verification for src/core: k256 by libsecp256k1, P-256 by OpenSSL.
 *		Fetching keys, and judging whether a key is current, is not done here
 *		(src/identity).
 */
#ifndef ATP_SIGNATURE_H
#define ATP_SIGNATURE_H

#include "core/wire/diddoc.h"
#include "core/repo/sig.h"

/* Can this build verify k256 signatures, the curve of most accounts' keys? */
extern bool atp_signature_has_k256(void);

/* An AtpVerifyFn; ctx is not used.  Raises an error when memory runs out. */
extern AtpErr atp_signature_verify(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN],
								   const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN]);

/* An AtpKeyFn; ctx is not used. */
extern AtpErr atp_signature_key(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN]);

extern const AtpVerifier atp_signature_verifier;

/* An AtpPointFn (W-11); ctx is not used. */
extern bool atp_signature_point(void *ctx, AtpCurve curve, const uint8_t *point, size_t n);

#endif							/* ATP_SIGNATURE_H */
