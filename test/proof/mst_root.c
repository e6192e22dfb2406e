/*
 * mst_root.c
 *		The builder of trees: the room that each part of a node takes, at most, and nodes without entries.
 *
 * proves: finish_entry put_head put_cid_link put_subtree has_room lift_subtree common_prefix
 * sources: test/proof/lib/sha256.c core/codec/cid.c
 * short: --unwind 10 --unwindset memcpy.0:101,proof_sha256.0:33,lift_subtree.0:4,memcmp.0:9,common_prefix.1:10
 * long: --unwind 10 --unwindset memcpy.0:101,proof_sha256.0:33,lift_subtree.0:32,memcmp.0:9
 * wraps: lift_subtree
 */
#include "core/repo/mst_root.c"
#include "lib/proof.h"
#include "lib/sha256.h"

static void
entry_tail(void)
{
	uint8_t		room[ENTRY_TAIL_MAX];
	AtpMstBuilder b = {.buf = room, .room = any_size(sizeof(room))};
	AtpMstOpen	node;
	AtpMstSubtree subtree = {.present = any_bool()};

	node.value_len = ATP_CID_MAX;
	finish_entry(&b, &node, &subtree);
	LAW((b.err == ATP_OK) == (b.room == sizeof(room)));
	LAW(b.err == ATP_OK || (b.err == ATP_E_MST_ROOM && b.len == 0));
	LAW(b.len <= b.room);
	if (b.len == sizeof(room))
		REACHED("the longest tail of an entry");
}

static void
heads(void)
{
	uint8_t		head[9];
	uint64_t	n = any_u64();
	uint8_t		major = (uint8_t) any_size(7);
	size_t		len = (size_t) (put_head(head, major, n) - head);
	uint64_t	again = 0;

	LAW(len <= sizeof(head) && head[0] >> 5 == major);
	LAW(n >= (UINT64_C(1) << 24) || len <= HEAD_ROOM - 3);
	for (size_t i = 1; i < len; i++)
		again = again << 8 | head[i];
	LAW(len == 1 ? (head[0] & 31u) == n : again == n);
	/* the shortest form */
	LAW(len == (n < 24 ? 1 : n < 0x100 ? 2 : n < 0x10000 ? 3 : n < UINT64_C(0x100000000) ? 5 : 9));
}

static void
lifted(void)
{
	AtpMstBuilder b = {.sha256 = proof_sha256};
	AtpMstSubtree subtree = {.present = any_bool(), .layer = (unsigned) any_size(31)};
	unsigned	layer = (unsigned) any_size(31);
	const unsigned before = subtree.layer;

	ASSUME(layer < before + 4);
	lift_subtree(&b, &subtree, layer);
	LAW(!subtree.present || subtree.layer == (layer > before + 1 ? layer - 1 : before));
	if (subtree.present && subtree.layer == before + 2)
		REACHED("two nodes without entries");
}

static void
prefixes(void)
{
	uint8_t		a[9];
	uint8_t		b[9];
	size_t		an = any_size(9);
	size_t		bn = any_size(9);
	size_t		p = common_prefix(a, an, (AtpBytes) {b, bn});

	LAW(p <= an && p <= bn);
	LAW(p == an || p == bn || a[p] != b[p]);
	for (size_t i = 0; i < 9; i++)
		LAW(i >= p || a[i] == b[i]);
}

int
main(void)
{
	entry_tail();
	heads();
	lifted();
	prefixes();
	return 0;
}
