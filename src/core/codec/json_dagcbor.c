/*
 * json_dagcbor.c
 *		JSON to canonical DAG-CBOR: see json_dagcbor.h.
 *
 * The value is written while it is read.  The number of a container's members, and the order of an object's
 * keys, are known only at its end: then the head is put before the members, and the members of an object
 * whose keys do not ascend are copied into order.  So each byte is copied a few times for each container
 * around it, at most ATP_JSON_DEPTH_MAX.
 *
 * The memory has three parts: the output, a scratch area of the same size for sorting and decoding, and the
 * list of the members of open objects.
 */
#include "core/syntax/base64.h"
#include "core/codec/cbor_write.h"
#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "core/codec/json_dagcbor.h"
#include "core/codec/json_text.h"

#define JSON_MAX		(256 * 1024 * 1024) /* offsets in Member have 32 bits */
#define MEMBER_MIN		4		/* bytes of JSON for a member without a value: {"": */

/* A member of an object in the output, with key and value. */
typedef struct Member
{
	uint32_t	at;
	uint32_t	end;
	uint32_t	key;			/* offset of the key's text */
	uint32_t	key_len;
} Member;

/* An open container. */
typedef struct Level
{
	size_t		at;				/* offset of the head, for which a byte is reserved */
	size_t		first;			/* of an object: index of the first member */
	size_t		n;				/* number of elements or members */
	bool		is_map;
} Level;

typedef struct Writer
{
	AtpCborWriter w;
	uint8_t    *scratch;		/* as large as the output */
	Member	   *members;		/* members of all open objects */
	size_t		nmembers;
	bool		plain;			/* "$link" and "$bytes" have no meaning */
	AtpErr		unfit;			/* plain: error of the first number or text beyond DAG-CBOR */
	size_t		unfit_at;
	AtpTickFn	tick;
	uint64_t	ticks;
	unsigned	depth;
	Level		levels[ATP_JSON_DEPTH_MAX];
} Writer;

/*
 * The longest output.  The head of a text of 64 kB or more is 3 bytes longer than two quotes.  Everything
 * else is shorter than its JSON together with the comma, colon or bracket before it.
 */
static size_t
longest_output(size_t n)
{
	return n + n / 1024 + 64;
}

size_t
atp_json_dagcbor_room(size_t n)
{
	return 2 * longest_output(n) + _Alignof(Member) + (n / MEMBER_MIN + 1) * sizeof(Member);
}

/* B-04: keys ascend by length, then bytes. */
static int
compare_keys(const uint8_t *buf, const Member *a, const Member *b)
{
	if (a->key_len != b->key_len)
		return a->key_len < b->key_len ? -1 : 1;
	return memcmp(buf + a->key, buf + b->key, a->key_len);
}

/* Restores the heap below i, if only list[i] may be smaller than its children. */
static void
sift_down(const uint8_t *buf, Member *list, size_t i, size_t n)
{
	Member		moved = list[i];

	for (size_t child; (child = 2 * i + 1) < n; i = child)
	{
		if (child + 1 < n && compare_keys(buf, &list[child], &list[child + 1]) < 0)
			child++;
		if (compare_keys(buf, &moved, &list[child]) >= 0)
			break;
		list[i] = list[child];
	}
	list[i] = moved;
}

/* Heapsort: strangers choose the keys, and no order of keys may take quadratic time. */
static void
sort_members(Writer *o, Member *list, size_t n)
{
	const uint8_t *buf = o->w.buf;

	for (size_t i = n / 2; i-- > 0;)
	{
		atp_tick(o->tick, ++o->ticks);
		sift_down(buf, list, i, n);
	}
	while (n-- > 1)
	{
		Member		last = list[n];

		atp_tick(o->tick, ++o->ticks);

		list[n] = list[0];
		list[0] = last;
		sift_down(buf, list, 0, n);
	}
}

static bool
keys_ascend(const uint8_t *buf, const Member *list, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (compare_keys(buf, &list[i - 1], &list[i]) >= 0)
			return false;
	return true;
}

/* J-05: puts the members of the object whose body begins here into canonical order. */
static AtpErr
put_in_order(Writer *o, size_t body, Member *list, size_t n)
{
	AtpCborWriter sorted = {.buf = o->scratch, .cap = o->w.cap};

	if (keys_ascend(o->w.buf, list, n))
		return ATP_OK;
	sort_members(o, list, n);
	if (!keys_ascend(o->w.buf, list, n))
		return ATP_E_JSON_TWICE;
	for (size_t i = 0; i < n; i++)
	{
		atp_tick(o->tick, ++o->ticks);
		atp_cbor_put_raw(&sorted, o->w.buf + list[i].at, list[i].end - list[i].at);
	}
	memcpy(o->w.buf + body, sorted.buf, sorted.len);
	return ATP_OK;
}

