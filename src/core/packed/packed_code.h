/*
 * packed_code.h
 *		The codes of the packed form: see packed.h.  Private to src/core/packed.
 *
 * A packed value is a code (one byte) and its content.  Numbers of several bytes are big-endian.  A container, a literal text,
 * bytes, a link of an unusual form, and the parts of a URI begin with their length, a varint, so that a reader steps over a value
 * without looking into it:
 *
 * ARRAY	length, the number of members (varint), the members
 * MAP		length, the number of pairs (varint), the pairs: the number of a key and a value, or 0, the length of the key
 *			(varint), the key, and a value
 * SHAPE	length, the number of a shape, the values
 *
 * An empty array or map has the length 0, and no number.  REF is the strong reference {cid, uri} of a CID of DAG-CBOR and a URI that
 * has the code URI.  A reference to a URI of another form (of a did:web, or with a record key that is no TID) is a shape.
 *
 * Codes 0x5c to 0x5f, numbers of keys from 0xf0, and flags of URI_PARTS from 0x08 are not used.  Only an edition that a library does
 * not know can give them a meaning, and a library refuses such an edition as a whole.
 */
#ifndef ATP_PACKED_CODE_H
#define ATP_PACKED_CODE_H

#include "core/codec/varint.h"
#include "core/syntax/base32.h"

#define ATP_PACKED_ONE_BYTE		0x40	/* texts with the code as number */
#define ATP_PACKED_COLLECTIONS	0x80	/* from this number on, and below ATP_PACKED_ONE_BYTE, a text may be a URI's collection */
#define ATP_PACKED_DIGEST		32		/* bytes of SHA-256 */
#define ATP_PACKED_URI			(ATP_PLC_BYTES + 1 + 8) /* did:plc, collection, TID */

typedef enum AtpPackedCode
{
	ATP_CODE_LISTED = 0x40,		/* a text with a number of two bytes */
	ATP_CODE_CID,				/* text of a CID with SHA-256, of DAG-CBOR: the digest */
	ATP_CODE_CID_RAW,			/* ... of raw bytes */
	ATP_CODE_PLC,				/* text of a did:plc */
	ATP_CODE_URI,				/* at://did:plc:.../listed collection/TID */
	ATP_CODE_URI_PARTS,			/* at:// with three parts of any form: packed_uri.c */
	ATP_CODE_MILLIS,			/* times: packed_time.c */
	ATP_CODE_SECONDS,
	ATP_CODE_MICROS,
	ATP_CODE_MICROS_ZERO,
	ATP_CODE_MILLIS_ZERO,
	ATP_CODE_TEXT,
	ATP_CODE_REF,
	ATP_CODE_LINK,				/* link with SHA-256, to DAG-CBOR: the digest */
	ATP_CODE_LINK_RAW,			/* ... to raw bytes */
	ATP_CODE_LINK_ANY,
	ATP_CODE_NULL,
	ATP_CODE_FALSE,
	ATP_CODE_TRUE,
	ATP_CODE_FLOAT,
	ATP_CODE_UINT,				/* varint, below 2^63 */
	ATP_CODE_NINT,				/* -1 - varint */
	ATP_CODE_UINT_LONG,			/* from 2^63: eight bytes */
	ATP_CODE_NINT_LONG,
	ATP_CODE_BYTES,
	ATP_CODE_ARRAY,
	ATP_CODE_MAP,
	ATP_CODE_SHAPE,
	ATP_CODE_SHORT_TEXT = 0x60, /* and the length: texts below 32 bytes */
	ATP_CODE_SMALL = 0x80		/* and the integer: 0 to 127 */
} AtpPackedCode;

_Static_assert(ATP_CODE_SHAPE == 0x5b, "the numbers of codes are on disk");

static inline bool
atp_code_is_container(uint8_t code)
{
	return code == ATP_CODE_REF || (code >= ATP_CODE_ARRAY && code <= ATP_CODE_SHAPE);
}

/* A value of the packed form: its code, and exactly the content. */
typedef struct AtpPackedValue
{
	uint8_t		code;
	AtpBytes	content;
} AtpPackedValue;

