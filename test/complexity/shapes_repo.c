/*
 * shapes_repo.c
 *		CAR files, trees, commits, exports, and fetches of some collections.
 */
#include "core/repo/car_push.h"
#include "core/repo/export_walk.h"
#include "core/repo/sparse_walk.h"
#include "core/syntax/tid.h"
#include "core/wire/commit_check.h"
#include "measure.h"
#include "core/repo/car_write.h"
#include "core/repo/commit_write.h"
#include "protocol/mst_build.h"
#include "unit/sha.h"

#define REV		UINT64_C(0x1234567890abcdef)
#define BLOCKS	(ATP_BLOCKS_MAX - 64)
#define SEED	UINT64_C(0x0123456789abcdef)

static AtpReposMessage msg;		/* a #commit with the tree */
static uint8_t root[ATP_CID_BLESSED_LEN];	/* of the tree */
static uint8_t commit_cid[ATP_CID_BLESSED_LEN];
static size_t tree_at;			/* offset of the blocks in the input */

static AtpBytes
cid_of(const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	return (AtpBytes) {cid, ATP_CID_BLESSED_LEN};
}

static void
put_block(void *unused, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	atp_car_put_block(&input, cid_of(cid), block, n);
}

/* ------------------------------------------------------------------------
 * CAR files
 * ------------------------------------------------------------------------
 */
static void
begin_car(void)
{
	memset(commit_cid, 0, sizeof(commit_cid));
	memcpy(commit_cid, "\1\x71\x12\x20", 4);
	atp_car_put_header(&input, cid_of(commit_cid));
}

static void
make_blocks(size_t n)
{
	begin_car();
	for (uint32_t i = 0; i < n; i++)
	{
		uint8_t		cid[ATP_CID_BLESSED_LEN];

		atp_cid_of(ATP_CID_CODEC_RAW, (uint8_t *) &i, 3, sha256, NULL, cid);
		put_block(NULL, cid, (uint8_t *) &i, 3);
	}
}

/* One block again and again. */
static void
make_same(size_t n)
{
	begin_car();
	while (n-- > 0)
	{
		uint8_t		cid[ATP_CID_BLESSED_LEN];

		atp_cid_of(ATP_CID_CODEC_RAW, NULL, 0, sha256, NULL, cid);
		put_block(NULL, cid, NULL, 0);
	}
}

/* One block under many codecs: the digests are equal. */
static void
make_codecs(size_t n)
{
	uint8_t		digest[32];

	begin_car();
	sha256(NULL, NULL, 0, digest);
	for (size_t i = 0; i < n; i++)
	{
		size_t		codec = i + 0x10000;
		uint8_t		cid[38] = {1, (uint8_t) (codec | 0x80), (uint8_t) (codec >> 7 | 0x80), (uint8_t) (codec >> 14), 0x12, 32};

		memcpy(cid + 6, digest, 32);
		atp_car_put_block(&input, (AtpBytes) {cid, 38}, NULL, 0);
	}
}

/* As atp_block_index_init() makes it, with a seed that is no secret. */
static AtpCarIndex
index_for(size_t n)
{
	AtpCarIndex index = {.cap = n > 0 ? n : 1, .nslots = 1, .seed = SEED};

	while (index.nslots < 2 * index.cap)
		index.nslots *= 2;
	index.blocks = malloc(index.cap * sizeof(AtpCarBlock));
	index.slots = calloc(index.nslots, sizeof(uint32_t));
	return index;
}

static void
free_index(AtpCarIndex *index)
{
	free(index->blocks);
	free(index->slots);
}

static AtpErr
fill_index(AtpCarIndex *index, AtpBytes blocks)
{
	AtpCar		car;
	size_t		at;
	AtpErr		err = atp_car_open(&car, blocks.ptr, blocks.len, &at);

	while (err == ATP_OK)
		err = atp_car_index_next(index, &car, sha256, NULL, &at);
	return err;
}

static bool
run_index(void)
{
	AtpCarIndex index = index_for(parts);
	bool		good = fill_index(&index, (AtpBytes) {input.buf, input.len}) == ATP_E_CAR_END;

	free_index(&index);
	return good;
}

static uint8_t *
give_room(void *ctx, size_t n)
{
	static uint8_t room[ATP_CAR_PUSH_ROOM];

	return room;
}

static AtpErr
take_block(void *ctx, const AtpCarBlock *block)
{
	return ATP_OK;
}

