/*
 * dagcbor.c
 *		A strict, bounded, pull reader of DAG-CBOR on libcbor's streaming decoder.
 *
 * cbor_stream_decode() reads one head (and the content of a definite string),
 * calls one callback and allocates nothing.  It is lenient, so everything that
 * makes CBOR into DAG-CBOR is added here: see atp_cbor_next().  What it
 * reports in result.required is not used: that addition can wrap.
 *
 * Three items in four of a captured stream have a head of one byte, which needs
 * no decoder: to read it here takes a quarter off the time of the whole reader.
 */
#include <cbor.h>
#include <math.h>

#include "cid.h"
#include "dagcbor.h"
#include "utf8.h"

/* libcbor 0.10 changed the type of lengths and counts in its callbacks. */
#if CBOR_MAJOR_VERSION > 0 || CBOR_MINOR_VERSION >= 10
typedef uint64_t CborCount;
#else
typedef size_t CborCount;
#endif

#define TAG_LINK	42

/* What one call of the decoder delivered. */
typedef struct Head
{
	enum
	{
		HEAD_ITEM,				/* kind, u, d and ptr as in an AtpCborItem */
		HEAD_TAG,
		HEAD_REFUSED
	}			what;
	AtpCborKind kind;
	AtpErr		why;			/* HEAD_REFUSED */
	uint64_t	u;				/* value, length, count or tag */
	double		d;
	const uint8_t *ptr;
} Head;

static inline void
head_item(void *ctx, AtpCborKind kind, uint64_t u)
{
	Head	   *head = ctx;

	head->what = HEAD_ITEM;
	head->kind = kind;
	head->u = u;
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
	((Head *) ctx)->ptr = data;
}

