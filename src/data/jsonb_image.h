/*
 * jsonb_image.h
 *		DAG-CBOR to the bytes of a jsonb value.  Like src/core this needs no
 *		PostgreSQL header, so that it runs under the fuzzers too; that its
 *		constants are the server's own is asserted in jsonb_write.c.
 *
 * It works in two steps.  atp_jsonb_scan() reads the input strictly, once,
 * into an array of tokens of the caller's, one for each item, and adds up how
 * much room the result takes, and each object's keys; so atp_jsonb_build() can
 * write an object's keys before its values, as jsonb wants them, both at once.
 * DAG-CBOR's canonical order of keys is jsonb's own, so nothing is sorted.
 */
#ifndef ATP_JSONB_IMAGE_H
#define ATP_JSONB_IMAGE_H

#include "core/atp.h"

/* utils/jsonb.h */
#define ATP_JE_STRING		UINT32_C(0x00000000)
#define ATP_JE_NUMERIC		UINT32_C(0x10000000)
#define ATP_JE_FALSE		UINT32_C(0x20000000)
#define ATP_JE_TRUE			UINT32_C(0x30000000)
#define ATP_JE_NULL			UINT32_C(0x40000000)
#define ATP_JE_CONTAINER	UINT32_C(0x50000000)
#define ATP_JE_TYPE_MASK	UINT32_C(0x70000000)
#define ATP_JE_HAS_OFF		UINT32_C(0x80000000)
#define ATP_JE_LEN_MASK		UINT32_C(0x0FFFFFFF)
#define ATP_JB_STRIDE		32
#define ATP_JB_SCALAR		UINT32_C(0x10000000)
#define ATP_JB_OBJECT		UINT32_C(0x20000000)
#define ATP_JB_ARRAY		UINT32_C(0x40000000)

typedef struct AtpJsonbToken
{
	union
	{
		const uint8_t *ptr;		/* text, bytes, link */
		uint64_t	u;			/* integer: as in AtpCborItem; map: length of its keys */
	};
	uint32_t	len;			/* bytes of ptr; members or pairs */
	uint32_t	kind;			/* AtpCborKind */
} AtpJsonbToken;

#define ATP_JSONB_TOKENS_MAX	(1 << 26)	/* 1 GB of tokens */

/* Called again and again while much is read, so that it can be given up. */
typedef void (*AtpPauseFn) (void);

/*
 * *n is the number of tokens.  Errors are those of the reader.  When it has none,
 * those of what jsonb cannot hold: the first ATP_E_DATA_FLOAT, ATP_E_JSON_NUL or
 * ATP_E_JSON_AMBIGUOUS; then ATP_E_JSON_SIZE, which may come earlier; and when there is
 * nothing else, ATP_E_JSON_TOKENS: cap is less than *n, with which the caller may try again.
 */
extern AtpErr atp_jsonb_scan(const uint8_t *buf, size_t len,
							 AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
							 size_t *n, size_t *room, size_t *at);

/* The same of what has to be a record: the errors of core/repo/record_check.h are as the reader's. */
extern AtpErr atp_jsonb_scan_record(const uint8_t *buf, size_t len,
									AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
									size_t *n, size_t *room, size_t *at);

/*
 * Write the value that token[0] begins, varlena header included; out has the
 * room that was asked for, and is aligned to 4 bytes.  Returns the size.
 */
extern size_t atp_jsonb_build(const AtpJsonbToken *token, uint8_t *out);

#endif							/* ATP_JSONB_IMAGE_H */
