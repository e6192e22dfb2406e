/*
 * fuzz_mst.c
 *		Building a tree out of any keys, and walking it: the same keys must come
 *		back in their order, and each must be found.
 *
 * Input: repeated (length byte, key bytes), sorted and made unique here.
 */
#include <stdlib.h>

#include "agree.h"
#include "core/car_write.h"
#include "core/mst.h"

#define KEYS_MAX	64
#define ROOM		(64 * 1024)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int
compare_items(const void *a, const void *b)
{
	AtpBytes	x = ((const AtpMstItem *) a)->key;
	AtpBytes	y = ((const AtpMstItem *) b)->key;
	int			cmp = memcmp(x.ptr, y.ptr, x.len < y.len ? x.len : y.len);

	return cmp != 0 ? cmp : (x.len > y.len) - (x.len < y.len);
}

static void
keep_block(void *ctx, const uint8_t *cid, const uint8_t *block, size_t n)
{
	atp_car_put_block(ctx, (AtpBytes) {cid, ATP_CID_BLESSED_LEN}, block, n);
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
	size_t		n = 0;
	size_t		unique = 0;
	size_t		at;

	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, data, size, real_sha256, NULL, value);
	for (size_t pos = 0; pos < size && n < KEYS_MAX;)
	{
		size_t		len = data[pos++];

		if (len == 0 || len > size - pos)
			break;
		items[n++] = (AtpMstItem) {.key = {data + pos, len}, .value = {value, sizeof(value)}};
		pos += len;
	}
	qsort(items, n, sizeof(items[0]), compare_items);
	for (size_t i = 0; i < n; i++)
	{
		if (unique == 0 || compare_items(&items[unique - 1], &items[i]) != 0)
			items[unique++] = items[i];
	}

	atp_car_put_header(&w, (AtpBytes) {NULL, 0});
	if (atp_mst_build(items, unique, real_sha256, NULL, scratch, sizeof(scratch),
					  keep_block, &w, root) != ATP_OK || w.len > w.cap)
		abort();
	if (atp_car_open(&car, file, w.len, &at) != ATP_OK || car.root.ptr != NULL)
		abort();
	while (atp_car_next(&car, &block, &at) == ATP_OK)
	{
		if (atp_car_verify(&block, real_sha256, NULL) != ATP_OK ||
			!atp_car_index_add(&index, &block))
			abort();
	}
	if (atp_mst_begin(&walk, &index, file, root_span, real_sha256, NULL, &at) != ATP_OK)
		abort();
	for (size_t i = 0; i < unique; i++)
	{
		AtpBytes	found;

		if (atp_mst_next(&walk, &leaf, &at) != ATP_OK ||
			leaf.key.len != items[i].key.len ||
			memcmp(leaf.key.ptr, items[i].key.ptr, leaf.key.len) != 0)
			abort();
		if (atp_mst_find(&index, file, root_span, items[i].key, &found, &at) != ATP_OK ||
			found.len != sizeof(value) || memcmp(found.ptr, value, found.len) != 0)
			abort();
	}
	if (atp_mst_next(&walk, &leaf, &at) != ATP_E_MST_END)
		abort();
	return 0;
}
