/*
 * car_write.c
 *		A writer of CAR version 1 files.
 */
#include "core/repo/car_write.h"
#include "core/codec/cid.h"
#include "core/codec/varint.h"

/* Room for {roots: [cid], version: 1}. */
#define HEADER_MAX	(ATP_CID_MAX + 32)

static void
put_varint(AtpCborWriter *w, uint64_t value)
{
	uint8_t		varint[ATP_VARINT_MAX];

	atp_cbor_put_raw(w, varint, atp_varint_write(value, varint));
}

void
atp_car_put_header(AtpCborWriter *w, AtpBytes root)
{
	uint8_t		buf[HEADER_MAX];
	AtpCborWriter header = {.buf = buf, .cap = sizeof(buf)};

	atp_cbor_put_map(&header, 2);
	atp_cbor_put_key(&header, "roots");
	atp_cbor_put_array(&header, root.ptr != NULL);
	if (root.ptr != NULL)
		atp_cbor_put_link(&header, root.ptr, root.len);
	atp_cbor_put_key(&header, "version");
	atp_cbor_put_uint(&header, 1);
	put_varint(w, header.len);
	atp_cbor_put_raw(w, header.buf, header.len);
}

void
atp_car_put_block(AtpCborWriter *w, AtpBytes cid, const uint8_t *block, size_t n)
{
	put_varint(w, cid.len + n);
	atp_cbor_put_raw(w, cid.ptr, cid.len);
	atp_cbor_put_raw(w, block, n);
}
