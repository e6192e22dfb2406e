/*
 * sparse_server.h
 *		For tests of sparse walks: a made-up server with getRecord and getBlocks, its repositories, and a client for some
 *		collections (P-02, P-03).
 */
#ifndef SPARSE_SERVER_H
#define SPARSE_SERVER_H

#include "core/repo/get_blocks.h"
#include "core/repo/sparse_walk.h"
#include "core/syntax/tid.h"
#include "hex.h"
#include "repo.h"

#define RECORDS_MAX	((size_t) 100000)
#define BLOCKS_MAX	((size_t) 200000)
#define SLOTS		((size_t) 1 << 19)
#define ROOM		(64 * 1024 * 1024)
#define RANGES_MAX	8
#define URL_LEN		140			/* of a usual host and a did:plc */

/* --- blocks by CID --- */

typedef struct Blocks
{
	AtpCarBlock blocks[BLOCKS_MAX];
	uint32_t	slots[SLOTS];
	AtpCarIndex index;
} Blocks;

static Blocks server;			/* all blocks of the account's server */
static Blocks kept;				/* blocks of the fetch */
static Blocks early;			/* blocks of answers to getRecord: a walk moves the nodes that it reads to "kept" */

static inline void
blocks_clear(Blocks *b)
{
	memset(b->slots, 0, sizeof(b->slots));
	b->index = (AtpCarIndex) {.blocks = b->blocks, .cap = BLOCKS_MAX, .slots = b->slots, .nslots = SLOTS};
}

static inline void
blocks_add(Blocks *b, const AtpCarBlock *block)
{
	if (!atp_car_index_add(&b->index, block))
		exit(2);
}

/* --- repositories --- */

typedef struct Part
{
	const char *collection;
	size_t		records;
} Part;

static uint8_t *arena;			/* nodes and records */
static size_t arena_len;
static size_t whole_bytes;		/* of an export */
static AtpMstItem *items;
static char (*paths)[64];
static uint8_t (*values)[ATP_CID_BLESSED_LEN];
static size_t nitems;
static uint8_t root[ATP_CID_BLESSED_LEN];

#define SECTION(block)	((block)->data.len + ATP_CID_BLESSED_LEN + 2)	/* bytes in a CAR file, about */

static inline void
serve_block(void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	uint8_t    *p = arena + arena_len;
	AtpCarBlock one = {{p, ATP_CID_BLESSED_LEN}, {p + ATP_CID_BLESSED_LEN, n}, 0};

	if (arena_len + n + ATP_CID_BLESSED_LEN > ROOM)
		exit(2);
	memcpy(p, cid, ATP_CID_BLESSED_LEN);
	memcpy(p + ATP_CID_BLESSED_LEN, block, n);
	arena_len += n + ATP_CID_BLESSED_LEN;
	whole_bytes += SECTION(&one);
	blocks_add(&server, &one);
}

static inline void
serve_nothing(void)
{
	if (arena == NULL)
	{
		arena = malloc(ROOM);
		items = malloc(RECORDS_MAX * sizeof(items[0]));
		paths = malloc(RECORDS_MAX * sizeof(paths[0]));
		values = malloc(RECORDS_MAX * sizeof(values[0]));
	}
	blocks_clear(&server);
	arena_len = whole_bytes = nitems = 0;
}

/* A record of 230 bytes, which is a usual size; no two are the same. */
static inline void
serve_record(const char *collection, size_t number)
{
	static const char text[161] = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore et dolore magna aliqua.";
	uint8_t		block[512];
	AtpCborWriter w = {.buf = block, .cap = sizeof(block)};
	char		rkey[13];

	atp_cbor_put_map(&w, 3);
	atp_cbor_put_key(&w, "n");
	atp_cbor_put_uint(&w, number);
	atp_cbor_put_key(&w, "text");
	atp_cbor_put_text(&w, text, 160);
	atp_cbor_put_key(&w, "$type");
	atp_cbor_put_key(&w, collection);
	block_cid(block, w.len, values[nitems]);
	serve_block(NULL, values[nitems], block, w.len);

	/* TIDs of one record a day */
	atp_tid_format(atp_tid_make(1700000000000000 + number * 86399999 + number % 7, number % 1024), rkey);
	(void) sprintf(paths[nitems], "%s/%.13s", collection, rkey);
	items[nitems] = (AtpMstItem) {.key = bytes_of(paths[nitems]), .value = cid_span(values[nitems])};
	nitems++;
}

static inline void
serve_tree(void)
{
	static uint8_t scratch[1024 * 1024];

	if (atp_mst_build(items, nitems, sha256, NULL, scratch, sizeof(scratch), serve_block, NULL, root) != ATP_OK)
		exit(2);
}