/* Writes a container's head into the reserved byte; a longer head moves the body. */
static AtpErr
put_head(Writer *o, const Level *level)
{
	uint8_t		bytes[9];
	AtpCborWriter head = {.buf = bytes, .cap = sizeof(bytes)};
	size_t		body = level->at + 1;
	size_t		n = o->w.len - body;

	if (level->is_map)
		atp_cbor_put_map(&head, level->n);
	else
		atp_cbor_put_array(&head, level->n);
	if (head.len - 1 > o->w.cap - o->w.len)
		return ATP_E_JSON_LARGE;
	if (head.len > 1)
		memmove(o->w.buf + level->at + head.len, o->w.buf + body, n);
	memcpy(o->w.buf + level->at, bytes, head.len);
	o->w.len = level->at + head.len + n;
	return ATP_OK;
}

static bool
has_key(const Writer *o, const Member *m, const char *key)
{
	return m->key_len == strlen(key) && memcmp(o->w.buf + m->key, key, m->key_len) == 0;
}

/* The text that is a member's value; ptr NULL: the value is no text. */
static AtpSpan
text_of(const Writer *o, const Member *m)
{
	AtpCborReader r;
	AtpCborItem item;
	size_t		at;

	atp_cbor_init(&r, o->w.buf + m->key + m->key_len, m->end - m->key - m->key_len, 1);
	if (atp_cbor_item(&r, &item, &at) != ATP_OK || item.kind != ATP_CBOR_TEXT)
		return (AtpSpan) {NULL, 0};
	return atp_cbor_span(&item);
}

/*
 * J-03: an object with the key "$link" stands for a link, an object with "$bytes" for a byte string.  The
 * object must have no other key.
 */
static AtpErr
put_link_object(Writer *o, const Level *level, const Member *m)
{
	AtpSpan		text = text_of(o, m);
	uint8_t		cid[ATP_CID_MAX];
	size_t		n;
	size_t		at;

	if (level->n > 1 || text.ptr == NULL || atp_cid_parse(text.ptr, text.len, cid, &n, &at) != ATP_OK)
		return ATP_E_JSON_LINK;
	o->w.len = level->at;
	atp_cbor_put_link(&o->w, cid, n);
	return ATP_OK;
}

static AtpErr
put_bytes(Writer *o, const Level *level, const Member *m)
{
	AtpSpan		text = text_of(o, m);
	size_t		n;
	bool		exact;

	if (level->n > 1 || text.ptr == NULL || !atp_base64_decode(text.ptr, text.len, o->scratch, &n, &exact) || !exact)
		return ATP_E_JSON_BYTES;
	o->w.len = level->at;
	atp_cbor_put_bytes(&o->w, o->scratch, n);
	return ATP_OK;
}

/* A value has ended: counts it as a member of the enclosing container. */
static void
count_value(Writer *o)
{
	if (o->depth == 0)
		return;
	o->levels[o->depth - 1].n++;
	if (o->levels[o->depth - 1].is_map)
		o->members[o->nmembers - 1].end = (uint32_t) o->w.len;
}

static AtpErr
close_level(Writer *o)
{
	Level	   *level = &o->levels[--o->depth];
	Member	   *members = o->members + level->first;
	AtpErr		err;

	if (level->is_map)
	{
		o->nmembers = level->first;
		for (size_t i = 0; i < level->n && !o->plain; i++)
		{
			if (has_key(o, &members[i], "$link"))
				return put_link_object(o, level, &members[i]);
			if (has_key(o, &members[i], "$bytes"))
				return put_bytes(o, level, &members[i]);
		}
	}

	/*
	 * J-06: the JSON reader accepts one level more than a record may have, because an innermost "$link" or
	 * "$bytes" object is no container in DAG-CBOR.  Any other container at this level is too deep.
	 */
	if (o->depth == ATP_CBOR_DEPTH_DEFAULT)
		return ATP_E_JSON_DEPTH;
	if (level->is_map && (err = put_in_order(o, level->at + 1, members, level->n)) != ATP_OK)
		return err;
	return put_head(o, level);
}

static void
open_level(Writer *o, bool is_map)
{
	static const uint8_t free_byte = 0;

	o->levels[o->depth++] = (Level) {.at = o->w.len, .first = o->nmembers, .is_map = is_map};
	atp_cbor_put_raw(&o->w, &free_byte, 1);
}

/* J-04. */
static AtpErr
put_text(Writer *o, const AtpJsonItem *item, size_t *n)
{
	if (!item->escaped)
	{
		*n = item->raw.len;
		atp_cbor_put_text(&o->w, item->raw.ptr, *n);
		return ATP_OK;
	}
	if (!atp_json_text(item, (char *) o->scratch, o->w.cap, n))
		return ATP_E_JSON_SURROGATE;
	atp_cbor_put_text(&o->w, (const char *) o->scratch, *n);
	return ATP_OK;
}

static AtpErr
put_key(Writer *o, const AtpJsonItem *item)
{
	Member	   *m = &o->members[o->nmembers++];
	size_t		n;
	AtpErr		err;

	m->at = (uint32_t) o->w.len;
	if ((err = put_text(o, item, &n)) != ATP_OK)
		return err;
	m->key = (uint32_t) (o->w.len - n);
	m->key_len = (uint32_t) n;
	return ATP_OK;
}

