/*
 * cbor_next.c
 *		One step of the reader of DAG-CBOR from any stack of open containers: it stays in the input, moves on, keeps the
 *		order of a map's keys, and leaves a state from which the next step may begin.  So each number of steps does.
 *
 * proves: atp_cbor_next atp_cbor_check_key atp_cbor_copy_level
 * short: -DN=3 -DDEPTH=2 --unwind 9 --max-field-sensitivity-array-size 130
 * by hand: 27 s
 * long: -DN=5 -DDEPTH=6 --unwind 9 --max-field-sensitivity-array-size 130
 * wraps: atp_utf8_unplain
 * assumes: atp_cbor_head() keeps the contract below, which cbor_item.c proves, and atp_utf8_valid() returns at most the
 *	length of the text, which utf8.c proves; at most DEPTH containers are open
 */
#include "core/codec/dagcbor_next.h"
#include "lib/proof.h"

/* An item that may hold any bytes behind its head. */
AtpErr
atp_cbor_head(const uint8_t *p, size_t n, AtpCborHead *head)
{
	LAW(n > 0 && __CPROVER_r_ok(p, n));
	head->kind = any_size(ATP_CBOR_FLOAT);
	head->u = any_u64();
	head->size = any_size(n);
	head->ptr = NULL;
	ASSUME(head->size > 0);
	if (head->kind == ATP_CBOR_TEXT || head->kind == ATP_CBOR_BYTES || head->kind == ATP_CBOR_LINK)
	{
		ASSUME(head->u < head->size);
		head->ptr = p + (head->size - head->u);
	}
	return any_bool() ? ATP_OK : ATP_E_CBOR_TAG;
}

size_t
atp_utf8_valid(const uint8_t *s, size_t n, bool *has_nul)
{
	LAW(n == 0 || __CPROVER_r_ok(s, n));
	*has_nul = any_bool();
	return any_size(n);
}

bool
atp_cid_is_blessed(const uint8_t *bytes, size_t n)
{
	LAW(__CPROVER_r_ok(bytes, n));
	return any_bool();
}

/* The last key of a container, if there was one, has been read. */
static bool
is_key_inside(const AtpCborReader *r, const AtpCborLevel *level)
{
	return level->key.ptr == NULL || (level->key.ptr >= r->buf && level->key.ptr + level->key.len <= r->buf + r->pos);
}

/*
 * What holds between two steps.  The level without end begins with UINT64_MAX items, and each item takes a byte: so it
 * never ends.  It is no map.
 */
static bool
is_between(const AtpCborReader *r)
{
	const AtpCborLevel *all = r->depth == 0 ? &r->now : &r->outer[0];
	bool		keys = is_key_inside(r, &r->now);

	for (unsigned i = 0; i <= DEPTH; i++)
		keys = keys && (i >= r->depth || is_key_inside(r, &r->outer[i]));
	return r->pos <= r->len && r->depth <= r->max_depth && r->max_depth <= ATP_CBOR_DEPTH_MAX && r->now.left > 0 &&
		all->left >= UINT64_MAX - r->pos && !all->is_map && keys;
}

static bool
same_level(const AtpCborLevel *a, const AtpCborLevel *b)
{
	return a->left == b->left && a->is_map == b->is_map && a->key.ptr == b->key.ptr && (a->key.ptr == NULL || a->key.len == b->key.len);
}

/* The number of open containers is a constant: this keeps the formula small. */
static void
step(unsigned depth, size_t n)
{
	uint8_t		s[2 + N];
	AtpCborReader r;
	AtpCborItem item;
	AtpCborLevel before;
	AtpBytes	last;
	bool		before_key;
	size_t		at;
	AtpErr		err;

	/* a key of the same map may have been read from the first two bytes */
	r.buf = s;
	r.len = 2 + n;
	r.pos = 2;
	r.depth = depth;
	r.max_depth = any_size(ATP_CBOR_DEPTH_MAX);
	r.now.key.ptr = any_bool() ? NULL : s;
	r.now.key.len = any_size(2);
	r.now.is_map = any_bool();
	for (unsigned i = 0; i < depth; i++)
		r.outer[i].key = (AtpBytes) {any_bool() ? NULL : s, any_size(2)};
	ASSUME(is_between(&r));
	before = r.now;
	last = r.now.key;
	before_key = r.now.is_map && r.now.left % 2 == 0;
	err = atp_cbor_read_next(&r, &item, &at);
	LAW_OF_ERRORS(err, at, r.len);
	LAW(r.pos <= r.len);
	if (err != ATP_OK)
		return;
	LAW(is_between(&r));
	LAW(r.pos > 2 && r.depth <= depth + 1);
	LAW(item.is_key == before_key);
	if (item.is_key)
	{
		LAW(item.kind == ATP_CBOR_TEXT);
		LAW(last.ptr == NULL || last.len < item.str.len ||
			(last.len == item.str.len && memcmp(last.ptr, item.str.ptr, last.len) < 0));
		if (last.ptr != NULL && last.len == 2)
			REACHED("a key behind another of the same length");
	}
	/* the level of the item has one item less and knows the key; the levels around it stay what they were */
	before.left--;
	if (item.is_key)
		before.key = item.str;
	LAW(r.depth >= depth || before.left == 0);
	for (unsigned i = 0; i < depth; i++)
		LAW(r.depth != i || same_level(&r.now, &r.outer[i]));
	LAW(r.depth != depth || same_level(&r.now, &before));
	LAW(r.depth != depth + 1 || same_level(&r.outer[depth], &before));
	if (item.kind == ATP_CBOR_MAP && item.u > 0)
		LAW(r.depth == depth + 1 && r.now.left == 2 * item.u && r.now.left <= r.len - r.pos && r.now.key.ptr == NULL);
	if (depth == 2 && r.depth == 0)
		REACHED("the ends of two containers");
}

/* The state after atp_cbor_begin() fulfils is_between(). */
static void
begin(void)
{
	AtpCborReader r;
	uint8_t		s[1];

	atp_cbor_begin(&r, s, any_size(sizeof(s)), (unsigned) any_u64());
	LAW(is_between(&r));
}

int
main(void)
{
	begin();
	step(0, N);
	step(DEPTH, N);
	step(1, 0);
	return 0;
}
