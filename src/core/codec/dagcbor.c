/*
 * dagcbor.c
 *		A strict, bounded, pull reader of DAG-CBOR on libcbor's streaming
 *		decoder.
 *
 * cbor_stream_decode() reads one head (and the content of a definite string),
 * calls one callback and allocates nothing.  It accepts all of CBOR; the rules
 * that make DAG-CBOR are added here and in dagcbor_next.h.  Its result.required
 * is not used, because libcbor computes it by an addition that can wrap.
 *
 * Nearly all items of a captured stream have a head of one, two or three bytes:
 * dagcbor_next.h reads these without libcbor.
 */
#include <cbor.h>
#include <math.h>

#include "core/codec/cid.h"
#include "core/codec/dagcbor_next.h"

/* libcbor 0.10 changed the type of lengths and counts in its callbacks. */
#if CBOR_MAJOR_VERSION > 0 || CBOR_MINOR_VERSION >= 10
typedef uint64_t CborCount;
#else
typedef size_t CborCount;
#endif

#define TAG_LINK	42

/* The outcome of a call of cbor_stream_decode(). */
typedef struct Head
{
	enum
	{
		HEAD_ITEM,
		HEAD_TAG,				/* a tag; item is the number of the tag, as an integer */
		HEAD_REFUSED
	}			what;
	AtpErr		why;			/* HEAD_REFUSED */
	AtpCborHead item;
} Head;

static inline void
head_item(void *ctx, AtpCborKind kind, uint64_t u)
{
	Head	   *head = ctx;

	head->what = HEAD_ITEM;
	head->item.kind = kind;
	head->item.u = u;
}

static inline void
head_refused(void *ctx, AtpErr why)
{
	Head	   *head = ctx;

	head->what = HEAD_REFUSED;
	head->why = why;
}

static void
on_uint8(void *ctx, uint8_t v)
{
	head_item(ctx, ATP_CBOR_UINT, v);
}

static void
on_uint16(void *ctx, uint16_t v)
{
	head_item(ctx, ATP_CBOR_UINT, v);
}

static void
on_uint32(void *ctx, uint32_t v)
{
	head_item(ctx, ATP_CBOR_UINT, v);
}

static void
on_uint64(void *ctx, uint64_t v)
{
	head_item(ctx, ATP_CBOR_UINT, v);
}

static void
on_nint8(void *ctx, uint8_t v)
{
	head_item(ctx, ATP_CBOR_NINT, v);
}

static void
on_nint16(void *ctx, uint16_t v)
{
	head_item(ctx, ATP_CBOR_NINT, v);
}

static void
on_nint32(void *ctx, uint32_t v)
{
	head_item(ctx, ATP_CBOR_NINT, v);
}

static void
on_nint64(void *ctx, uint64_t v)
{
	head_item(ctx, ATP_CBOR_NINT, v);
}

static void
on_bytes(void *ctx, cbor_data data, CborCount len)
{
	head_item(ctx, ATP_CBOR_BYTES, len);
	((Head *) ctx)->item.ptr = data;
}

static void
on_text(void *ctx, cbor_data data, CborCount len)
{
	head_item(ctx, ATP_CBOR_TEXT, len);
	((Head *) ctx)->item.ptr = data;
}

static void
on_array(void *ctx, CborCount count)
{
	head_item(ctx, ATP_CBOR_ARRAY, count);
}

static void
on_map(void *ctx, CborCount count)
{
	head_item(ctx, ATP_CBOR_MAP, count);
}

static void
on_tag(void *ctx, uint64_t tag)
{
	head_item(ctx, ATP_CBOR_UINT, tag);
	((Head *) ctx)->what = HEAD_TAG;
}

static void
on_null(void *ctx)
{
	head_item(ctx, ATP_CBOR_NULL, 0);
}

static void
on_bool(void *ctx, bool value)
{
	head_item(ctx, value ? ATP_CBOR_TRUE : ATP_CBOR_FALSE, 0);
}

static void
on_double(void *ctx, double value)
{
	uint64_t	bits;

	memcpy(&bits, &value, sizeof(bits));
	if (!isfinite(value) || (value == 0 && signbit(value)))
		head_refused(ctx, ATP_E_CBOR_FLOAT);	/* B-07 */
	else
		head_item(ctx, ATP_CBOR_FLOAT, bits);
}

static void
on_short_float(void *ctx, float value)
{
	(void) value;
	head_refused(ctx, ATP_E_CBOR_FLOAT_WIDTH);
}

static void
on_indefinite(void *ctx)
{
	head_refused(ctx, ATP_E_CBOR_INDEFINITE);
}

