/*
 * fuzz_car.c
 *		CAR files: header, sections, the index, and the tree below the root's commit.  The sections cover the
 *		file without a hole, the index finds each block, and a lookup finds each key of a completely walked
 *		tree.
 */
#include <stdlib.h>

#include "agree.h"
#include "core/repo/car.h"
#include "core/repo/commit_write.h"
#include "core/repo/mst.h"

#define CAP		256

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Walks the tree to its end or first fault; on request, looks up each key. */
static AtpErr
walk(const AtpCarIndex *index, const uint8_t *base, size_t size, AtpBytes root, bool look_up)
{
	static AtpMstWalk w;
	AtpMstLeaf	leaf;
	size_t		at;
	const AtpMstTree tree = {index, base, root, sha256, NULL};
	AtpErr		err = atp_mst_begin(&w, &tree, &at);

	while (err == ATP_OK && (err = atp_mst_next(&w, &leaf, &at)) == ATP_OK)
	{
		static AtpMstWalk again;
		AtpMstLookup lookup = {.key = leaf.key};

		if (look_up &&
			(atp_mst_lookup(&again, &tree, &lookup, 1, NULL, &at) != ATP_OK ||
			 lookup.unknown || lookup.value.ptr != leaf.value.ptr || lookup.value.len != leaf.value.len))
			abort();
	}
	if (err != ATP_E_MST_END && at > size)
		abort();
	return err;
}

/*
 * The walk knows only at its end that every key is in its place.  A lookup must not accept a tree that the
 * walk refuses, except a part of a tree.
 */
static void
check_tree(const AtpCarIndex *index, const uint8_t *base, size_t size, AtpBytes root)
{
	static AtpMstWalk w;
	AtpErr		err = walk(index, base, size, root, false);
	size_t		at;
	AtpErr		in_lookup = atp_mst_lookup(&w, &(AtpMstTree) {index, base, root, sha256, NULL}, NULL, 0, NULL, &at);

	if (in_lookup != ATP_OK && at > size)
		abort();
	if (err == ATP_E_MST_END && walk(index, base, size, root, true) != ATP_E_MST_END)
		abort();
	if (err != ATP_E_MST_MISSING && in_lookup != (err == ATP_E_MST_END ? ATP_OK : err))
		abort();
}

/* O-02: a commit is plain if the writer makes the same block again, with prev null. */
static void
check_plain(AtpBytes block, const AtpCommit *commit)
{
	uint8_t		made[ATP_COMMIT_PLAIN_MAX + ATP_CID_MAX];
	AtpCborWriter w = {.buf = made, .cap = sizeof(made)};

	atp_commit_put(&w, commit);
	if (commit->plain != (commit->prev.ptr == NULL && w.len == block.len && memcmp(made, block.ptr, w.len) == 0))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	AtpCarBlock blocks[CAP];
	uint32_t	slots[2 * CAP] = {0};
	AtpCarIndex index = {.blocks = blocks, .cap = CAP, .slots = slots, .nslots = 2 * CAP};
	AtpBytes	file = {data, size};
	AtpCar		car;
	AtpCarBlock block;
	const AtpCarBlock *found;
	AtpCommit	commit;
	size_t		at;
	size_t		pos;
	AtpErr		err = atp_car_open(&car, data, size, &at);

	if (err != ATP_OK)
	{
		if (at > size)
			abort();
		return 0;
	}
	pos = car.pos;
	while ((err = atp_car_next(&car, &block, &at)) == ATP_OK)
	{
		if (block.at != pos || block.cid.ptr <= data + pos ||
			block.data.ptr != block.cid.ptr + block.cid.len ||
			block.data.ptr + block.data.len != data + car.pos)
			abort();
		pos = car.pos;
		(void) atp_car_verify(&block, sha256, NULL);
		if (atp_car_verify(&block, agree_sha256, &file) != ATP_OK)
			continue;
		if (!atp_car_index_add(&index, &block))
			break;
		if (atp_car_index_find(&index, block.cid) == NULL)
			abort();
	}
	if (at > size)
		abort();
	if (car.root.ptr == NULL || (found = atp_car_index_find(&index, car.root)) == NULL)
		return 0;
	check_tree(&index, data, size, car.root);
	if (atp_commit_parse(found->data.ptr, found->data.len, &commit, &at) == ATP_OK)
	{
		check_plain(found->data, &commit);
		check_tree(&index, data, size, commit.data);
	}
	else if (at > found->data.len)
		abort();
	return 0;
}
