/*
 * cbor_head.c
 *		Heads of DAG-CBOR: what the writer writes, all readers read as the same item.
 *
 * proves: atp_cbor_put_uint atp_cbor_put_nint atp_cbor_put_array atp_cbor_put_map atp_cbor_put_null atp_cbor_put_bool
 *	atp_cbor_head atp_shape_head
 * sources: core/codec/dagcbor.c core/codec/cbor_write.c core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: --unwind 10
 * long: --unwind 10
 * wraps: atp_utf8_unplain
 * assumes: libcbor does what lib/libcbor.c says
 */
#include <string.h>

#include "core/codec/cbor_write.h"
#include "core/codec/dagcbor_next.h"
#include "core/codec/shape.h"
#include "lib/proof.h"

/* Writes the head of an item. */
static void
put_item(AtpCborWriter *w, AtpCborKind kind, uint64_t u)
{
	if (kind == ATP_CBOR_UINT)
		atp_cbor_put_uint(w, u);
	else if (kind == ATP_CBOR_NINT)
		atp_cbor_put_nint(w, u);
	else if (kind == ATP_CBOR_ARRAY)
		atp_cbor_put_array(w, u);
	else if (kind == ATP_CBOR_MAP)
		atp_cbor_put_map(w, u);
	else if (kind == ATP_CBOR_NULL)
		atp_cbor_put_null(w);
	else
		atp_cbor_put_bool(w, kind == ATP_CBOR_TRUE);
}

int
main(void)
{
	uint8_t		out[9];
	AtpCborKind kind = any_byte() % (ATP_CBOR_TRUE + 1);
	uint64_t	u = any_u64();
	AtpCborWriter w = {.buf = out, .cap = sizeof(out)};
	AtpCborHead head;
	AtpShape	shape;
	uint64_t	shape_u;

	ASSUME(kind != ATP_CBOR_BYTES && kind != ATP_CBOR_TEXT && kind != ATP_CBOR_LINK);
	/* a count of 2^32 and more is refused on purpose: no input is so long */
	ASSUME((kind != ATP_CBOR_ARRAY && kind != ATP_CBOR_MAP) || u < UINT64_C(1) << 32);
	put_item(&w, kind, u);
	LAW(atp_cbor_head(w.buf, w.len, &head) == ATP_OK);
	LAW(head.kind == kind && head.size == w.len);
	LAW(kind > ATP_CBOR_MAP || head.u == u);
	if (kind <= ATP_CBOR_MAP)
	{
		shape = (AtpShape) {w.buf, w.buf + w.len};
		LAW(atp_shape_head(&shape, kind, &shape_u) && shape_u == u && shape.p == shape.end);
	}
	if (w.len == 9)
		REACHED("the longest head");
	return 0;
}

