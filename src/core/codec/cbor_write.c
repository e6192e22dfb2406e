/*
 * cbor_write.c
 *		Writer of canonical DAG-CBOR on libcbor's encoders of single heads,
 *		which choose the shortest form.
 */
#include <cbor.h>

#include "core/codec/cbor_write.h"

#define HEAD_MAX	9			/* bytes of the longest head */

/* Write a head with an encoder of libcbor. */
#define PUT_HEAD(w, encode, value) \
	do { \
		uint8_t		head_[HEAD_MAX]; \
		atp_cbor_put_raw(w, head_, encode(value, head_, sizeof(head_))); \
	} while (0)

void
atp_cbor_put_raw(AtpCborWriter *w, const uint8_t *p, size_t n)
{
	if (w->len <= w->cap && n <= w->cap - w->len && n > 0)
		memcpy(w->buf + w->len, p, n);
	w->len += n;
}

void
atp_cbor_put_uint(AtpCborWriter *w, uint64_t u)
{
	PUT_HEAD(w, cbor_encode_uint, u);
}

void
atp_cbor_put_nint(AtpCborWriter *w, uint64_t u)
{
	PUT_HEAD(w, cbor_encode_negint, u);
}

void
atp_cbor_put_null(AtpCborWriter *w)
{
	uint8_t		head[HEAD_MAX];

	atp_cbor_put_raw(w, head, cbor_encode_null(head, sizeof(head)));
}

void
atp_cbor_put_bool(AtpCborWriter *w, bool value)
{
	PUT_HEAD(w, cbor_encode_bool, value);
}

void
atp_cbor_put_bytes(AtpCborWriter *w, const uint8_t *p, size_t n)
{
	PUT_HEAD(w, cbor_encode_bytestring_start, n);
	atp_cbor_put_raw(w, p, n);
}

void
atp_cbor_put_text(AtpCborWriter *w, const char *s, size_t n)
{
	PUT_HEAD(w, cbor_encode_string_start, n);
	atp_cbor_put_raw(w, (const uint8_t *) s, n);
}

void
atp_cbor_put_link(AtpCborWriter *w, const uint8_t *cid, size_t n)
{
	static const uint8_t multibase_identity = 0;

	PUT_HEAD(w, cbor_encode_tag, 42);
	PUT_HEAD(w, cbor_encode_bytestring_start, n + 1);
	atp_cbor_put_raw(w, &multibase_identity, 1);
	atp_cbor_put_raw(w, cid, n);
}

void
atp_cbor_put_array(AtpCborWriter *w, uint64_t members)
{
	PUT_HEAD(w, cbor_encode_array_start, (size_t) members);
}

void
atp_cbor_put_map(AtpCborWriter *w, uint64_t pairs)
{
	PUT_HEAD(w, cbor_encode_map_start, (size_t) pairs);
}
