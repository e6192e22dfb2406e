/*
 * cbor_room.c
 *		The writer of DAG-CBOR never writes behind its buffer, and says how much it would have written.
 *
 * proves: atp_cbor_put_raw atp_cbor_put_text atp_cbor_put_link
 * sources: core/codec/cbor_write.c test/proof/lib/libcbor.c
 * short: -DN=5 --unwind 10
 * long: -DN=12 --unwind 14
 */
#include "core/codec/cbor_write.h"
#include "lib/proof.h"

int
main(void)
{
	uint8_t		out[N];
	size_t		room = any_size(N);
	AtpCborWriter w = {.buf = out + N - room, .cap = room};
	char		text[2];
	uint8_t		cid[1];

	atp_cbor_put_text(&w, text, any_size(2));
	if (w.len <= w.cap)
		REACHED("enough room");
	atp_cbor_put_link(&w, cid, 1);
	atp_cbor_put_text(&w, text, 2);
	LAW(w.len >= 1 + 5 + 3);
	return 0;
}
