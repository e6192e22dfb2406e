/*
 * fuzz_mst.c
 *		Building a tree out of any keys, and walking it: the same keys must come
 *		back in their order, and each must be found, those that were left out must
 *		not.  A part of the tree may not know, but never says anything else.
 *
 * Input: repeated (length byte, key bytes), sorted and made unique here.  The
 * first key's length also chooses which keys are left out and which node is.
 */
#include <stdlib.h>

#include "agree.h"
#include "core/repo/mst.h"
#include "core/repo/car_write.h"
#include "protocol/mst_build.h"
#include "tree_keys.h"

#define KEYS_MAX	64
#define ROOM		(64 * 1024)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
keep_block(void *ctx, const uint8_t *cid, const uint8_t *block, size_t n)
{
	atp_car_put_block(ctx, (AtpBytes) {cid, ATP_CID_BLESSED_LEN}, block, n);
}

/* Look all the keys up at once. */
static void
look_up(const AtpCarIndex *index, const uint8_t *file, AtpBytes root,
		const AtpBytes *keys, size_t nkeys, uint64_t left_out, bool partial)
{
	static AtpMstWalk walk;
	AtpMstLookup list[KEYS_MAX];
	size_t		at;

	for (size_t i = 0; i < nkeys; i++)
		list[i].key = keys[i];
	if (atp_mst_lookup(&walk, &(AtpMstTree) {index, file, root, sha256, NULL}, list, nkeys, NULL, &at) != ATP_OK)
		abort();
	for (size_t i = 0; i < nkeys; i++)
	{
		if (list[i].unknown ? !partial || list[i].value.ptr != NULL :
			(list[i].value.ptr == NULL) != (left_out >> i & 1))
			abort();
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[ROOM];
	static uint8_t scratch[ROOM];
	static AtpMstWalk walk;
	AtpMstItem	items[KEYS_MAX];
	AtpCarBlock blocks[4 * KEYS_MAX];
	uint32_t	slots[8 * KEYS_MAX] = {0};
	AtpCarIndex index = {
		.blocks = blocks, .cap = 4 * KEYS_MAX, .slots = slots, .nslots = 8 * KEYS_MAX
	};
	AtpCborWriter w = {.buf = file, .cap = sizeof(file)};
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		value[ATP_CID_BLESSED_LEN];
	AtpBytes	root_span = {root, sizeof(root)};
	AtpMstLeaf	leaf;
	AtpCar		car;
	AtpCarBlock block;
	AtpBytes	keys[KEYS_MAX];
	uint64_t	left_out;		/* bit i: the tree is built without key i */
	size_t		nkeys = 0;
	size_t		n;
	size_t		pos = 0;
	size_t		unique = 0;
	size_t		at;

	left_out = size > 0 ? data[0] * UINT64_C(0x9e3779b97f4a7c15) : 0;
	left_out &= left_out >> 32 | left_out << 32;
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, data, size, sha256, NULL, value);
	n = take_items(data, size, &pos, (AtpBytes) {value, sizeof(value)}, items, KEYS_MAX);
	for (size_t i = 0; i < n; i++)
	{
		if (nkeys > 0 && atp_mst_compare(keys[nkeys - 1], items[i].key) == 0)
			continue;
		keys[nkeys] = items[i].key;
		if ((left_out >> nkeys++ & 1) == 0)
			items[unique++] = items[i];
	}

	atp_car_put_header(&w, (AtpBytes) {NULL, 0});
	if (atp_mst_build(items, unique, sha256, NULL, scratch, sizeof(scratch),
					  keep_block, &w, root) != ATP_OK || w.len > w.cap)
		abort();
	if (atp_car_open(&car, file, w.len, &at) != ATP_OK || car.root.ptr != NULL)
		abort();
	while (atp_car_next(&car, &block, &at) == ATP_OK)
	{
		if (atp_car_verify(&block, sha256, NULL) != ATP_OK ||
			!atp_car_index_add(&index, &block))
			abort();
	}
	if (atp_mst_begin(&walk, &(AtpMstTree) {&index, file, root_span, sha256, NULL}, &at) != ATP_OK)
		abort();
	for (size_t i = 0; i < unique; i++)
	{
		if (atp_mst_next(&walk, &leaf, &at) != ATP_OK || atp_mst_compare(leaf.key, items[i].key) != 0)
			abort();
	}
	if (atp_mst_next(&walk, &leaf, &at) != ATP_E_MST_END)
		abort();

	look_up(&index, file, root_span, keys, nkeys, left_out, false);
	if (index.n > 0)
	{
		/* leaves out a random node */
		size_t		absent = size > 0 ? data[0] % index.n : 0;
		AtpCarBlock all[4 * KEYS_MAX];
		size_t		nall = index.n;

		memcpy(all, blocks, nall * sizeof(all[0]));
		memset(slots, 0, sizeof(slots));
		index.n = 0;
		for (size_t i = 0; i < nall; i++)
		{
			if (i != absent)
				atp_car_index_add(&index, &all[i]);
		}
		look_up(&index, file, root_span, keys, nkeys, left_out, true);
	}
	return 0;
}
