/*
 * packed_store.c
 *		Packs DAG-CBOR, in one walk with the strict reader.
 *
 * A map is written as a shape, without its keys, for as long as its keys are known; if the map turns out to have no shape, the
 * numbers of the keys are put between the values.  The length of a container is put before the members when the end is known.
 * Both only move written bytes, so that packing takes the time to read the bytes, and to move the bytes once for each level.
 */
#include "core/codec/cid.h"
#include "core/codec/dagcbor_next.h"
#include "core/packed/packed.h"
#include "core/packed/packed_table.h"
#include "core/packed/packed_text.h"
#include "core/repo/record_check.h"

/* len counts all bytes, also bytes beyond cap. */
typedef struct ValuePacker
{
	AtpCborReader reader;
	AtpRecordView *view;		/* the record that is checked; NULL: any value is packed */
	uint8_t		edition;
	uint8_t    *out;
	size_t		cap;
	size_t		len;
} ValuePacker;

static AtpErr store_value(ValuePacker *p, size_t *at);

static inline bool
has_room(const ValuePacker *p)
{
	return p->len <= p->cap;
}

static inline void
put_raw(ValuePacker *p, const void *bytes, size_t n)
{
	if (has_room(p) && n <= p->cap - p->len && n > 0)
		memcpy(p->out + p->len, bytes, n);
	p->len += n;
}

static inline void
put_byte(ValuePacker *p, unsigned byte)
{
	uint8_t		b = (uint8_t) byte;

	put_raw(p, &b, 1);
}

static void
put_number(ValuePacker *p, uint64_t number)
{
	uint8_t		varint[ATP_VARINT_MAX];

	if (number < 128)
		put_byte(p, (unsigned) number);
	else
		put_raw(p, varint, atp_varint_write(number, varint));
}

static void
put_with_length(ValuePacker *p, AtpPackedCode code, AtpBytes bytes)
{
	put_byte(p, code);
	put_number(p, bytes.len);
	put_raw(p, bytes.ptr, bytes.len);
}

static void
put_be64(ValuePacker *p, AtpPackedCode code, uint64_t u)
{
	uint8_t		bytes[8];

	atp_put_be64(bytes, u);
	put_byte(p, code);
	put_raw(p, bytes, sizeof(bytes));
}

static ATP_INTO_THE_LOOP AtpErr
next_item(ValuePacker *p, AtpCborItem *item, size_t *at)
{
	unsigned	before = p->reader.depth;
	AtpErr		err = atp_cbor_read_next(&p->reader, item, at);

	return err != ATP_OK || p->view == NULL ? err : atp_record_see(p->view, item, before, p->reader.depth, at);
}

/* Moves the bytes from "at" on, to leave n bytes free. */
static void
open_gap(ValuePacker *p, size_t at, size_t n)
{
	size_t		behind = p->len - at;

	p->len += n;
	if (has_room(p))
		memmove(p->out + at + n, p->out + at, behind);
}

/* --- values without members --- */

static void
store_integer(ValuePacker *p, const AtpCborItem *item)
{
	bool		is_negative = item->kind == ATP_CBOR_NINT;

	if (!is_negative && item->u < ATP_CODE_SMALL)
		put_byte(p, ATP_CODE_SMALL + (unsigned) item->u);
	else if (item->u >> 63 != 0)
		put_be64(p, is_negative ? ATP_CODE_NINT_LONG : ATP_CODE_UINT_LONG, item->u);
	else
	{
		put_byte(p, is_negative ? ATP_CODE_NINT : ATP_CODE_UINT);
		put_number(p, item->u);
	}
}

static void
store_text(ValuePacker *p, const AtpCborItem *item)
{
	uint8_t		form[ATP_FORM_MAX];
	size_t		n = atp_packed_put_text(atp_cbor_span(item), p->edition, form);

	if (n > 0)
		put_raw(p, form, n);
	else if (item->str.len < ATP_CODE_SMALL - ATP_CODE_SHORT_TEXT)
	{
		put_byte(p, ATP_CODE_SHORT_TEXT + (unsigned) item->str.len);
		put_raw(p, item->str.ptr, item->str.len);
	}
	else
		put_with_length(p, ATP_CODE_TEXT, item->str);
}

static void
store_link(ValuePacker *p, AtpBytes cid)
{
	if (!atp_cid_is_blessed(cid.ptr, cid.len))
	{
		put_with_length(p, ATP_CODE_LINK_ANY, cid);
		return;
	}
	put_byte(p, cid.ptr[1] == ATP_CID_CODEC_DAG_CBOR ? ATP_CODE_LINK : ATP_CODE_LINK_RAW);
	put_raw(p, cid.ptr + cid.len - ATP_PACKED_DIGEST, ATP_PACKED_DIGEST);
}

