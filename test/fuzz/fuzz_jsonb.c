/*
 * fuzz_jsonb.c
 *		The jsonb writer: an image of exactly the requested size must read back as the original value.  The
 *		reader of images in this file knows the layout from utils/jsonb.h, and checks every offset and every
 *		pad.  A value that jsonb cannot hold is still valid DAG-CBOR; and checking a record during the
 *		conversion must give the same result as checking the record before.
 */
#include <stdlib.h>

#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "core/packed/packed.h"
#include "data/jsonb_image.h"
#include "protocol/cbor.h"
#include "protocol/record.h"

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Part
{
	const uint8_t *image;		/* of the whole value */
	size_t		start;			/* of this part, padding included */
	size_t		len;
	uint32_t	type;
} Part;

static void
need(bool truth)
{
	if (!truth)
		abort();
}

static uint32_t
u32_at(const uint8_t *image, size_t at)
{
	uint32_t	v;

	memcpy(&v, image + at, 4);
	return v;
}

/* The size in the header of a varlena of 4 bytes. */
static size_t
size_at(const uint8_t *image, size_t at)
{
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	return u32_at(image, at) & 0x3fffffff;
#else
	return u32_at(image, at) >> 2;
#endif
}

/* Skip padding to the next multiple of 4, which must be zero. */
static size_t
padded(const Part *p)
{
	size_t		at = p->start;

	for (; at % 4 != 0; at++)
		need(p->image[at] == 0);
	return at;
}

/* Child i of nentries of the container at "at", found by adding all earlier lengths. */
static Part
child(const uint8_t *image, size_t at, uint32_t nentries, uint32_t i)
{
	size_t		end = 0;
	size_t		begin = 0;
	uint32_t	entry = 0;

	for (uint32_t k = 0; k <= i; k++)
	{
		entry = u32_at(image, at + 4 + 4 * (size_t) k);
		begin = end;
		need(((entry & 0x80000000) != 0) == (k % 32 == 0));
		if (entry & 0x80000000)
			end = entry & 0x0fffffff;
		else
			end += entry & 0x0fffffff;
	}
	return (Part) {image, at + 4 + 4 * (size_t) nentries + begin, end - begin, entry & 0x70000000};
}

static void
check_text(const Part *p, const void *s, size_t n)
{
	need(p->type == 0 && p->len == n && memcmp(p->image + p->start, s, n) == 0);
}

/* Sign and magnitude of a short numeric without decimals, digit by digit. */
static void
check_numeric(const Part *p, bool negative, uint64_t u)
{
	size_t		at = padded(p);
	size_t		size = size_at(p->image, at);
	uint16_t	header;
	unsigned	ndigits;
	uint64_t	value = 0;

	need(p->type == 0x10000000 && p->start + p->len == at + size && size >= 6);
	memcpy(&header, p->image + at + 4, 2);
	ndigits = (unsigned) (size - 6) / 2;
	need((header & 0xdfc0) == 0x8000);
	need(((header & 0x2000) != 0) == negative);
	need(ndigits <= (header & 0x3f) + 1u);
	for (unsigned i = 0; i <= (header & 0x3fu); i++)
	{
		uint16_t	digit = 0;

		if (i < ndigits)
			memcpy(&digit, p->image + at + 6 + 2 * i, 2);
		need(digit < 10000);
		need(i > 0 || ndigits == 0 || digit != 0);
		need(i + 1 != ndigits || digit != 0);
		value = value * 10000 + digit;	/* 2^64 itself comes to 0 */
	}
	need(value == (negative ? u + 1 : u));
}

static void check_value(const Part *p, AtpCborReader *r);

static void
check_special(const Part *p, const AtpCborItem *item)
{
	size_t		at = padded(p);
	Part		key = child(p->image, at, 2, 0);
	Part		value = child(p->image, at, 2, 1);
	bool		is_link = item->kind == ATP_CBOR_LINK;

	need(p->type == 0x50000000 && u32_at(p->image, at) == (0x20000000 | 1));
	check_text(&key, is_link ? "$link" : "$bytes", is_link ? 5 : 6);
	need(value.start + value.len == p->start + p->len && value.type == 0);
	if (is_link)
	{
		uint8_t		cid[ATP_CID_MAX];
		size_t		n;
		size_t		bad;

		need(atp_cid_parse((const char *) p->image + value.start, value.len, cid, &n, &bad) == ATP_OK);
		need(n == item->str.len && memcmp(cid, item->str.ptr, n) == 0);
	}
	else
		need(value.len == (item->str.len * 4 + 2) / 3);
}

static void
check_container(const Part *p, AtpCborReader *r, bool is_map, uint32_t count)
{
	size_t		at = padded(p);
	uint32_t	nentries = is_map ? 2 * count : count;
	size_t		end = at + 4 + 4 * (size_t) nentries;

	need(p->type == 0x50000000);
	need(u32_at(p->image, at) == ((is_map ? 0x20000000u : 0x40000000u) | count));
	for (uint32_t i = 0; i < count; i++)
	{
		Part		value = child(p->image, at, nentries, is_map ? count + i : i);

		if (is_map)
		{
			Part		key = child(p->image, at, nentries, i);
			AtpCborItem item;
			size_t		bad;

			need(atp_cbor_next(r, &item, &bad) == ATP_OK && item.is_key);
			check_text(&key, item.str.ptr, item.str.len);
		}
		check_value(&value, r);
		end = value.start + value.len;
	}
	need(end == p->start + p->len);
}

