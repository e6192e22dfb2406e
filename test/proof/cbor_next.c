/*
 * cbor_next.c
 *		The reader of DAG-CBOR on any bytes: each call moves on, the depth stays in its bounds, and the end of the
 *		outermost value is found.
 *
 * proves: atp_cbor_init atp_cbor_next atp_cbor_read_over atp_cbor_finish atp_fields_next
 * sources: core/codec/dagcbor.c core/codec/cid.c core/syntax/utf8.c test/proof/lib/libcbor.c
 * short: -DN=3 --unwind 10
 * long: -DN=8 --unwind 12
 * wraps: atp_utf8_unplain atp_fields_next
 * assumes: libcbor does what lib/libcbor.c says
 */
#include "core/codec/field.h"
#include "lib/proof.h"

int
main(void)
{
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;
	size_t		last = 0;
	unsigned	depth = any_byte() % 3;
	bool		nested = false;
	AtpErr		err;

	ANY_BUFFER(s, n, N);
	atp_cbor_init(&r, s, n, depth);
	while ((err = atp_cbor_next(&r, &item, &at)) == ATP_OK)
	{
		LAW(r.pos > last && r.pos <= n && item.at == last);
		LAW(r.depth <= depth && (r.depth > 0 || r.now.left > n));
		LAW(item.is_key || item.kind != ATP_CBOR_TEXT || item.str.ptr + item.str.len <= s + n);
		last = r.pos;
		nested |= r.depth == 2;
	}
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_E_CBOR_END || r.pos == n);
	if (err == ATP_E_CBOR_END && nested)
		REACHED("a container in a container");
	return 0;
}
