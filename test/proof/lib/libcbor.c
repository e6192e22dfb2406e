/*
 * libcbor.c
 *		What libcbor's documentation and RFC 8949 say of the functions that src/core uses: a contract, not
 *		libcbor.  unit/test_cbor_contract compares it with the library.
 */
#include <cbor.h>

#include <string.h>

static uint64_t
number(const uint8_t *p, size_t bytes)
{
	uint64_t	v = 0;

	for (size_t i = 0; i < 8; i++)
		if (i < bytes)
			v = v << 8 | p[i];
	return v;
}

struct cbor_decoder_result
cbor_stream_decode(cbor_data p, size_t n, const struct cbor_callbacks *c, void *ctx)
{
	struct cbor_decoder_result result = {.read = 0, .required = 0, .status = CBOR_DECODER_ERROR};
	unsigned	major;
	unsigned	info;
	size_t		more;
	uint64_t	v;

	if (n == 0)
	{
		result.status = CBOR_DECODER_NEDATA;
		return result;
	}
	major = p[0] >> 5;
	info = p[0] & 31;
	/* libcbor refuses the tags 6 to 20.  src/core refuses each tag but 42: a version that accepts them changes nothing. */
	if (major == 6 && info >= 6 && info <= 20)
		return result;
	if ((info >= 28 && info <= 30) || (info == 31 && (major < 2 || major == 6)) || (major == 7 && (info < 20 || info == 24)))
		return result;
	more = info >= 24 && info <= 27 ? (size_t) 1 << (info - 24) : 0;
	if (n - 1 < more)
	{
		result.status = CBOR_DECODER_NEDATA;
		return result;
	}
	v = more > 0 ? number(p + 1, more) : info;
	result.read = 1 + more;
	if ((major == 2 || major == 3) && info != 31)
	{
		if (v > n - result.read)
		{
			result.read = 0;
			result.status = CBOR_DECODER_NEDATA;
			return result;
		}
		result.read += v;
	}
	result.status = CBOR_DECODER_FINISHED;
	switch (major)
	{
		case 0:
			if (more <= 1)
				c->uint8(ctx, (uint8_t) v);
			else if (more == 2)
				c->uint16(ctx, (uint16_t) v);
			else if (more == 4)
				c->uint32(ctx, (uint32_t) v);
			else
				c->uint64(ctx, v);
			break;
		case 1:
			if (more <= 1)
				c->negint8(ctx, (uint8_t) v);
			else if (more == 2)
				c->negint16(ctx, (uint16_t) v);
			else if (more == 4)
				c->negint32(ctx, (uint32_t) v);
			else
				c->negint64(ctx, v);
			break;
		case 2:
			if (info == 31)
				c->byte_string_start(ctx);
			else
				c->byte_string(ctx, p + 1 + more, v);
			break;
		case 3:
			if (info == 31)
				c->string_start(ctx);
			else
				c->string(ctx, p + 1 + more, v);
			break;
		case 4:
			if (info == 31)
				c->indef_array_start(ctx);
			else
				c->array_start(ctx, v);
			break;
		case 5:
			if (info == 31)
				c->indef_map_start(ctx);
			else
				c->map_start(ctx, v);
			break;
		case 6:
			c->tag(ctx, v);
			break;
		default:
			if (info == 20 || info == 21)
				c->boolean(ctx, info == 21);
			else if (info == 22)
				c->null(ctx);
			else if (info == 23)
				c->undefined(ctx);
			else if (info == 25)
				c->float2(ctx, 0);	/* no caller looks at the value */
			else if (info == 26)
				c->float4(ctx, 0);
			else if (info == 27)
			{
				double		d;

				memcpy(&d, &v, sizeof(d));
				c->float8(ctx, d);
			}
			else
				c->indef_break(ctx);
	}
	return result;
}

/* A head in its shortest form; 0 if it does not fit. */
static size_t
put(unsigned major, uint64_t v, unsigned char *out, size_t size)
{
	size_t		more = v < 24 ? 0 : v < 0x100 ? 1 : v < 0x10000 ? 2 : v < 0x100000000 ? 4 : 8;

	if (size < 1 + more)
		return 0;
	out[0] = (uint8_t) (major << 5 | (more == 0 ? v : more == 1 ? 24 : more == 2 ? 25 : more == 4 ? 26 : 27));
	for (size_t i = 0; i < more; i++)
		out[1 + i] = (uint8_t) (v >> 8 * (more - 1 - i));
	return 1 + more;
}

size_t
cbor_encode_uint(uint64_t v, unsigned char *out, size_t size)
{
	return put(0, v, out, size);
}

size_t
cbor_encode_negint(uint64_t v, unsigned char *out, size_t size)
{
	return put(1, v, out, size);
}

size_t
cbor_encode_bytestring_start(size_t n, unsigned char *out, size_t size)
{
	return put(2, n, out, size);
}

size_t
cbor_encode_string_start(size_t n, unsigned char *out, size_t size)
{
	return put(3, n, out, size);
}

size_t
cbor_encode_array_start(size_t n, unsigned char *out, size_t size)
{
	return put(4, n, out, size);
}

size_t
cbor_encode_map_start(size_t n, unsigned char *out, size_t size)
{
	return put(5, n, out, size);
}

size_t
cbor_encode_tag(uint64_t v, unsigned char *out, size_t size)
{
	return put(6, v, out, size);
}

size_t
cbor_encode_bool(bool value, unsigned char *out, size_t size)
{
	return put(7, value ? 21 : 20, out, size);
}

size_t
cbor_encode_null(unsigned char *out, size_t size)
{
	return put(7, 22, out, size);
}
