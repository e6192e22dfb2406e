/*
 * sig.h
 *		Signatures of commits and labels (V-05 to V-08, V-49): what exactly is
 *		signed, and which signatures are none whatever the curve says.
 *
 * Curves come from outside, as SHA-256 does.
 */
#ifndef ATP_SIG_H
#define ATP_SIG_H

#include "core/atp.h"
#include "core/codec/cbor_write.h"
#include "core/syntax/multikey.h"

#define ATP_SIG_LEN		64		/* r and s, big-endian (V-06) */

/*
 * Is it a signature of the digest by the key?  ATP_E_SIG_WRONG; ATP_E_KEY_POINT
 * when the key is not a point of its curve (W-11); ATP_E_KEY_BUILD when this
 * program cannot tell.  r is in 1 to n - 1 and s in 1 to n / 2 already.
 */
typedef AtpErr (*AtpVerifyFn) (void *ctx, const uint8_t key[ATP_MULTIKEY_LEN],
							   const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN]);

/*
 * V-05: the map without "sig", in DAG-CBOR as it is, is written to w, which never
 * takes more than n bytes.  V-49: a label is signed without "$type", too.
 */
extern AtpErr atp_sig_cut(const uint8_t *block, size_t n, bool is_label, AtpCborWriter *w,
						  AtpBytes *sig, size_t *at);

/* V-06, V-07: 64 bytes, r and s in their range, s in the lower half of it. */
extern AtpErr atp_sig_check(AtpCurve curve, AtpBytes sig);

/* All of that for bytes that were cut out. */
extern AtpErr atp_sig_verify(const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t *bytes, size_t n, AtpBytes sig,
							 AtpSha256Fn sha256, void *sha_ctx, AtpVerifyFn verify, void *ctx);

#endif							/* ATP_SIG_H */