static void
on_undefined(void *ctx)
{
	head_refused(ctx, ATP_E_CBOR_SIMPLE);
}

static const struct cbor_callbacks callbacks = {
	.uint8 = on_uint8,
	.uint16 = on_uint16,
	.uint32 = on_uint32,
	.uint64 = on_uint64,
	.negint8 = on_nint8,
	.negint16 = on_nint16,
	.negint32 = on_nint32,
	.negint64 = on_nint64,
	.byte_string_start = on_indefinite,
	.byte_string = on_bytes,
	.string_start = on_indefinite,
	.string = on_text,
	.indef_array_start = on_indefinite,
	.array_start = on_array,
	.indef_map_start = on_indefinite,
	.map_start = on_map,
	.tag = on_tag,
	.float2 = on_short_float,
	.float4 = on_short_float,
	.float8 = on_double,
	.undefined = on_undefined,
	.null = on_null,
	.boolean = on_bool,
	.indef_break = on_indefinite,
};

/*
 * Reads one head (and a string's content) and checks the rules for every head:
 * complete, definite, of a kind that DAG-CBOR has, and in its shortest form
 * (B-01, B-02, B-03, B-06).  D15: there is no relaxed mode.
 */
static AtpErr
decode_head(const uint8_t *p, size_t n, Head *head)
{
	/* the smallest argument that needs 1, 2, 4, 8 more bytes */
	static const uint64_t least[4] = {24, 0x100, 0x10000, UINT64_C(0x100000000)};
	unsigned	major = p[0] >> 5;
	unsigned	info = p[0] & 0x1f;
	struct cbor_decoder_result result;

	/* A length of 2^32 or more: a libcbor with 32-bit lengths would truncate it and accept the item. */
	if (info == 27 && major >= 2 && major <= 5 && n >= 9 &&
		(p[1] | p[2] | p[3] | p[4]) != 0)
		return ATP_E_CBOR_LENGTH;

	result = cbor_stream_decode(p, n, &callbacks, head);
	switch (result.status)
	{
		case CBOR_DECODER_FINISHED:
			break;
		case CBOR_DECODER_NEDATA:
			return ATP_E_CBOR_TRUNCATED;
		default:
			return major == 7 ? ATP_E_CBOR_SIMPLE : ATP_E_CBOR_RESERVED;
	}
	if (head->what == HEAD_REFUSED)
		return head->why;
	if (info >= 24 && major != 7 && head->item.u < least[info - 24])
		return ATP_E_CBOR_LONG_FORM;
	head->item.size = result.read;
	return ATP_OK;
}

/* Reads the byte string after tag 42: 00 and a binary CID (B-05). */
static AtpErr
decode_link(const uint8_t *p, size_t n, Head *head)
{
	AtpCborHead *item = &head->item;
	size_t		tag_size = item->size;
	AtpCid		cid;
	AtpErr		err;
	size_t		at;

	if (item->u != TAG_LINK)
		return ATP_E_CBOR_TAG;
	if (tag_size == n)
		return ATP_E_CBOR_TRUNCATED;
	if (!atp_cbor_easy_head(p + tag_size, n - tag_size, item) &&
		(err = decode_head(p + tag_size, n - tag_size, head)) != ATP_OK)
		return err;
	if (item->kind != ATP_CBOR_BYTES || item->u == 0 || item->ptr[0] != 0)
		return ATP_E_CBOR_LINK;
	item->kind = ATP_CBOR_LINK;
	item->ptr++;
	item->u--;
	item->size += tag_size;
	return atp_cid_check(item->ptr, item->u, &cid, &at) == ATP_OK ? ATP_OK : ATP_E_CBOR_LINK;
}

AtpErr
atp_cbor_head(const uint8_t *p, size_t n, AtpCborHead *item)
{
	Head		head = {0};
	AtpErr		err = decode_head(p, n, &head);

	if (err == ATP_OK && head.what == HEAD_TAG)
		err = decode_link(p, n, &head);
	*item = head.item;
	return err;
}

void
atp_cbor_init(AtpCborReader *r, const uint8_t *buf, size_t len, unsigned max_depth)
{
	atp_cbor_begin(r, buf, len, max_depth);
}

AtpErr
atp_cbor_item(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	return atp_cbor_read_item(r, item, at);
}

AtpErr
atp_cbor_next(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	return atp_cbor_read_next(r, item, at);
}

AtpErr
atp_cbor_read_over(AtpCborReader *r, unsigned depth, size_t *at)
{
	AtpCborItem item;
	AtpErr		err;

	while (r->depth > depth)
	{
		if ((err = atp_cbor_read_next(r, &item, at)) != ATP_OK)
			return err;
	}
	return ATP_OK;
}
