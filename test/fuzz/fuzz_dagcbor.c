/*
 * fuzz_dagcbor.c
 *		The DAG-CBOR reader must agree with the tiny reader on accept or reject and on every value; the writer
 *		must reproduce the bytes of every accepted value (B-11); and the record check must not crash.
 */
#include <stdlib.h>

#include "core/codec/cbor_write.h"
#include "core/codec/dagcbor.h"
#include "protocol/cbor.h"
#include "protocol/record.h"
#include "tiny_cbor.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Hashes a value in the way of the tiny reader, and writes the value again. */
static uint64_t
one_item(const AtpCborItem *item, uint64_t hash, AtpCborWriter *w)
{
	uint64_t	bits;

	switch (item->kind)
	{
		case ATP_CBOR_UINT:
			atp_cbor_put_uint(w, item->u);
			return tiny_value(hash, 'u', item->u, NULL, 0);
		case ATP_CBOR_NINT:
			atp_cbor_put_nint(w, item->u);
			return tiny_value(hash, 'n', item->u, NULL, 0);
		case ATP_CBOR_BYTES:
			atp_cbor_put_bytes(w, item->str.ptr, item->str.len);
			return tiny_value(hash, 'b', item->str.len, item->str.ptr, item->str.len);
		case ATP_CBOR_TEXT:
			atp_cbor_put_text(w, (const char *) item->str.ptr, item->str.len);
			return tiny_value(hash, 't', item->str.len, item->str.ptr, item->str.len);
		case ATP_CBOR_LINK:
			atp_cbor_put_link(w, item->str.ptr, item->str.len);
			return tiny_value(hash, 'l', item->str.len, item->str.ptr, item->str.len);
		case ATP_CBOR_ARRAY:
			atp_cbor_put_array(w, item->u);
			return tiny_value(hash, 'a', item->u, NULL, 0);
		case ATP_CBOR_MAP:
			atp_cbor_put_map(w, item->u);
			return tiny_value(hash, 'm', item->u, NULL, 0);
		case ATP_CBOR_FALSE:
			atp_cbor_put_bool(w, false);
			return tiny_value(hash, 's', 20, NULL, 0);
		case ATP_CBOR_TRUE:
			atp_cbor_put_bool(w, true);
			return tiny_value(hash, 's', 21, NULL, 0);
		case ATP_CBOR_NULL:
			atp_cbor_put_null(w);
			return tiny_value(hash, 's', 22, NULL, 0);
		case ATP_CBOR_FLOAT:
			atp_cbor_put_float(w, item->d);
			memcpy(&bits, &item->d, sizeof(bits));
			return tiny_value(hash, 'f', bits, NULL, 0);
	}
	abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;
	uint64_t	hash = UINT64_C(0xcbf29ce484222325);
	uint64_t	expected;
	uint8_t    *copy;
	AtpCborWriter w;
	AtpErr		err = atp_cbor_check(data, size, ATP_CBOR_DEPTH_DEFAULT, &at);

	if (tiny_read(data, size, ATP_CBOR_DEPTH_DEFAULT, &expected) != (err == ATP_OK))
		abort();
	if (at > size || atp_err_text(err) == NULL)
		abort();
	if (atp_record_check(data, size, &at) == ATP_OK && err != ATP_OK)
		abort();
	if (at > size)
		abort();
	if (err != ATP_OK)
		return 0;

	copy = malloc(size);
	w = (AtpCborWriter) {.buf = copy, .cap = size};
	atp_cbor_init(&r, data, size, ATP_CBOR_DEPTH_DEFAULT);
	while ((err = atp_cbor_next(&r, &item, &at)) == ATP_OK)
		hash = one_item(&item, hash, &w);
	if (err != ATP_E_CBOR_END || hash != expected ||
		w.len != size || memcmp(copy, data, size) != 0)
		abort();
	free(copy);
	return 0;
}
