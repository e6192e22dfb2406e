/*
 * dagcbor.h
 *		A strict, bounded, pull reader of DAG-CBOR (rules B-01 to B-11) on
 *		libcbor's streaming decoder, which allocates nothing.
 *
 * atp_cbor_next() delivers one item per call, in the order of the bytes.  A
 * container is announced by its head item with its count; its members follow
 * (for a map: key, value, key, value, ...).  There is no end item: a caller
 * counts members, or looks at reader->depth.  The reader checks all rules of
 * DAG-CBOR: shortest forms, definite lengths, text keys that are sorted and
 * unique, tag 42 only, UTF-8, 64-bit finite floats, counts that fit the
 * remaining bytes, depth.
 */
#ifndef ATP_DAGCBOR_H
#define ATP_DAGCBOR_H

#include "core/atp.h"

/*
 * B-10.  The protocol guide recommends 32 levels.  The reference server accepts
 * and forwards deeper records (48 levels in a capture of its stream), which
 * would be lost.
 */
#define ATP_CBOR_DEPTH_DEFAULT	128
#define ATP_CBOR_DEPTH_MAX		128 /* levels for which AtpCborReader has room */

typedef enum AtpCborKind
{
	ATP_CBOR_UINT,				/* value is u */
	ATP_CBOR_NINT,				/* value is -1 - u */
	ATP_CBOR_BYTES,
	ATP_CBOR_TEXT,
	ATP_CBOR_ARRAY,				/* u members follow */
	ATP_CBOR_MAP,				/* u pairs follow */
	ATP_CBOR_LINK,				/* str is the binary CID, without the 00 */
	ATP_CBOR_NULL,
	ATP_CBOR_FALSE,
	ATP_CBOR_TRUE,
	ATP_CBOR_FLOAT
} AtpCborKind;

typedef struct AtpCborItem
{
	AtpCborKind kind;
	bool		is_key;			/* this text is a map key */
	bool		has_nul;		/* U+0000 is in this text */
	uint64_t	u;
	double		d;				/* ATP_CBOR_FLOAT */
	AtpBytes	str;			/* ATP_CBOR_TEXT, _BYTES, _LINK */
	size_t		at;				/* offset of the item's first byte */
} AtpCborItem;

typedef struct AtpCborLevel
{
	uint64_t	left;			/* items still to come in this container */
	bool		is_map;
	AtpBytes	key;			/* previous key, for the order */
} AtpCborLevel;

typedef struct AtpCborReader
{
	const uint8_t *buf;
	size_t		len;
	size_t		pos;			/* first byte not yet read */
	unsigned	depth;			/* open containers */
	unsigned	max_depth;
	AtpCborLevel now;			/* the innermost open container; at depth 0 a level without end */
	AtpCborLevel outer[ATP_CBOR_DEPTH_MAX]; /* the enclosing containers, by depth */
} AtpCborReader;

extern void atp_cbor_init(AtpCborReader *r, const uint8_t *buf, size_t len, unsigned max_depth);

/*
 * The next item.  ATP_E_CBOR_END when the buffer is used up at depth 0; several
 * top-level items may follow each other (a frame has two).  *at is always set.
 */
extern AtpErr atp_cbor_next(AtpCborReader *r, AtpCborItem *item, size_t *at);

/*
 * Skips the rest of a value whose first item atp_cbor_next() has delivered.
 * depth is r->depth before this item was read.  A value that is no container is
 * already complete.
 */
extern AtpErr atp_cbor_read_over(AtpCborReader *r, unsigned depth, size_t *at);

static inline AtpErr
atp_cbor_finish(AtpCborReader *r, unsigned depth, size_t *at)
{
	return r->depth > depth ? atp_cbor_read_over(r, depth, at) : ATP_OK;
}

/* The text of a text item, as a span. */
static inline AtpSpan
atp_cbor_span(const AtpCborItem *item)
{
	return (AtpSpan) {(const char *) item->str.ptr, item->str.len};
}

/*
 * For structures with a fixed layout (shape.h): atp_cbor_item() reads the next
 * item without the checks that concern the containers around it;
 * atp_cbor_expect() skips exactly the bytes of a literal.
 */
extern AtpErr atp_cbor_item(AtpCborReader *r, AtpCborItem *item, size_t *at);

static inline bool
atp_cbor_expect(AtpCborReader *r, const char *literal, size_t n)
{
	if (r->len - r->pos < n || memcmp(r->buf + r->pos, literal, n) != 0)
		return false;
	r->pos += n;
	return true;
}

#endif							/* ATP_DAGCBOR_H */