/* The file arrives byte by byte. */
static bool
run_push(void)
{
	const AtpCarTaker taker = {give_room, take_block, NULL, sha256, NULL};
	AtpCarPush	push;
	size_t		at;

	atp_car_push_begin(&push, &taker);
	for (size_t i = 0; i < input.len; i++)
		if (atp_car_push(&push, input.buf + i, 1, &at) != ATP_OK)
			return false;
	return atp_car_push_end(&push, &at) == ATP_OK;
}

/* A header with many roots. */
static void
make_roots(size_t n)
{
	uint8_t		room[16];
	uint8_t		cid[ATP_CID_BLESSED_LEN] = {1, 0x71, 0x12, 32};
	size_t		len = 16 + (n < 24 ? 1 : n < 256 ? 2 : n < 65536 ? 3 : 5) + n * 41;

	atp_cbor_put_raw(&input, room, atp_varint_write(len, room));
	atp_cbor_put_map(&input, 2);
	atp_cbor_put_key(&input, "roots");
	atp_cbor_put_array(&input, n);
	while (n-- > 0)
		atp_cbor_put_link(&input, cid, sizeof(cid));
	atp_cbor_put_key(&input, "version");
	atp_cbor_put_uint(&input, 1);
}

static bool
run_open(void)
{
	AtpCar		car;
	size_t		at;

	return atp_car_open(&car, input.buf, input.len, &at) == ATP_OK && car.nroots == parts;
}

/* ------------------------------------------------------------------------
 * Trees
 * ------------------------------------------------------------------------
 */

/*
 * n keys of at least len bytes, ascending; heights: only keys of this height (-1: any).  A key begins with a
 * collection and ends with a number.
 */
static AtpMstItem *
make_items(size_t n, size_t len, int height, uint8_t *value)
{
	AtpMstItem *items = calloc(n + 1, sizeof(AtpMstItem));
	size_t		number = 0;

	for (size_t i = 0; i < n; i++)
	{
		char	   *key = malloc(ATP_MST_KEY_MAX + 32);
		size_t		key_len;

		do
			key_len = (size_t) sprintf(key, "a.b.c/%0*zu", (int) (len - 6), number++);
		while (height >= 0 && atp_mst_height((uint8_t *) key, key_len, sha256, NULL) != (unsigned) height);
		items[i] = (AtpMstItem) {.key = {(uint8_t *) key, key_len}, .value = cid_of(value)};
	}
	return items;
}

static void
free_items(AtpMstItem *items, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free((void *) items[i].key.ptr);
	free(items);
}

/* The signed commit, and the message around the blocks. */
static void
end_repo(void)
{
	static const uint8_t sig[ATP_COMMIT_SIG_LEN];
	uint8_t		block[512];
	AtpCborWriter w = {.buf = block, .cap = sizeof(block)};
	AtpCommit	commit = {.did = {DID, strlen(DID)}, .rev = REV, .data = cid_of(root), .sig = {sig, sizeof(sig)}};
	uint8_t		head[128];
	AtpCborWriter car = {.buf = head, .cap = sizeof(head)};

	atp_commit_put(&w, &commit);
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block, w.len, sha256, NULL, commit_cid);
	put_block(NULL, commit_cid, block, w.len);
	atp_car_put_header(&car, cid_of(commit_cid));
	memmove(input.buf + car.len, input.buf, input.len);
	memcpy(input.buf, head, car.len);
	tree_at = car.len;
	input.len += car.len;
	msg.kind = ATP_REPOS_COMMIT;
	msg.did = commit.did;
	msg.rev = REV;
	msg.commit = cid_of(commit_cid);
	msg.blocks = (AtpBytes) {input.buf, input.len};
}

/* The record of all paths, with so many links to accounts. */
static void
put_record(size_t links, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	static uint8_t record[ATP_CAR_BLOCK_MAX];
	AtpCborWriter w = {.buf = record, .cap = sizeof(record)};

	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "l");
	atp_cbor_put_array(&w, links);
	for (size_t i = 0; i < links; i++)
	{
		char		did[32];

		(void) snprintf(did, sizeof(did), "did:web:a.b%06zx", i * 2654435761 % 0x1000000);
		atp_cbor_put_key(&w, did);
	}
	atp_cbor_put_key(&w, "$type");
	atp_cbor_put_key(&w, "a.b.c");
	if (w.len > w.cap)
		exit(2);
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, record, w.len, sha256, NULL, cid);
	put_block(NULL, cid, record, w.len);
}