/* Parts are sorted by collection. */
static inline void
serve_parts(const Part *parts, size_t n, size_t first)
{
	serve_nothing();
	for (size_t i = 0; i < n; i++)
	{
		for (size_t j = 0; j < parts[i].records; j++)
			serve_record(parts[i].collection, first + j);
	}
	serve_tree();
}

/* --- the client --- */

typedef struct Fetch
{
	AtpKeyRange ranges[RANGES_MAX];
	size_t		nranges;
	AtpSha256Fn sha256;
	size_t		requests;
	size_t		rounds;			/* requests that are sent together count as one round */
	size_t		bytes;			/* received */
	size_t		records;
	AtpSparseEstimate estimate; /* before the first getBlocks */
} Fetch;

static Fetch fetch;
static AtpSparseWalk sparse;
static AtpExportWalk proof;
static AtpGetBlocks request;
static uint8_t *level_copy[ATP_MST_LEVELS_MAX];
static const AtpCarBlock *left_out;	/* a block of "kept" that is treated as absent */

static inline void
let_go(unsigned level)
{
	for (; level < ATP_MST_LEVELS_MAX; level++)
	{
		free(level_copy[level]);
		level_copy[level] = NULL;
	}
}

/* A node in memory of exactly its size, freed when the walk leaves the level. */
static inline bool
copy_node(unsigned level, const AtpCarBlock *block, AtpBytes *node)
{
	if (block == NULL || block == left_out)
		return false;
	let_go(level);
	level_copy[level] = copy_of(block->data.ptr, block->data.len);
	*node = (AtpBytes) {level_copy[level], block->data.len};
	return true;
}

static inline bool
read_kept(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	const AtpCarBlock *block = atp_car_index_find(&kept.index, cid);

	if (block == NULL && (block = atp_car_index_find(&early.index, cid)) != NULL)
		blocks_add(&kept, block);
	return copy_node(level, block, node);
}

static inline bool
has_kept(void *ctx, AtpBytes cid)
{
	const AtpCarBlock *block = atp_car_index_find(&kept.index, cid);

	return block != NULL && block != left_out;
}

/* The server walks to a record or to the record's place, and sends the nodes on the way. */
static inline bool
read_on_way(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	const AtpCarBlock *block = atp_car_index_find(&server.index, cid);

	if (block != NULL)
	{
		fetch.bytes += SECTION(block);
		blocks_add(&early, block);
	}
	return copy_node(level, block, node);
}

static inline void
get_record(const AtpKeyProbe *probe)
{
	char		key[ATP_NSID_MAX + 32];
	int			n = sprintf(key, "%.*s/%.*s", (int) probe->collection_len, probe->collection, (int) probe->rkey.len, probe->rkey.ptr);
	AtpKeyRange one = {{{key, (size_t) n - 1}, (uint8_t) key[n - 1]}, {{key, (size_t) n}, 0}};
	const AtpExportSource source = {
		.read = read_on_way, .blocks = BLOCKS_MAX, .max_records = 1, .sha256 = fetch.sha256, .ranges = &one, .nranges = 1
	};
	AtpExportRecord record;
	size_t		at;
	AtpErr		err = atp_export_begin(&proof, &source, cid_span(root), &at);

	while (err == ATP_OK)
		err = atp_export_next(&proof, &record, &at);
	let_go(0);
	fetch.requests++;
	fetch.bytes += 400;			/* the header and the commit */
}

static inline void
get_blocks(void)
{
	for (unsigned i = 0; i < request.n; i++)
	{
		const AtpCarBlock *block = atp_car_index_find(&server.index, cid_span(request.cid[i]));
		bool		taken;

		if (block == NULL)
			continue;
		fetch.bytes += SECTION(block);
		if (atp_get_blocks_take(&request, block, &taken) == ATP_OK && taken)
			blocks_add(&kept, block);
	}
	fetch.bytes += 60;
	fetch.requests++;
}

/* Adds a block to the open request, or sends a full request first. */
static inline AtpErr
want_block(AtpBytes cid, size_t block_max)
{
	AtpErr		err = atp_get_blocks_add(&request, cid);

	if (err != ATP_E_FETCH_FULL)
		return err;
	get_blocks();
	atp_get_blocks_begin(&request, URL_LEN, block_max);
	return atp_get_blocks_add(&request, cid);
}

static inline AtpExportSource
source_of(bool records)
{
	return (AtpExportSource) {
		.read = read_kept, .has = records ? has_kept : NULL, .blocks = kept.index.n, .max_records = RECORDS_MAX,
		.sha256 = fetch.sha256, .ranges = fetch.ranges, .nranges = fetch.nranges
	};
}