static void
on_text(void *ctx, cbor_data data, CborCount len)
{
	head_item(ctx, ATP_CBOR_TEXT, len);
	((Head *) ctx)->ptr = data;
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
	Head	   *head = ctx;

	head->what = HEAD_TAG;
	head->u = tag;
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
	head_item(ctx, ATP_CBOR_FLOAT, 0);
	((Head *) ctx)->d = value;
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

/* A head of one byte that is its own argument: an integer, length or count below 24. */
static inline bool
is_short_head(uint8_t byte)
{
	return byte < 0xc0 && (byte & 0x1f) < 24;
}

/* The same as read_head() for such a head. */
static inline AtpErr
read_short_head(AtpCborReader *r, Head *head)
{
	static const AtpCborKind kinds[] = {
		ATP_CBOR_UINT, ATP_CBOR_NINT, ATP_CBOR_BYTES, ATP_CBOR_TEXT, ATP_CBOR_ARRAY, ATP_CBOR_MAP
	};
	const uint8_t *p = r->buf + r->pos;

	head->what = HEAD_ITEM;
	head->kind = kinds[p[0] >> 5];
	head->u = p[0] & 0x1f;
	r->pos++;
	if (head->kind == ATP_CBOR_TEXT || head->kind == ATP_CBOR_BYTES)
	{
		if (head->u > r->len - r->pos)
			return ATP_E_CBOR_TRUNCATED;
		head->ptr = p + 1;
		r->pos += (size_t) head->u;
	}
	return ATP_OK;
}

/*
 * Reads one head at r->pos (and a string's content) and advances r->pos.
 * Checks what holds for every head: that it is whole, definite, one that
 * DAG-CBOR has, and in its shortest form (B-01, B-02, B-03, B-05, B-06, B-07).
 */
static AtpErr
read_head(AtpCborReader *r, Head *head)
{
	/* the smallest argument that needs 1, 2, 4, 8 more bytes */
	static const uint64_t least[4] = {24, 0x100, 0x10000, UINT64_C(0x100000000)};
	const uint8_t *p = r->buf + r->pos;
	size_t		n = r->len - r->pos;
	unsigned	major = p[0] >> 5;
	unsigned	info = p[0] & 0x1f;
	struct cbor_decoder_result result;

	/* A length of 2^32 or more, which a 32-bit libcbor would cut down. */
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
	if (info >= 24 && major != 7 && head->u < least[info - 24])
		return ATP_E_CBOR_LONG_FORM;
	r->pos += result.read;
	return ATP_OK;
}

/* The byte string after tag 42: 00 and a binary CID (B-05). */
static AtpErr
read_link(AtpCborReader *r, Head *head, AtpCborItem *item, size_t *at)
{
	AtpCid		cid;
	AtpErr		err;

	if (head->u != TAG_LINK)
		return ATP_E_CBOR_TAG;
	if (r->pos >= r->len)
		return ATP_E_CBOR_TRUNCATED;
	err = is_short_head(r->buf[r->pos]) ? read_short_head(r, head) : read_head(r, head);
	if (err != ATP_OK)
		return err;
	if (head->what != HEAD_ITEM || head->kind != ATP_CBOR_BYTES ||
		head->u == 0 || head->ptr[0] != 0)
		return ATP_E_CBOR_LINK;
	item->kind = ATP_CBOR_LINK;
	item->str = (AtpBytes) {head->ptr + 1, head->u - 1};
	if (atp_cid_check(item->str.ptr, item->str.len, &cid, at) != ATP_OK)
	{
		*at = item->at;
		return ATP_E_CBOR_LINK;
	}
	return ATP_OK;
}

/*
 * B-04: keys are text, and ascend by length, then bytes.  Pointer and length are
 * copied one by one: to copy them together, the processor would have to wait
 * until both have been stored.
 */
static inline AtpErr
check_key(AtpCborLevel *level, const AtpCborItem *item)
{
	const uint8_t *ptr;
	size_t		len;

	if (item->kind != ATP_CBOR_TEXT)
		return ATP_E_CBOR_KEY;
	ptr = item->str.ptr;
	len = item->str.len;
	if (level->key.ptr != NULL && len <= level->key.len)
	{
		int			cmp;

		if (len < level->key.len)
			return ATP_E_CBOR_KEY_ORDER;
		cmp = memcmp(level->key.ptr, ptr, len);
		if (cmp == 0)
			return ATP_E_CBOR_KEY_TWICE;
		if (cmp > 0)
			return ATP_E_CBOR_KEY_ORDER;
	}
	level->key.ptr = ptr;
	level->key.len = len;
	return ATP_OK;
}

void
atp_cbor_init(AtpCborReader *r, const uint8_t *buf, size_t len, unsigned max_depth)
{
	r->buf = buf;
	r->len = len;
	r->pos = 0;
	r->depth = 0;
	r->max_depth = max_depth < ATP_CBOR_DEPTH_MAX ? max_depth : ATP_CBOR_DEPTH_MAX;
}

/* An item by itself, with no regard to the containers around it. */
static inline AtpErr
read_item(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	Head		head;
	AtpErr		err;

	*at = item->at = r->pos;
	item->is_key = false;
	if (r->pos >= r->len)
		return r->depth == 0 ? ATP_E_CBOR_END : ATP_E_CBOR_TRUNCATED;
	err = is_short_head(r->buf[r->pos]) ? read_short_head(r, &head) : read_head(r, &head);
	if (err != ATP_OK)
		return err;

	if (head.what == HEAD_TAG)
	{
		if ((err = read_link(r, &head, item, at)) != ATP_OK)
			return err;
	}
	else
	{
		item->kind = head.kind;
		item->u = head.u;
		switch (head.kind)
		{
			case ATP_CBOR_TEXT:
				item->str = (AtpBytes) {head.ptr, head.u};
				if (!atp_is_short_ascii(head.ptr, head.u))
				{
					size_t		valid = atp_utf8_valid(head.ptr, head.u);

					if (valid != head.u)
					{
						*at = (size_t) (head.ptr - r->buf) + valid;
						return ATP_E_CBOR_UTF8;
					}
				}
				break;
			case ATP_CBOR_BYTES:
				item->str = (AtpBytes) {head.ptr, head.u};
				break;
			case ATP_CBOR_ARRAY:
				if (head.u > r->len - r->pos)
					return ATP_E_CBOR_LENGTH;
				break;
			case ATP_CBOR_MAP:
				if (head.u > (r->len - r->pos) / 2)
					return ATP_E_CBOR_LENGTH;
				break;
			case ATP_CBOR_FLOAT:
				item->d = head.d;	/* NOLINT(clang-analyzer-core.uninitialized.Assign): by on_double() */
				if (!isfinite(head.d) || (head.d == 0 && signbit(head.d)))
					return ATP_E_CBOR_FLOAT;
				break;
			default:
				break;
		}
	}
	return ATP_OK;
}

AtpErr
atp_cbor_item(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	return read_item(r, item, at);
}

AtpErr
atp_cbor_next(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	AtpErr		err = read_item(r, item, at);

	if (err != ATP_OK)
		return err;
	if (r->depth > 0)
	{
		AtpCborLevel *level = &r->level[r->depth - 1];

		if (level->is_map && level->left % 2 == 0)
		{
			if ((err = check_key(level, item)) != ATP_OK)
				return err;
			item->is_key = true;
		}
		level->left--;
	}
	if (item->kind == ATP_CBOR_ARRAY || item->kind == ATP_CBOR_MAP)
	{
		if (r->depth >= r->max_depth)
			return ATP_E_CBOR_DEPTH;
		if (item->u > 0)
		{
			AtpCborLevel *level = &r->level[r->depth++];

			level->is_map = item->kind == ATP_CBOR_MAP;
			level->left = level->is_map ? 2 * item->u : item->u;
			level->key.ptr = NULL;
			return ATP_OK;
		}
	}
	while (r->depth > 0 && r->level[r->depth - 1].left == 0)
		r->depth--;
	return ATP_OK;
}

AtpErr
atp_cbor_read_over(AtpCborReader *r, unsigned depth, size_t *at)
{
	AtpCborItem item;
	AtpErr		err;

	while (r->depth > depth)
	{
		if ((err = atp_cbor_next(r, &item, at)) != ATP_OK)
			return err;
	}
	return ATP_OK;
}