static void
make_tree_of(size_t n, size_t len, int height, size_t ops, size_t links)
{
	static uint8_t value[ATP_CID_BLESSED_LEN];
	static uint8_t scratch[INPUT_ROOM];
	AtpMstItem *items;
	static char paths[ATP_OPS_MAX][ATP_MST_KEY_MAX];

	put_record(links, value);
	items = make_items(n, len, height, value);
	if (atp_mst_build(items, n, sha256, NULL, scratch, sizeof(scratch), put_block, NULL, root) != ATP_OK)
		exit(2);
	msg.nops = 0;
	/* operations on records all over the tree */
	for (size_t i = 0; i < ops; i++)
	{
		const AtpMstItem *item = &items[i * n / ops];

		memcpy(paths[i], item->key.ptr, item->key.len);
		msg.ops[i] = (AtpOp) {.action = ATP_CREATE, .path = {paths[i], item->key.len}, .cid = {value, sizeof(value)}};
		if (atp_repos_add_op(&msg) != ATP_OK)
			exit(2);
	}
	free_items(items, n);
	end_repo();
}

static void
make_tree(size_t n, size_t len, int height, size_t ops)
{
	make_tree_of(n, len, height, ops, 0);
}

/* One node: all keys have height 0. */
static void
make_wide(size_t n)
{
	make_tree(n, 13, 0, 0);
}

/* A tree as it grows, with short keys; then with the longest ones, of which each node spells out only the ends. */
static void
make_short(size_t n)
{
	make_tree(n, 13, -1, 0);
}

static void
make_long(size_t n)
{
	make_tree(n, ATP_MST_KEY_MAX, -1, 0);
}

/* Operations on the records of a large tree. */
static void
make_ops(size_t n)
{
	make_tree(4096, 13, -1, n);
}

/* Deep: between two keys of height 5 lies one of height 0, below four nodes without entries. */
static void
make_deep(size_t n)
{
	static uint8_t value[ATP_CID_BLESSED_LEN];
	static uint8_t scratch[INPUT_ROOM];
	AtpMstItem *high;
	AtpMstItem *items = calloc(2 * n + 1, sizeof(AtpMstItem));

	put_record(0, value);
	high = make_items(n, 15, 5, value);
	for (size_t i = 0; i < n; i++)
	{
		uint8_t    *key = malloc(32);
		size_t		len = high[i].key.len;

		memcpy(key, high[i].key.ptr, len);
		for (key[len] = '-'; atp_mst_height(key, len + 1, sha256, NULL) != 0; key[len]++)
			;
		items[2 * i] = high[i];
		items[2 * i + 1] = (AtpMstItem) {.key = {key, len + 1}, .value = cid_of(value)};
	}
	if (atp_mst_build(items, 2 * n, sha256, NULL, scratch, sizeof(scratch), put_block, NULL, root) != ATP_OK)
		exit(2);
	free_items(items, 2 * n);
	free(high);
	msg.nops = 0;
	end_repo();
}

static size_t
count_blocks(AtpBytes blocks)
{
	AtpCar		car;
	AtpCarBlock block;
	size_t		at;
	size_t		n = 0;
	AtpErr		err = atp_car_open(&car, blocks.ptr, blocks.len, &at);

	while (err == ATP_OK && (err = atp_car_next(&car, &block, &at)) == ATP_OK)
		n++;
	return n;
}

/* The blocks in the input become a frame. */
static void
wrap_commit(void)
{
	static uint8_t blocks[ATP_BLOCKS_MAX];
	char		rev[13];

	memcpy(blocks, input.buf, input.len);
	msg.blocks = (AtpBytes) {blocks, input.len};
	input.len = 0;
	atp_tid_format(REV, rev);
	atp_cbor_put_map(&input, 2);
	atp_cbor_put_key(&input, "t");
	atp_cbor_put_key(&input, "#commit");
	atp_cbor_put_key(&input, "op");
	atp_cbor_put_uint(&input, 1);
	atp_cbor_put_map(&input, 8);
	atp_cbor_put_key(&input, "ops");
	atp_cbor_put_array(&input, msg.nops);
	for (unsigned i = 0; i < msg.nops; i++)
	{
		atp_cbor_put_map(&input, 3);
		atp_cbor_put_key(&input, "cid");
		atp_cbor_put_link(&input, msg.ops[i].cid.ptr, msg.ops[i].cid.len);
		atp_cbor_put_key(&input, "path");
		atp_cbor_put_text(&input, msg.ops[i].path.ptr, msg.ops[i].path.len);
		atp_cbor_put_key(&input, "action");
		atp_cbor_put_key(&input, "create");
	}
	atp_cbor_put_key(&input, "rev");
	atp_cbor_put_text(&input, rev, sizeof(rev));
	atp_cbor_put_key(&input, "seq");
	atp_cbor_put_uint(&input, 7);
	atp_cbor_put_key(&input, "repo");
	atp_cbor_put_key(&input, DID);
	atp_cbor_put_key(&input, "time");
	atp_cbor_put_key(&input, "2026-01-01T00:00:00Z");
	atp_cbor_put_key(&input, "since");
	atp_cbor_put_null(&input);
	atp_cbor_put_key(&input, "blocks");
	atp_cbor_put_bytes(&input, blocks, msg.blocks.len);
	atp_cbor_put_key(&input, "commit");
	atp_cbor_put_link(&input, commit_cid, sizeof(commit_cid));
}

