/*
 * dagcbor_next.h
 *		The body of atp_cbor_next(), for callers that look at every item of a record.  Inlined into their
 *		loop, it keeps reader and item in registers, as long as the loop passes their addresses to no
 *		function.  All other callers use atp_cbor_next().
 *
 * Nearly all items are easy: a head of one to three bytes, or a link with SHA-256, or false, true or null.
 * libcbor reads all other items (dagcbor.c).
 */
#ifndef ATP_DAGCBOR_NEXT_H
#define ATP_DAGCBOR_NEXT_H

#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "core/syntax/utf8.h"

#define ATP_INTO_THE_LOOP	inline __attribute__((always_inline))

/* An item without regard to containers: its head, and the content of a string. */
typedef struct AtpCborHead
{
	AtpCborKind kind;
	uint64_t	u;				/* value, length, count, or the bits of a float */
	const uint8_t *ptr;			/* the byte after the head: a string's content */
	size_t		size;			/* bytes read */
} AtpCborHead;

/*
 * Reads any item from n > 0 bytes, also when the bytes are too few.  The caller must check that text is
 * UTF-8, and that the input is long enough for a container's count.
 */
extern AtpErr atp_cbor_head(const uint8_t *p, size_t n, AtpCborHead *head);

/*
 * As atp_cbor_head(), but only for easy items, including tag 42 with a CID of the usual form (B-05).  False:
 * libcbor must read the item.
 */
static ATP_INTO_THE_LOOP bool
atp_cbor_easy_head(const uint8_t *p, size_t n, AtpCborHead *head)
{
	static const char link[] = "\xd8\x2a\x58\x25\x00";
	const size_t link_size = sizeof(link) - 1;

	_Static_assert(ATP_CBOR_UINT == 0 && ATP_CBOR_NINT == 1 && ATP_CBOR_BYTES == 2 && ATP_CBOR_TEXT == 3 &&
				   ATP_CBOR_ARRAY == 4 && ATP_CBOR_MAP == 5, "kinds are CBOR's major types");

	if (p[0] >= 0xc0)
	{
		if (p[0] >= 0xf4 && p[0] <= 0xf6)
		{
			static const AtpCborKind kinds[] = {ATP_CBOR_FALSE, ATP_CBOR_TRUE, ATP_CBOR_NULL};

			*head = (AtpCborHead) {.kind = kinds[p[0] - 0xf4], .size = 1};
			return true;
		}
		if (n < link_size + ATP_CID_BLESSED_LEN || memcmp(p, link, link_size) != 0 ||
			!atp_cid_is_blessed(p + link_size, ATP_CID_BLESSED_LEN))
			return false;
		head->kind = ATP_CBOR_LINK;
		head->u = ATP_CID_BLESSED_LEN;
		head->ptr = p + link_size;
		head->size = link_size + ATP_CID_BLESSED_LEN;
		return true;
	}
	head->kind = p[0] >> 5;
	head->u = p[0] & 0x1f;
	head->size = 1;
	if (head->u >= 24)
	{
		if (head->u == 24 && n >= 2 && p[1] >= 24)
		{
			head->u = p[1];
			head->size = 2;
		}
		else if (head->u == 25 && n >= 3 && p[1] > 0)
		{
			head->u = (uint64_t) p[1] << 8 | p[2];
			head->size = 3;
		}
		else
			return false;
	}
	head->ptr = p + head->size;
	if (head->kind == ATP_CBOR_TEXT || head->kind == ATP_CBOR_BYTES)
	{
		if (head->u > n - head->size)
			return false;
		head->size += head->u;
	}
	return true;
}

/* The body of atp_cbor_init(). */
static ATP_INTO_THE_LOOP void
atp_cbor_begin(AtpCborReader *r, const uint8_t *buf, size_t len, unsigned max_depth)
{
	r->buf = buf;
	r->len = len;
	r->pos = 0;
	r->depth = 0;
	r->max_depth = max_depth < ATP_CBOR_DEPTH_MAX ? max_depth : ATP_CBOR_DEPTH_MAX;
	r->now = (AtpCborLevel) {.left = UINT64_MAX};
}

