/*
 * test_cbor_contract.c
 *		What test/proof assumes of libcbor, compared with the library: each first byte, with the bytes that follow and
 *		the lengths that matter.
 */
#include <cbor.h>
#include <stdint.h>

#include "unit.h"

#define cbor_stream_decode				contract_stream_decode
#define cbor_encode_uint				contract_encode_uint
#define cbor_encode_negint				contract_encode_negint
#define cbor_encode_bytestring_start	contract_encode_bytestring_start
#define cbor_encode_string_start		contract_encode_string_start
#define cbor_encode_array_start			contract_encode_array_start
#define cbor_encode_map_start			contract_encode_map_start
#define cbor_encode_tag					contract_encode_tag
#define cbor_encode_bool				contract_encode_bool
#define cbor_encode_null				contract_encode_null
#include "../proof/lib/libcbor.c"
#undef cbor_stream_decode
#undef cbor_encode_uint
#undef cbor_encode_negint
#undef cbor_encode_bytestring_start
#undef cbor_encode_string_start
#undef cbor_encode_array_start
#undef cbor_encode_map_start
#undef cbor_encode_tag
#undef cbor_encode_bool
#undef cbor_encode_null

/* What a callback was given. */
typedef struct Heard
{
	int			which;
	uint64_t	value;
	const void *data;
} Heard;

static void
hear(void *ctx, int which, uint64_t value, const void *data)
{
	*(Heard *) ctx = (Heard) {which, value, data};
}

#define HEAR(name, number, type) \
	static void name(void *ctx, type v) { hear(ctx, number, (uint64_t) v, NULL); }
#define HEAR_BYTES(name, number) \
	static void name(void *ctx, cbor_data p, uint64_t n) { hear(ctx, number, n, p); }
#define HEAR_SIGN(name, number) \
	static void name(void *ctx) { hear(ctx, number, 0, NULL); }

HEAR(on_u8, 1, uint8_t)
HEAR(on_u16, 2, uint16_t)
HEAR(on_u32, 3, uint32_t)
HEAR(on_u64, 4, uint64_t)
HEAR(on_n8, 5, uint8_t)
HEAR(on_n16, 6, uint16_t)
HEAR(on_n32, 7, uint32_t)
HEAR(on_n64, 8, uint64_t)
HEAR_SIGN(on_bytes_start, 9)
HEAR_BYTES(on_bytes, 10)
HEAR_SIGN(on_text_start, 11)
HEAR_BYTES(on_text, 12)
HEAR_SIGN(on_indef_array, 13)
HEAR(on_array, 14, uint64_t)
HEAR_SIGN(on_indef_map, 15)
HEAR(on_map, 16, uint64_t)
HEAR(on_tag, 17, uint64_t)
HEAR_SIGN(on_undefined, 21)
HEAR_SIGN(on_null, 22)
HEAR(on_bool, 23, bool)
HEAR_SIGN(on_break, 24)

/* The value of a short float is not compared: no caller looks at it. */
static void
on_float2(void *ctx, float v)
{
	hear(ctx, 18, 0, NULL);
}

static void
on_float4(void *ctx, float v)
{
	hear(ctx, 19, 0, NULL);
}

static void
on_float8(void *ctx, double v)
{
	uint64_t	bits;

	memcpy(&bits, &v, sizeof(bits));
	hear(ctx, 20, bits, NULL);
}

static const struct cbor_callbacks callbacks = {
	.uint8 = on_u8, .uint16 = on_u16, .uint32 = on_u32, .uint64 = on_u64,
	.negint8 = on_n8, .negint16 = on_n16, .negint32 = on_n32, .negint64 = on_n64,
	.byte_string_start = on_bytes_start, .byte_string = on_bytes, .string_start = on_text_start, .string = on_text,
	.indef_array_start = on_indef_array, .array_start = on_array, .indef_map_start = on_indef_map, .map_start = on_map,
	.tag = on_tag, .float2 = on_float2, .float4 = on_float4, .float8 = on_float8,
	.undefined = on_undefined, .null = on_null, .boolean = on_bool, .indef_break = on_break,
};

static unsigned differ;

static void
compare(const uint8_t *p, size_t n)
{
	Heard		a = {0};
	Heard		b = {0};
	struct cbor_decoder_result x = cbor_stream_decode(p, n, &callbacks, &a);
	struct cbor_decoder_result y = contract_stream_decode(p, n, &callbacks, &b);
	bool		finished = x.status == CBOR_DECODER_FINISHED;

	if (x.status != y.status || (finished && x.read != y.read) || a.which != b.which || a.value != b.value || a.data != b.data)
	{
		if (differ++ < 5)
			printf("# %02x, %zu bytes: status %d and %d, read %zu and %zu, callback %d and %d\n", n > 0 ? p[0] : 0, n,
				   (int) x.status, (int) y.status, x.read, y.read, a.which, b.which);
	}
}

static void
decoding(void)
{
	static const uint8_t fillings[] = {0, 1, 2, 0x17, 0x18, 0x7f, 0x80, 0xff};
	uint8_t		p[40];

	for (int first = 0; first < 256; first++)
	{
		/* whether these tags are refused differs between versions: src/core refuses each tag but 42 */
		if (first >= 0xc6 && first <= 0xd4)
			continue;
		for (size_t f = 0; f < sizeof(fillings); f++)
			for (size_t low = 0; low < 12; low++)
				for (size_t n = 0; n <= 12; n++)
				{
					/* a length is small in most tries, so that there are enough bytes for it */
					memset(p, fillings[f], sizeof(p));
					p[0] = (uint8_t) first;
					if (f % 2 == 0)
						memset(p + 1, 0, 8);
					if (low < 9)
						p[1 + low % 8] = (uint8_t) (low + f);
					compare(p, n);
				}
	}
	ok(differ == 0, "the contract and the library decode alike");
}

static void
encoding(void)
{
	static const uint64_t values[] = {0, 23, 24, 255, 256, 65535, 65536, UINT32_MAX, UINT64_C(1) << 32, UINT64_MAX};
	bool		same = true;

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		for (size_t room = 0; room <= 9; room++)
		{
			uint8_t		a[9] = {0};
			uint8_t		b[9] = {0};
			uint64_t	v = values[i];

#define SAME(encode) \
			same &= cbor_encode_##encode(v, a, room) == contract_encode_##encode(v, b, room) && memcmp(a, b, room) == 0

			SAME(uint);
			SAME(negint);
			SAME(bytestring_start);
			SAME(string_start);
			SAME(array_start);
			SAME(map_start);
			SAME(tag);
		}
	for (int v = 0; v < 2; v++)
	{
		uint8_t		a[2] = {0};
		uint8_t		b[2] = {0};

		same &= cbor_encode_bool(v, a, 1) == contract_encode_bool(v, b, 1) && a[0] == b[0];
		same &= cbor_encode_null(a, 1) == contract_encode_null(b, 1) && a[0] == b[0];
	}
	ok(same, "the contract and the library encode alike");
}

int
main(void)
{
	decoding();
	encoding();
	return done_testing();
}