static AtpErr
put_number(AtpCborWriter *w, AtpSpan number)
{
	int64_t		value;
	AtpErr		err = atp_json_integer(number, &value);

	if (err != ATP_OK)
		return err;
	if (value < 0)
		atp_cbor_put_nint(w, (uint64_t) (-1 - value));
	else
		atp_cbor_put_uint(w, (uint64_t) value);
	return ATP_OK;
}

/* Plain: writes a value of the same type for a key, text or number that DAG-CBOR cannot hold. */
static void
put_substitute(Writer *o, const AtpJsonItem *item)
{
	if (item->kind == ATP_JSON_NUMBER)
		atp_cbor_put_uint(&o->w, 0);
	else
		atp_cbor_put_text(&o->w, item->raw.ptr, item->raw.len);
	if (item->kind == ATP_JSON_KEY)
	{
		Member	   *m = &o->members[o->nmembers - 1];

		m->key = (uint32_t) (o->w.len - item->raw.len);
		m->key_len = (uint32_t) item->raw.len;
	}
	else
		count_value(o);
}

static AtpErr
put_item(Writer *o, const AtpJsonItem *item)
{
	AtpErr		err = ATP_OK;
	size_t		n;

	switch (item->kind)
	{
		case ATP_JSON_OBJECT:
		case ATP_JSON_ARRAY:
			open_level(o, item->kind == ATP_JSON_OBJECT);
			return ATP_OK;
		case ATP_JSON_KEY:
			return put_key(o, item);
		case ATP_JSON_END:
			err = close_level(o);
			break;
		case ATP_JSON_TEXT:
			err = put_text(o, item, &n);
			break;
		case ATP_JSON_NUMBER:
			err = put_number(&o->w, item->raw);
			break;
		case ATP_JSON_TRUE:
		case ATP_JSON_FALSE:
			atp_cbor_put_bool(&o->w, item->kind == ATP_JSON_TRUE);
			break;
		case ATP_JSON_NULL:
			atp_cbor_put_null(&o->w);
			break;
	}
	if (err == ATP_OK)
		count_value(o);
	return err;
}

/* Divides the memory into three parts. */
static bool
divide_room(Writer *o, size_t n, uint8_t *room, size_t size)
{
	size_t		most = longest_output(n);
	uintptr_t	members = (uintptr_t) (room + 2 * most);

	if (n > JSON_MAX || size < atp_json_dagcbor_room(n))
		return false;
	o->w = (AtpCborWriter) {.buf = room, .cap = most};
	o->scratch = room + most;
	o->members = (Member *) (room + 2 * most + -members % _Alignof(Member));
	o->nmembers = 0;
	o->depth = 0;
	return true;
}

static AtpErr
convert_json(const char *restrict s, size_t n, uint8_t *restrict room, size_t size, bool plain, AtpTickFn tick,
		AtpBytes *cbor, size_t *at)
{
	AtpJsonReader r;
	AtpJsonItem item;
	Writer		o;
	AtpErr		err;

	*at = 0;
	*cbor = (AtpBytes) {NULL, 0};
	if (!divide_room(&o, n, room, size))
		return ATP_E_JSON_LARGE;
	o.plain = plain;
	o.tick = tick;
	o.ticks = 0;
	o.unfit = ATP_OK;
	atp_json_init(&r, s, n, ATP_JSON_DEPTH_MAX);
	while ((err = atp_json_next(&r, &item, at)) == ATP_OK)
	{
		atp_tick(tick, ++o.ticks);
		if ((err = put_item(&o, &item)) != ATP_OK)
		{
			bool		is_scalar = item.kind == ATP_JSON_KEY || item.kind == ATP_JSON_TEXT || item.kind == ATP_JSON_NUMBER;

			if (is_scalar)
				*at = item.raw.ptr - s;
			if (!plain || !is_scalar)
				return err;
			if (o.unfit == ATP_OK)
			{
				o.unfit = err;
				o.unfit_at = *at;
			}
			put_substitute(&o, &item);
		}
		if (o.w.len > o.w.cap)
			return ATP_E_JSON_LARGE;
	}
	if (err != ATP_E_JSON_END)
		return err;
	*cbor = (AtpBytes) {o.w.buf, o.w.len};
	if (o.unfit != ATP_OK)
		*at = o.unfit_at;
	return o.unfit;
}

AtpErr
atp_json_to_dagcbor(const char *restrict s, size_t n, uint8_t *restrict room, size_t size,
					AtpBytes *cbor, size_t *at)
{
	return convert_json(s, n, room, size, false, NULL, cbor, at);
}

AtpErr
atp_json_to_dagcbor_ticking(const char *restrict s, size_t n, uint8_t *restrict room, size_t size, AtpTickFn tick,
							AtpBytes *cbor, size_t *at)
{
	return convert_json(s, n, room, size, false, tick, cbor, at);
}

AtpErr
atp_json_to_dagcbor_plain(const char *restrict s, size_t n, uint8_t *restrict room, size_t size,
						  AtpBytes *cbor, size_t *at)
{
	return convert_json(s, n, room, size, true, NULL, cbor, at);
}