/* --- containers --- */

/* Begins with the length 0, which is right for an empty container; close_container() sets the length of all others. */
static size_t
open_container(ValuePacker *p, AtpPackedCode code)
{
	size_t		start = p->len;

	put_byte(p, code);
	put_byte(p, 0);
	return start;
}

static void
close_container(ValuePacker *p, size_t start)
{
	uint8_t		varint[ATP_VARINT_MAX];
	size_t		body = start + 2;
	size_t		n = atp_varint_write(p->len - body, varint);

	if (n > 1)
		open_gap(p, body, n - 1);
	if (has_room(p))
		memcpy(p->out + start + 1, varint, n);
}

static AtpErr
store_array(ValuePacker *p, uint64_t members, size_t *at)
{
	size_t		start = open_container(p, ATP_CODE_ARRAY);
	AtpErr		err;

	if (members == 0)
		return ATP_OK;
	put_number(p, members);
	for (uint64_t i = 0; i < members; i++)
		if ((err = store_value(p, at)) != ATP_OK)
			return err;
	close_container(p, start);
	return ATP_OK;
}

/* The keys of a map, while the map may have a shape. */
typedef struct Keys
{
	unsigned	n;
	uint8_t		numbers[ATP_PACKED_SHAPE_KEYS];
	size_t		values[ATP_PACKED_SHAPE_KEYS];	/* where each key's value begins */
} Keys;

/* The map has no shape: puts the number of each key before its value. */
static void
insert_keys(ValuePacker *p, const Keys *keys)
{
	size_t		end = p->len;

	p->len += keys->n;
	if (!has_room(p))
		return;
	for (unsigned i = keys->n; i-- > 0;)
	{
		size_t		value = keys->values[i];

		memmove(p->out + value + i + 1, p->out + value, end - value);
		p->out[value + i] = keys->numbers[i];
		end = value;
	}
}

static void
put_map_key(ValuePacker *p, AtpSpan key, uint16_t number)
{
	if (number != ATP_PACKED_NONE)
		put_byte(p, number);
	else
	{
		put_byte(p, 0);
		put_number(p, key.len);
		put_raw(p, key.ptr, key.len);
	}
}

/* A strong reference: {cid, uri} with a CID of DAG-CBOR and the usual parts of the URI.  Both values lose their codes. */
static bool
is_reference(const ValuePacker *p, const Keys *keys)
{
	return has_room(p) && keys->n == 2 && keys->numbers[0] == KEY_cid && keys->numbers[1] == KEY_uri &&
		p->out[keys->values[0]] == ATP_CODE_CID && p->out[keys->values[1]] == ATP_CODE_URI;
}

static void
close_reference(ValuePacker *p, size_t start, const Keys *keys)
{
	uint8_t    *out = p->out + start;

	out[0] = ATP_CODE_REF;
	memmove(out + 1, p->out + keys->values[0] + 1, ATP_PACKED_DIGEST);
	memmove(out + 1 + ATP_PACKED_DIGEST, p->out + keys->values[1] + 1, ATP_PACKED_URI);
	p->len = start + 1 + ATP_PACKED_DIGEST + ATP_PACKED_URI;
}

/* All keys have numbers: the map is a shape, if the list has it. */
static void
close_known(ValuePacker *p, size_t start, const Keys *keys)
{
	uint16_t	shape;

	if (is_reference(p, keys))
	{
		close_reference(p, start, keys);
		return;
	}
	shape = atp_packed_find_shape((AtpSpan) {(const char *) keys->numbers, keys->n}, p->edition);
	if (shape == ATP_PACKED_NONE)
		insert_keys(p, keys);
	else if (has_room(p))
	{
		p->out[start] = ATP_CODE_SHAPE;
		p->out[start + 2] = (uint8_t) shape;
	}
	close_container(p, start);
}

static AtpErr
store_map(ValuePacker *p, uint64_t pairs, size_t *at)
{
	size_t		start = open_container(p, ATP_CODE_MAP);
	bool		may_have_shape = pairs <= ATP_PACKED_SHAPE_KEYS;
	Keys		keys = {.n = 0};

	if (pairs == 0)
		return ATP_OK;
	put_number(p, pairs);		/* one byte, as the number of a shape */
	for (uint64_t i = 0; i < pairs; i++)
	{
		AtpCborItem key;
		uint16_t	number;
		AtpErr		err;

		if ((err = next_item(p, &key, at)) != ATP_OK)
			return err;
		number = atp_packed_find_key(atp_cbor_span(&key), p->edition);
		if (may_have_shape && number == ATP_PACKED_NONE)
		{
			insert_keys(p, &keys);
			may_have_shape = false;
		}
		if (may_have_shape)
		{
			keys.numbers[keys.n] = (uint8_t) number;
			keys.values[keys.n++] = p->len;
		}
		else
			put_map_key(p, atp_cbor_span(&key), number);
		if ((err = store_value(p, at)) != ATP_OK)
			return err;
	}
	if (may_have_shape)
		close_known(p, start, &keys);
	else
		close_container(p, start);
	return ATP_OK;
}

