/*
 * jsonb_image.h
 *		Converts DAG-CBOR to the bytes of a jsonb value.  Like src/core this file needs no PostgreSQL header,
 *		so that the code runs under the fuzzers, too; jsonb_write.c asserts that the constants are the
 *		server's.
 *
 * The conversion has two steps.  atp_jsonb_scan() reads the input strictly, once, into the caller's array of
 * tokens, one for each item.  It adds up the room for the result, and the length of each object's keys.  With
 * these lengths, atp_jsonb_build() can write an object's keys and values in one pass, although jsonb has all
 * keys before all values.  DAG-CBOR's canonical order of keys is also jsonb's order, so nothing is sorted.
 */
#ifndef ATP_JSONB_IMAGE_H
#define ATP_JSONB_IMAGE_H

#include "core/atp.h"

/* The constants of utils/jsonb.h. */
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
		uint64_t	u;			/* integer: as in AtpCborItem; map: length of all keys */
	};
	uint32_t	len;			/* length of ptr; number of members or pairs */
	uint32_t	kind;			/* AtpCborKind */
} AtpJsonbToken;

#define ATP_JSONB_TOKENS_MAX	(1 << 26)	/* 1 GB of tokens */

/* Called now and then while much is read, so that the statement can be cancelled. */
typedef void (*AtpPauseFn) (void);

/*
 * *n is the number of tokens.  The errors, in order of precedence: those of the reader; the first item that
 * jsonb cannot hold, ATP_E_DATA_FLOAT, ATP_E_JSON_NUL or ATP_E_JSON_AMBIGUOUS; ATP_E_JSON_SIZE, which may
 * also be returned early; and ATP_E_JSON_TOKENS: cap is less than *n, call again with room for *n.
 */
extern AtpErr atp_jsonb_scan(const uint8_t *buf, size_t len,
							 AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
							 size_t *n, size_t *room, size_t *at);

/*
 * As atp_jsonb_scan(), for a value that must be a record: the errors of core/repo/record_check.h count as errors of the
 * reader.
 */
extern AtpErr atp_jsonb_scan_record(const uint8_t *buf, size_t len,
									AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
									size_t *n, size_t *room, size_t *at);

/* As atp_jsonb_scan(), for a value outside of the data model: "$link" and "$bytes" are keys like others. */
extern AtpErr atp_jsonb_scan_plain(const uint8_t *buf, size_t len,
								   AtpJsonbToken *token, size_t cap, AtpPauseFn pause,
								   size_t *n, size_t *room, size_t *at);

/*
 * Writes the value that begins at token[0], including the varlena header. out must have the room that the
 * scan returned, and be aligned to 4 bytes.  Returns the size.
 */
extern size_t atp_jsonb_build(const AtpJsonbToken *token, uint8_t *out);

#endif							/* ATP_JSONB_IMAGE_H */