/* The body of atp_cbor_item(): reads an item, without regard to the containers around it. */
static ATP_INTO_THE_LOOP AtpErr
atp_cbor_read_item(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	const uint8_t *p = r->buf + r->pos;
	size_t		left = r->len - r->pos;
	AtpCborHead head;

	*at = item->at = r->pos;
	item->is_key = false;
	item->has_nul = false;
	if (left == 0)
		return r->depth == 0 ? ATP_E_CBOR_END : ATP_E_CBOR_TRUNCATED;
	if (!atp_cbor_easy_head(p, left, &head))
	{
		/* a copy in memory: taking the address of "head" would keep it out of registers */
		AtpCborHead hard;
		AtpErr		err = atp_cbor_head(p, left, &hard);

		if (err != ATP_OK)
			return err;
		head = hard;
	}
	r->pos += head.size;
	left -= head.size;
	item->kind = head.kind;
	item->u = head.u;			/* u, str and d have the same bits; the kind says which of them has a meaning */
	item->str = (AtpBytes) {head.ptr, head.u};
	memcpy(&item->d, &head.u, sizeof(item->d));
	if (head.kind == ATP_CBOR_TEXT)
	{
		if (!atp_is_short_plain(head.ptr, head.u))
		{
			bool		has_nul;
			size_t		valid = atp_utf8_valid(head.ptr, head.u, &has_nul);

			item->has_nul = has_nul;
			if (valid != head.u)
			{
				*at = (size_t) (head.ptr - r->buf) + valid;
				return ATP_E_CBOR_UTF8;
			}
		}
	}
	else if ((head.kind == ATP_CBOR_ARRAY && head.u > left) ||
			 (head.kind == ATP_CBOR_MAP && head.u > left / 2))
		return ATP_E_CBOR_LENGTH;
	return ATP_OK;
}

/* B-04: keys are text, and ascend by length, then bytes.  *last becomes this key. */
static ATP_INTO_THE_LOOP AtpErr
atp_cbor_check_key(AtpBytes *last, const AtpCborItem *item)
{
	if (item->kind != ATP_CBOR_TEXT)
		return ATP_E_CBOR_KEY;
	if (last->ptr != NULL && item->str.len <= last->len)
	{
		int			cmp;

		if (item->str.len < last->len)
			return ATP_E_CBOR_KEY_ORDER;
		cmp = memcmp(last->ptr, item->str.ptr, last->len);
		if (cmp == 0)
			return ATP_E_CBOR_KEY_TWICE;
		if (cmp > 0)
			return ATP_E_CBOR_KEY_ORDER;
	}
	last->ptr = item->str.ptr;
	last->len = item->str.len;
	return ATP_OK;
}

/*
 * Copies field by field: for a copy of the whole struct the processor would have to wait until each field has
 * been stored.
 */
static ATP_INTO_THE_LOOP void
atp_cbor_copy_level(AtpCborLevel *to, const AtpCborLevel *from)
{
	to->left = from->left;
	to->is_map = from->is_map;
	to->key.ptr = from->key.ptr;
	to->key.len = from->key.len;
}

static ATP_INTO_THE_LOOP AtpErr
atp_cbor_read_next(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	AtpErr		err = atp_cbor_read_item(r, item, at);

	if (err != ATP_OK)
		return err;
	if (r->now.is_map && r->now.left % 2 == 0)
	{
		if ((err = atp_cbor_check_key(&r->now.key, item)) != ATP_OK)
			return err;
		item->is_key = true;
	}
	r->now.left--;
	if (item->kind == ATP_CBOR_ARRAY || item->kind == ATP_CBOR_MAP)
	{
		if (r->depth >= r->max_depth)
			return ATP_E_CBOR_DEPTH;
		if (item->u > 0)
		{
			atp_cbor_copy_level(&r->outer[r->depth++], &r->now);
			r->now.is_map = item->kind == ATP_CBOR_MAP;
			r->now.left = r->now.is_map ? 2 * item->u : item->u;
			r->now.key.ptr = NULL;
			return ATP_OK;
		}
	}
	while (r->now.left == 0)
		atp_cbor_copy_level(&r->now, &r->outer[--r->depth]);
	return ATP_OK;
}

#endif							/* ATP_DAGCBOR_NEXT_H */