static AtpErr
store_value(ValuePacker *p, size_t *at)
{
	AtpCborItem item;
	AtpErr		err = next_item(p, &item, at);

	if (err != ATP_OK)
		return err;
	switch (item.kind)
	{
		case ATP_CBOR_UINT:
		case ATP_CBOR_NINT:
			store_integer(p, &item);
			break;
		case ATP_CBOR_BYTES:
			put_with_length(p, ATP_CODE_BYTES, item.str);
			break;
		case ATP_CBOR_TEXT:
			store_text(p, &item);
			break;
		case ATP_CBOR_ARRAY:
			return store_array(p, item.u, at);
		case ATP_CBOR_MAP:
			return store_map(p, item.u, at);
		case ATP_CBOR_LINK:
			store_link(p, item.str);
			break;
		case ATP_CBOR_NULL:
			put_byte(p, ATP_CODE_NULL);
			break;
		case ATP_CBOR_FALSE:
			put_byte(p, ATP_CODE_FALSE);
			break;
		case ATP_CBOR_TRUE:
			put_byte(p, ATP_CODE_TRUE);
			break;
		case ATP_CBOR_FLOAT:
			put_be64(p, ATP_CODE_FLOAT, item.u);	/* the bits of the float */
			break;
	}
	return ATP_OK;
}

/* Reads and packs exactly one value; p->len is more than p->cap if the packed value is longer than the room. */
static AtpErr
store_as(ValuePacker *p, AtpRecordView *view, uint8_t edition, AtpBytes cbor, uint8_t *out, size_t cap, size_t *at)
{
	AtpErr		err;

	atp_cbor_init(&p->reader, cbor.ptr, cbor.len, ATP_CBOR_DEPTH_DEFAULT);
	p->view = view;
	p->edition = edition;
	p->out = out;
	p->cap = cap;
	p->len = 0;
	put_byte(p, edition);
	if ((err = store_value(p, at)) != ATP_OK)
		return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
	*at = p->reader.pos;
	if (p->reader.pos != cbor.len)	/* B-09 */
		return ATP_E_CBOR_TRAILING;
	return p->view == NULL ? ATP_OK : atp_record_seen(p->view, at);
}

static AtpErr
store_whole(AtpRecordView *view, AtpBytes cbor, uint8_t *out, size_t *n, size_t *at)
{
	ValuePacker		p;
	AtpErr		err = store_as(&p, view, ATP_PACKED_EDITION, cbor, out, ATP_PACKED_ROOM(cbor.len), at);

	if (err != ATP_OK)
		return err;
	*n = p.len;
	if (p.len > cbor.len + 1)
	{
		out[0] = ATP_PACKED_PLAIN;
		memcpy(out + 1, cbor.ptr, cbor.len);
		*n = cbor.len + 1;
	}
	return ATP_OK;
}

AtpErr
atp_packed_store(AtpBytes cbor, uint8_t *restrict out, size_t *n, size_t *at)
{
	return store_whole(NULL, cbor, out, n, at);
}

AtpErr
atp_packed_store_record(AtpBytes block, uint8_t *restrict out, size_t *n, size_t *at)
{
	AtpRecordView view;
	AtpErr		err = atp_record_view(&view, block.len);

	*at = 0;
	return err != ATP_OK ? err : store_whole(&view, block, out, n, at);
}

/* The strict reader alone would do for a plain value, but scratch has room, and a stored value has one check. */
AtpErr
atp_packed_check(AtpBytes stored, uint8_t *scratch, size_t size)
{
	size_t		cap = stored.len + ATP_PACKED_MARGIN;
	ValuePacker		p;
	size_t		n;
	size_t		at;
	AtpErr		err;

	if (size < cap)
		return ATP_E_PACKED;
	if ((err = atp_packed_unpack(stored, scratch + cap, size - cap, &n)) != ATP_OK)
		return err;
	if (n > size - cap ||
		store_as(&p, NULL, stored.ptr[0] == ATP_PACKED_PLAIN ? ATP_PACKED_EDITION : stored.ptr[0],
				 (AtpBytes) {scratch + cap, n}, scratch, cap, &at) != ATP_OK)
		return ATP_E_PACKED;
	if (stored.ptr[0] != ATP_PACKED_PLAIN && (p.len != stored.len || memcmp(scratch, stored.ptr, p.len) != 0))
		return ATP_E_PACKED;
	return ATP_OK;
}
