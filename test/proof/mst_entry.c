/*
 * mst_entry.c
 *		Entries of a tree's node: what is read at once is what is read item by item, and nothing beyond the node.
 *
 * proves: read_usual_entry read_node_entry read_suffix read_prefix read_subtree is_node_link short_head read_node_head
 *	read_node_tail
 * sources: core/codec/cid.c test/proof/lib/any_cbor.c
 * short: -DN=58 -DM=14 --unwind 6 --unwindset memcmp.0:12
 * by hand: 21 s
 * long: -DN=100 -DM=54 --unwind 6 --unwindset memcmp.0:12
 * assumes: DAG-CBOR's readers do what lib/any_cbor.c says
 */
#include "core/repo/mst.c"
#include "lib/proof.h"

/* No item of this proof needs a decoder: what usual entries have, the slow reader reads by itself. */
AtpErr
atp_cbor_item(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	item->kind = ATP_CBOR_NULL;
	return atp_cbor_next(r, item, at);
}

static bool
inside(AtpBytes part, const uint8_t *s, const uint8_t *end)
{
	return part.ptr >= s && part.ptr + part.len <= end;
}

static void
heads(void)
{
	uint64_t	v = 0;
	uint8_t		major = (uint8_t) any_size(7);
	size_t		len;

	ANY_BUFFER(s, n, 3);
	len = short_head(s, n, major, &v);
	LAW(len <= n && len <= 2);
	LAW(len == 0 || s[0] >> 5 == major);
	LAW(len != 1 || v == (s[0] & 31u));
	LAW(len != 2 || (v == s[1] && v >= 24 && (s[0] & 31) == 24));
}

static void
entry(void)
{
	AtpCborReader fast = {0};
	AtpCborReader slow;
	AtpMstEntry	one;
	AtpMstEntry	two;
	size_t		at;

	ANY_BUFFER(s, n, N);
	fast.buf = s;
	fast.len = n;
	slow = fast;
	if (!read_usual_entry(&fast, &one))
	{
		LAW(fast.pos == 0);
		return;
	}
	LAW(fast.pos <= n);
	LAW(inside(one.suffix, s, s + n) && inside(one.value, s, s + n) && one.value.ptr + one.value.len == s + fast.pos);
	LAW(one.subtree.ptr == NULL || inside(one.subtree, s, s + n));
	/* the reader that reads item by item */
	LAW(EXPECT(&slow, "\xa4\x61k"));
	LAW(read_suffix(&slow, &two.suffix, &at) == ATP_OK);
	LAW(two.suffix.ptr == one.suffix.ptr && two.suffix.len == one.suffix.len);
	LAW(EXPECT(&slow, "\x61p"));
	LAW(read_prefix(&slow, &two.prefix, &at) == ATP_OK && two.prefix == one.prefix);
	LAW(EXPECT(&slow, "\x61t") && read_subtree(&slow, &two.subtree) && two.subtree.ptr == one.subtree.ptr);
	LAW(EXPECT(&slow, "\x61v") && read_node_link(&slow, &two.value));
	LAW(two.value.ptr == one.value.ptr && two.value.len == one.value.len && slow.pos == fast.pos);
	if (one.suffix.len > 0 && fast.pos == n)
		REACHED("a usual entry");
}

static void
any_entry(void)
{
	AtpCborReader r = {0};
	AtpMstEntry	e;
	uint64_t	count;
	AtpBytes	left;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(s, n, M);
	r.buf = s;
	r.len = n;
	err = read_node_entry(&r, &e, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(r.pos <= n);
	if (err == ATP_OK)
		LAW(inside(e.suffix, s, s + r.pos) && inside(e.value, s, s + r.pos) && (e.subtree.ptr == NULL || inside(e.subtree, s, s + r.pos)));
	r.pos = 0;
	err = read_node_tail(&r, &left, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_OK || r.pos == n);
	LAW(err != ATP_OK || left.ptr == NULL || inside(left, s, s + n));
	err = read_node_head(&r, (AtpBytes) {s, n}, &count, &at);
	LAW_OF_ERRORS(err, at, n);
	LAW(err != ATP_OK || (r.pos <= n && count <= n - r.pos));
	if (err == ATP_OK)
		REACHED("a node's head");
}

int
main(void)
{
	heads();
	entry();
	any_entry();
	return 0;
}