static void
make_frame_ops(size_t n)
{
	make_tree(4096, 13, -1, n);
	wrap_commit();
}

static void
make_frame_links(size_t n)
{
	make_tree_of(1, 13, -1, 1, n);
	wrap_commit();
}

/* A whole frame. */
static bool
run_frame(void)
{
	static AtpReposMessage parsed;
	AtpFrame	frame;
	AtpCarIndex index = {0};
	size_t		at;
	bool		good = atp_frame_parse(input.buf, input.len, &frame, &at) == ATP_OK && atp_repos_parse(&frame, &parsed, &at) == ATP_OK;

	if (good)
	{
		index = index_for(count_blocks(parsed.blocks));
		good = atp_commit_check(&parsed, &index, sha256, NULL, &at) == ATP_OK;
	}
	free_index(&index);
	return good;
}

/* All checks of a #commit, with the tree before. */
static bool
run_commit(void)
{
	AtpCarIndex index = index_for(count_blocks(msg.blocks));
	size_t		room = atp_invert_room(msg.blocks.len, msg.nops);
	uint8_t    *buf = malloc(room);
	AtpInversion *inversion = malloc(sizeof(AtpInversion));
	size_t		at;
	bool		good;

	atp_invert_begin(inversion, buf, room, sha256, NULL);
	good = msg.blocks.len <= BLOCKS && atp_commit_invert(&msg, &index, inversion, sha256, NULL, &at) == ATP_OK;
	free(inversion);
	free(buf);
	free_index(&index);
	return good;
}

static bool
read_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	const AtpCarBlock *block = atp_car_index_find(ctx, cid);

	if (block != NULL)
		*node = block->data;
	return block != NULL;
}

static bool
has_block(void *ctx, AtpBytes cid)
{
	return atp_car_index_find(ctx, cid) != NULL;
}

/* The walk over an export, and the builder of an audit. */
static bool
run_export(void)
{
	AtpCarIndex index = index_for(count_blocks(msg.blocks));
	AtpExportSource source = {.read = read_node, .has = has_block, .ctx = &index, .max_records = UINT64_MAX, .sha256 = sha256};
	AtpExportWalk *walk = malloc(sizeof(AtpExportWalk));
	AtpMstBuilder *builder = malloc(sizeof(AtpMstBuilder));
	uint8_t    *buf = malloc(msg.blocks.len + ATP_MST_LEVELS_MAX * ATP_MST_ROOT_SPARE);
	AtpExportRecord record;
	uint8_t		built[ATP_CID_BLESSED_LEN];
	size_t		at;
	AtpErr		err = fill_index(&index, msg.blocks);

	source.blocks = index.n;
	atp_mst_root_begin(builder, buf, msg.blocks.len + ATP_MST_LEVELS_MAX * ATP_MST_ROOT_SPARE, sha256, NULL);
	if (err == ATP_E_CAR_END)
		err = atp_export_begin(walk, &source, cid_of(root), &at);
	while (err == ATP_OK && (err = atp_export_next(walk, &record, &at)) == ATP_OK)
	{
		const uint8_t *key = (const uint8_t *) record.path.ptr;

		atp_mst_root_leaf(builder, (AtpBytes) {key, record.path.len}, record.cid, atp_mst_height(key, record.path.len, sha256, NULL));
	}
	err = err != ATP_E_MST_END ? err : atp_mst_root_end(builder, built);
	free(buf);
	free(builder);
	free(walk);
	free_index(&index);
	return err == ATP_OK && memcmp(built, root, sizeof(root)) == 0;
}