static void
check_value(const Part *p, AtpCborReader *r)
{
	AtpCborItem item;
	size_t		at;

	need(atp_cbor_next(r, &item, &at) == ATP_OK);
	switch (item.kind)
	{
		case ATP_CBOR_UINT:
		case ATP_CBOR_NINT:
			check_numeric(p, item.kind == ATP_CBOR_NINT, item.u);
			return;
		case ATP_CBOR_TEXT:
			need(!item.has_nul && memchr(item.str.ptr, 0, item.str.len) == NULL);
			check_text(p, item.str.ptr, item.str.len);
			return;
		case ATP_CBOR_BYTES:
		case ATP_CBOR_LINK:
			check_special(p, &item);
			return;
		case ATP_CBOR_ARRAY:
		case ATP_CBOR_MAP:
			check_container(p, r, item.kind == ATP_CBOR_MAP, (uint32_t) item.u);
			return;
		case ATP_CBOR_FALSE:
			need(p->type == 0x20000000 && p->len == 0);
			return;
		case ATP_CBOR_TRUE:
			need(p->type == 0x30000000 && p->len == 0);
			return;
		case ATP_CBOR_NULL:
			need(p->type == 0x40000000 && p->len == 0);
			return;
		default:
			abort();
	}
}

static bool
is_unfit(AtpErr err)
{
	return err == ATP_E_DATA_FLOAT || err == ATP_E_JSON_NUL || err == ATP_E_JSON_AMBIGUOUS;
}

/* Checks the value as a record: faults of the record are reported before faults of the value. */
static void
check_record(const uint8_t *data, size_t size, AtpErr value_err, size_t value_at)
{
	size_t		n;
	size_t		room;
	size_t		at;
	AtpErr		err = atp_jsonb_scan_record(data, size, NULL, 0, atp_no_pause, &n, &room, &at);

	need(at <= size);
	if (atp_record_check(data, size, &at) == ATP_OK)
		need(err == value_err && at == value_at && err != ATP_E_DATA_FLOAT);
	else
		need(err != ATP_E_JSON_TOKENS && (err == ATP_E_DATA_FLOAT || !is_unfit(err)));
}

/* Packing a record finds the same fault, at the same byte, and packs the same value as without the check. */
static void
check_packed_record(const uint8_t *data, size_t size)
{
	uint8_t    *record = malloc(ATP_PACKED_ROOM(size));
	uint8_t    *value = malloc(ATP_PACKED_ROOM(size));
	size_t		n;
	size_t		value_n;
	size_t		at;
	size_t		record_at;
	AtpErr		err = atp_packed_store_record((AtpBytes) {data, size}, record, &n, &at);

	need(record != NULL && value != NULL);
	need(atp_record_check(data, size, &record_at) == err && (err == ATP_OK || at == record_at));
	if (err == ATP_OK)
		need(atp_packed_store((AtpBytes) {data, size}, value, &value_n, &at) == ATP_OK && value_n == n && memcmp(value, record, n) == 0);
	free(record);
	free(value);
}

/* The scan returns the number of tokens, and needs memory for no more. */
static AtpErr
scan(const uint8_t *data, size_t size, AtpJsonbToken **tokens, size_t *room)
{
	size_t		n;
	size_t		again;
	size_t		at;
	size_t		other_at;
	AtpErr		err = atp_jsonb_scan(data, size, NULL, 0, atp_no_pause, &n, room, &at);

	need(at <= size && err != ATP_OK);
	need((atp_cbor_check(data, size, ATP_CBOR_DEPTH_DEFAULT, &other_at) == ATP_OK) == (err == ATP_E_JSON_TOKENS || is_unfit(err)));
	check_record(data, size, err, at);
	check_packed_record(data, size);
	if (err != ATP_E_JSON_TOKENS)
		return err;
	need(n > 0 && n <= size);
	*tokens = malloc(n * sizeof(AtpJsonbToken));
	need(*tokens != NULL);
	need(atp_jsonb_scan(data, size, *tokens, n - 1, atp_no_pause, &again, room, &at) == ATP_E_JSON_TOKENS);
	need(again == n);
	return atp_jsonb_scan(data, size, *tokens, n, atp_no_pause, &again, room, &at);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpJsonbToken *tokens = NULL;
	AtpCborReader r;
	Part		root;
	uint8_t    *image;
	size_t		room;
	size_t		len;
	AtpErr		err = scan(data, size, &tokens, &room);

	if (err != ATP_OK)
		return 0;
	image = malloc(room);
	need(image != NULL);
	memset(image, 0xee, room);	/* so that unwritten bytes show */
	len = atp_jsonb_build(tokens, image);
	need(len <= room && size_at(image, 0) == len);

	if (u32_at(image, 4) & 0x10000000)
	{
		need(u32_at(image, 4) == (0x50000000 | 1));
		root = child(image, 4, 1, 0);
	}
	else
		root = (Part) {image, 4, len - 4, 0x50000000};
	need(root.start + root.len == len);
	atp_cbor_init(&r, data, size, ATP_CBOR_DEPTH_DEFAULT);
	check_value(&root, &r);
	free(image);
	free(tokens);
	return 0;
}
