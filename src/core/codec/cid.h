/*
 * cid.h
 *		Content identifiers, rules B-40 to B-44 and D11: binary CIDv1, and its
 *		base32 text.  The SQL type cidlink stores the binary form.
 */
#ifndef ATP_CID_H
#define ATP_CID_H

#include "core/atp.h"

#define ATP_CID_MAX				100 /* bytes of the binary form, B-28 */
#define ATP_CID_TEXT_MAX		161 /* 'b' + base32 of ATP_CID_MAX */
#define ATP_CID_BLESSED_LEN		36	/* 01 codec 12 20 + 32 bytes */
#define ATP_CID_CODEC_RAW		0x55
#define ATP_CID_CODEC_DAG_CBOR	0x71
#define ATP_CID_SHA2_256		0x12

typedef struct AtpCid
{
	uint64_t	codec;
	uint64_t	hash;			/* multihash function code */
	AtpBytes	digest;			/* span of the binary form */
} AtpCid;

/* Are the bytes exactly one well-formed CIDv1?  Any codec and hash is accepted (D11). */
extern AtpErr atp_cid_check(const uint8_t *bytes, size_t n, AtpCid *cid, size_t *at);

/* Parses a well-formed CIDv1 at the start of bytes; *len is its length.  More bytes may follow. */
extern AtpErr atp_cid_prefix(const uint8_t *bytes, size_t n, AtpCid *cid, size_t *len, size_t *at);

extern bool atp_cid_is_blessed(const uint8_t *bytes, size_t n);

/* B-42: may this CID name a commit or a tree node?  Only DAG-CBOR with SHA-256. */
static inline bool
atp_cid_is_node(AtpBytes cid)
{
	return atp_cid_is_blessed(cid.ptr, cid.len) && cid.ptr[1] == ATP_CID_CODEC_DAG_CBOR;
}

/* B-43: can this CID name a blob (B-26)?  Only one with the raw codec. */
extern bool atp_cid_is_raw(AtpBytes cid);

/* Text to binary (out: ATP_CID_MAX bytes, *on its length) and back. */
extern AtpErr atp_cid_parse(const char *restrict s, size_t n, uint8_t *restrict out, size_t *on, size_t *at);
extern size_t atp_cid_format(const uint8_t *restrict bytes, size_t n, char *restrict out);	/* ATP_CID_TEXT_MAX */

/* D11: the loose text rule of the interoperability vectors. */
extern bool atp_cid_is_syntax(const char *s, size_t n);

/* The CID of a block, with SHA-256; codec is one of the two codecs above. */
extern void atp_cid_of(uint64_t codec, const uint8_t *block, size_t n,
					   AtpSha256Fn sha256, void *ctx, uint8_t out[ATP_CID_BLESSED_LEN]);

#endif							/* ATP_CID_H */