static AtpCarIndex fetched;

static bool
read_fetched(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	return read_node(&fetched, level, cid, node);
}

/* One round of a fetch of these collections: takes each absent node. */
static AtpErr
fetch_level(AtpSparseWalk *sparse, const AtpExportSource *source, const AtpCarIndex *index, size_t *absent)
{
	AtpBytes	cid;
	size_t		at;
	AtpErr		err = atp_sparse_begin(sparse, source, cid_of(root), &at);

	*absent = 0;
	while (err == ATP_OK && (err = atp_sparse_next(sparse, &cid, &at)) == ATP_OK)
	{
		const AtpCarBlock *block = atp_car_index_find(index, cid);

		if (block == NULL || !atp_car_index_add(&fetched, block))
			return ATP_E_MST_MISSING;
		++*absent;
	}
	return err;
}

/* A fetch of a collection, level by level, and its proof; *n is the number of records. */
static bool
fetch_collection(const char *collection, size_t *n)
{
	size_t		nblocks = count_blocks(msg.blocks);
	AtpCarIndex index = index_for(nblocks);
	AtpKeyRange range = atp_key_range((AtpSpan) {collection, strlen(collection)});
	AtpExportSource source = {.read = read_fetched, .max_records = UINT64_MAX, .sha256 = sha256, .ranges = &range, .nranges = 1};
	AtpSparseWalk *sparse = malloc(sizeof(AtpSparseWalk));
	AtpExportRecord record;
	size_t		absent = 0;
	size_t		at;
	AtpErr		err;

	fetched = index_for(nblocks);
	(void) fill_index(&index, msg.blocks);
	do
		err = fetch_level(sparse, &source, &index, &absent);
	while (err == ATP_E_MST_END && absent > 0);
	source.blocks = fetched.n;
	if (err == ATP_E_MST_END)
		err = atp_export_begin(&sparse->walk, &source, cid_of(root), &at);
	for (*n = 0; err == ATP_OK && (err = atp_export_next(&sparse->walk, &record, &at)) == ATP_OK;)
		++*n;
	free(sparse);
	free_index(&fetched);
	free_index(&index);
	return err == ATP_E_MST_END;
}

static bool
run_sparse(void)
{
	size_t		n;

	return fetch_collection("a.b.c", &n) && n >= parts;
}

/* Of a collection behind all keys: each link of the root is compared with the next key. */
static bool
run_beside(void)
{
	size_t		n;

	return fetch_collection("a.b.d", &n) && n == 0;
}

const Shape repo_shapes[] = {
	{"car-blocks", BLOCKS / 41, 1024, make_blocks, run_index},
	{"car-same", BLOCKS / 38, 1024, make_same, run_index},
	{"car-codecs", BLOCKS / 40, 1024, make_codecs, run_index},
	{"car-pieces", BLOCKS / 41, 512, make_blocks, run_push},
	{"car-roots", (ATP_CAR_HEADER_MAX - 32) / 41, 8192, make_roots, run_open},
	{"commit-wide", BLOCKS / 66, 1024, make_wide, run_commit},
	{"commit-short", BLOCKS / 100, 1024, make_short, run_commit},
	{"commit-long", BLOCKS / 700, 128, make_long, run_commit},
	{"commit-deep", BLOCKS / 700, 64, make_deep, run_commit},
	{"commit-ops", ATP_OPS_MAX, 0, make_ops, run_commit},
	{"frame-ops", ATP_OPS_MAX, 0, make_frame_ops, run_frame},
	{"frame-links", ATP_BLOCKS_MAX / 18 - 32, 8192, make_frame_links, run_frame},
	{"export-wide", ATP_EXPORT_NODE_MAX / 66, 512, make_wide, run_export},
	{"export-short", BLOCKS / 100, 512, make_short, run_export},
	{"export-large", (INPUT_ROOM - 65536) / 100, 512, make_short, run_export},	/* more than the fetcher keeps in memory */
	{"export-long", BLOCKS / 700, 64, make_long, run_export},
	{"export-deep", BLOCKS / 700, 64, make_deep, run_export},
	{"sparse-short", BLOCKS / 100, 512, make_short, run_sparse},
	{"sparse-long", BLOCKS / 700, 64, make_long, run_sparse},
	{"sparse-deep", BLOCKS / 700, 64, make_deep, run_sparse},
	{"sparse-beside", BLOCKS / 700, 64, make_deep, run_beside},
	{NULL}
};