/* Takes a varint from the beginning. */
static inline bool
atp_packed_number(AtpBytes *rest, uint64_t *number)
{
	size_t		pos = 0;

	if (atp_varint_read(rest->ptr, rest->len, &pos, number) != ATP_OK)
		return false;
	rest->ptr += pos;
	rest->len -= pos;
	return true;
}

/* Takes n bytes from the beginning. */
static inline bool
atp_packed_take(AtpBytes *rest, uint64_t n, AtpBytes *taken)
{
	if (n > rest->len)
		return false;
	*taken = (AtpBytes) {rest->ptr, (size_t) n};
	rest->ptr += n;
	rest->len -= (size_t) n;
	return true;
}

/* The size of the content of codes with a fixed size. */
static inline size_t
atp_packed_fixed_size(uint8_t code)
{
	static const uint8_t sizes[0x20] = {
		[ATP_CODE_LISTED & 0x1f] = 1,
		[ATP_CODE_CID & 0x1f] = ATP_PACKED_DIGEST,
		[ATP_CODE_CID_RAW & 0x1f] = ATP_PACKED_DIGEST,
		[ATP_CODE_PLC & 0x1f] = ATP_PLC_BYTES,
		[ATP_CODE_URI & 0x1f] = ATP_PACKED_URI,
		[ATP_CODE_MILLIS & 0x1f] = 6,
		[ATP_CODE_SECONDS & 0x1f] = 5,
		[ATP_CODE_MICROS & 0x1f] = 7,
		[ATP_CODE_MICROS_ZERO & 0x1f] = 7,
		[ATP_CODE_MILLIS_ZERO & 0x1f] = 6,
		[ATP_CODE_REF & 0x1f] = ATP_PACKED_DIGEST + ATP_PACKED_URI,
		[ATP_CODE_LINK & 0x1f] = ATP_PACKED_DIGEST,
		[ATP_CODE_LINK_RAW & 0x1f] = ATP_PACKED_DIGEST,
		[ATP_CODE_FLOAT & 0x1f] = 8,
		[ATP_CODE_UINT_LONG & 0x1f] = 8,
		[ATP_CODE_NINT_LONG & 0x1f] = 8,
	};

	if (code < ATP_CODE_LISTED || code >= ATP_CODE_SMALL)
		return 0;
	return code >= ATP_CODE_SHORT_TEXT ? code - ATP_CODE_SHORT_TEXT : sizes[code & 0x1f];
}

static inline bool
atp_packed_has_length(uint8_t code)
{
	return code == ATP_CODE_TEXT || code == ATP_CODE_URI_PARTS || code == ATP_CODE_LINK_ANY ||
		(code >= ATP_CODE_BYTES && code <= ATP_CODE_SHAPE);
}

/* Takes a value from the beginning.  False: the bytes are damaged. */
static inline bool
atp_packed_next(AtpBytes *rest, AtpPackedValue *value)
{
	AtpBytes	behind;
	uint64_t	n;

	if (rest->len == 0)
		return false;
	value->code = rest->ptr[0];
	behind = (AtpBytes) {rest->ptr + 1, rest->len - 1};
	if (atp_packed_has_length(value->code))
	{
		const uint8_t *first = behind.ptr;
		AtpBytes	body;

		if (!atp_packed_number(&behind, &n) || !atp_packed_take(&behind, n, &body))
			return false;
		value->content = (AtpBytes) {first, (size_t) (behind.ptr - first)};
	}
	else if (value->code == ATP_CODE_UINT || value->code == ATP_CODE_NINT)
	{
		const uint8_t *first = behind.ptr;

		if (!atp_packed_number(&behind, &n))
			return false;
		value->content = (AtpBytes) {first, (size_t) (behind.ptr - first)};
	}
	else if (!atp_packed_take(&behind, atp_packed_fixed_size(value->code), &value->content))
		return false;
	*rest = behind;
	return true;
}

/* The bytes behind the length at the beginning of the content. */
static inline AtpBytes
atp_packed_body(AtpBytes content)
{
	uint64_t	n;

	return atp_packed_number(&content, &n) && n == content.len ? content : (AtpBytes) {content.ptr, 0};
}

#endif							/* ATP_PACKED_CODE_H */
