/*
 * util.h
 *		What every file of the simulator needs: an end with a message and memory that
 *		never comes back NULL, SHA-256, and CIDs as spans.
 */
#ifndef SIM_UTIL_H
#define SIM_UTIL_H

#include "core/codec/cid.h"
#include "die.h"

#define DIGEST_LEN	32
#define COUNT(array)	(sizeof (array) / sizeof *(array))

extern char *xstrndup(const char *s, size_t n);

/* An AtpSha256Fn. */
extern void sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[DIGEST_LEN]);

static inline AtpBytes
cid_span(const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	return (AtpBytes) {cid, ATP_CID_BLESSED_LEN};
}

/* The CID of DAG-CBOR with this SHA-256. */
static inline void
cid_of_digest(const uint8_t digest[DIGEST_LEN], uint8_t cid[ATP_CID_BLESSED_LEN])
{
	static const uint8_t head[] = {1, ATP_CID_CODEC_DAG_CBOR, ATP_CID_SHA2_256, DIGEST_LEN};

	memcpy(cid, head, sizeof head);
	memcpy(cid + sizeof head, digest, DIGEST_LEN);
}

#endif							/* SIM_UTIL_H */
