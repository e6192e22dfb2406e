/*
 * cbor_item.c
 *		Items of DAG-CBOR: what a reader reads, the writer writes with the same bytes; so each item has one encoding.
 *
 * proves: atp_cbor_item atp_cbor_head atp_cbor_easy_head atp_cbor_put_text atp_cbor_put_bytes
 * sources: core/codec/dagcbor.c core/codec/cbor_write.c core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: -DN=2 --unwind 10
 * by hand: 14 s
 * long: -DN=9 --unwind 11
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
	uint8_t		out[9 + N];
	AtpCborWriter w = {.buf = out, .cap = sizeof(out)};
	AtpCborReader r;
	AtpCborItem item;
	AtpCborHead head;
	AtpCborHead easy;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	atp_cbor_init(&r, s, n, ATP_CBOR_DEPTH_MAX);
	err = atp_cbor_item(&r, &item, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(r.pos <= n);
	if (n == 0)
		return 0;
	/* the shortcut and libcbor agree */
	if (atp_cbor_easy_head(s, n, &easy))
	{
		LAW(atp_cbor_head(s, n, &head) == ATP_OK);
		LAW(head.kind == easy.kind && head.size == easy.size);
		LAW(head.kind > ATP_CBOR_MAP || head.u == easy.u);
		LAW((head.kind != ATP_CBOR_TEXT && head.kind != ATP_CBOR_BYTES) || head.ptr == easy.ptr);
	}
	if (err != ATP_OK || item.kind == ATP_CBOR_LINK || item.kind == ATP_CBOR_FLOAT)
		return 0;
	if (item.kind == ATP_CBOR_TEXT)
		atp_cbor_put_text(&w, (const char *) item.str.ptr, item.str.len);
	else if (item.kind == ATP_CBOR_BYTES)
		atp_cbor_put_bytes(&w, item.str.ptr, item.str.len);
	else
		put_item(&w, item.kind, item.u);
	LAW(w.len == r.pos && memcmp(out, s, w.len) == 0);
	if (item.kind == ATP_CBOR_TEXT && item.str.len > 0)
		REACHED("a text read and written");
	return 0;
}