/* One round of P-03; ATP_E_MST_END when no node is absent. */
static inline AtpErr
fetch_level(void)
{
	const AtpExportSource source = source_of(false);
	size_t		before = fetch.requests;
	AtpBytes	cid;
	size_t		at;
	AtpErr		err = atp_sparse_begin(&sparse, &source, cid_span(root), &at);

	atp_get_blocks_begin(&request, URL_LEN, ATP_GET_BLOCKS_NODE_MAX);
	while (err == ATP_OK && (err = atp_sparse_next(&sparse, &cid, &at)) == ATP_OK)
		err = want_block(cid, ATP_GET_BLOCKS_NODE_MAX);
	if (fetch.rounds <= 1)
		fetch.estimate = atp_sparse_estimate(&sparse);
	if (request.n > 0)
		get_blocks();
	let_go(0);
	if (err != ATP_E_MST_END || fetch.requests == before)
		return err;
	fetch.rounds++;
	return request.missing > 0 ? ATP_E_MST_MISSING : ATP_OK;
}

/* Walks over the kept blocks: each record must be the repository's next record that the filter accepts. */
static inline AtpErr
prove(bool records, const char *const *patterns, bool *as_whole)
{
	const AtpExportSource source = source_of(records);
	AtpExportRecord record;
	size_t		next = 0;
	size_t		at;
	AtpErr		err = atp_export_begin(&proof, &source, cid_span(root), &at);

	*as_whole = true;
	for (fetch.records = 0; err == ATP_OK; fetch.records++)
	{
		bool		accepted = false;

		if ((err = atp_export_next(&proof, &record, &at)) != ATP_OK)
			break;
		for (; next < nitems && !accepted; next++)
		{
			size_t		n = strcspn(paths[next], "/");

			for (unsigned i = 0; patterns[i] != NULL; i++)
				accepted = accepted || atp_nsid_matches(paths[next], n, patterns[i], strlen(patterns[i]));
		}
		*as_whole = *as_whole && accepted && record.path.len == strlen(paths[next - 1]) &&
			memcmp(record.path.ptr, paths[next - 1], record.path.len) == 0 &&
			memcmp(record.cid.ptr, values[next - 1], ATP_CID_BLESSED_LEN) == 0;
	}
	for (; next < nitems; next++)
	{
		for (unsigned i = 0; patterns[i] != NULL; i++)
			*as_whole = *as_whole && !atp_nsid_matches(paths[next], strcspn(paths[next], "/"), patterns[i], strlen(patterns[i]));
	}
	let_go(0);
	return err;
}

/* Fetches the records of the proven tree. */
static inline AtpErr
fetch_records(void)
{
	const AtpExportSource source = source_of(false);
	size_t		before = fetch.requests;
	AtpExportRecord record;
	size_t		at;
	AtpErr		err = atp_export_begin(&proof, &source, cid_span(root), &at);

	atp_get_blocks_begin(&request, URL_LEN, ATP_GET_BLOCKS_RECORD_MAX);
	while (err == ATP_OK && (err = atp_export_next(&proof, &record, &at)) == ATP_OK)
		err = want_block(record.cid, ATP_GET_BLOCKS_RECORD_MAX);
	if (request.n > 0)
		get_blocks();
	let_go(0);
	fetch.rounds += fetch.requests > before;
	return err;
}

static inline int
compare_ranges(const void *a, const void *b)
{
	return atp_key_range_compare(a, b);
}

static inline void
begin_fetch(const char *const *patterns)
{
	fetch = (Fetch) {.sha256 = sha256};
	blocks_clear(&kept);
	blocks_clear(&early);
	for (; patterns[fetch.nranges] != NULL; fetch.nranges++)
		fetch.ranges[fetch.nranges] = atp_key_range((AtpSpan) {patterns[fetch.nranges], strlen(patterns[fetch.nranges])});
	qsort(fetch.ranges, fetch.nranges, sizeof(fetch.ranges[0]), compare_ranges);
	fetch.nranges = atp_key_ranges_join(fetch.ranges, fetch.nranges);
}

/* P-02: the ways to the first and the last key of the ranges. */
static inline void
fetch_ways(unsigned n)
{
	AtpKeyProbe probe;

	if (n > 0)
	{
		atp_key_probe_first(&fetch.ranges[0], &probe);
		get_record(&probe);
		fetch.rounds = 1;
	}
	if (n > 1)
	{
		atp_key_probe_last(&fetch.ranges[fetch.nranges - 1], &probe);
		get_record(&probe);
	}
}

static inline AtpErr
fetch_nodes(void)
{
	AtpErr		err;

	do
		err = fetch_level();
	while (err == ATP_OK);
	return err;
}

#define PATTERN_LIST(...)	((const char *const[]) {__VA_ARGS__, NULL})

#endif							/* SPARSE_SERVER_H */
