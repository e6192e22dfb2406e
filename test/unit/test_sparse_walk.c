/*
 * test_sparse_walk.c
 *		Some collections of a repository, with proof: P-02, P-03, P-12 to P-16, P-30.  A made-up server answers
 *		getRecord and getBlocks, and the proven records are compared with the filter's part of the whole
 *		repository.  Then come trees that hide records, or take long to fetch.
 */
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

static void
blocks_clear(Blocks *b)
{
	memset(b->slots, 0, sizeof(b->slots));
	b->index = (AtpCarIndex) {.blocks = b->blocks, .cap = BLOCKS_MAX, .slots = b->slots, .nslots = SLOTS};
}

static void
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

static void
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

static void
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
static void
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

static void
serve_tree(void)
{
	static uint8_t scratch[1024 * 1024];

	if (atp_mst_build(items, nitems, sha256, NULL, scratch, sizeof(scratch), serve_block, NULL, root) != ATP_OK)
		exit(2);
}

/* Parts are sorted by collection. */
static void
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

static void
let_go(unsigned level)
{
	for (; level < ATP_MST_LEVELS_MAX; level++)
	{
		free(level_copy[level]);
		level_copy[level] = NULL;
	}
}

/* A node in memory of exactly its size, freed when the walk leaves the level. */
static bool
copy_node(unsigned level, const AtpCarBlock *block, AtpBytes *node)
{
	if (block == NULL || block == left_out)
		return false;
	let_go(level);
	level_copy[level] = copy_of(block->data.ptr, block->data.len);
	*node = (AtpBytes) {level_copy[level], block->data.len};
	return true;
}

static bool
read_kept(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	const AtpCarBlock *block = atp_car_index_find(&kept.index, cid);

	if (block == NULL && (block = atp_car_index_find(&early.index, cid)) != NULL)
		blocks_add(&kept, block);
	return copy_node(level, block, node);
}

static bool
has_kept(void *ctx, AtpBytes cid)
{
	const AtpCarBlock *block = atp_car_index_find(&kept.index, cid);

	return block != NULL && block != left_out;
}

/* The server walks to a record or to the record's place, and sends the nodes on the way. */
static bool
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

static void
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

static void
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
static AtpErr
want_block(AtpBytes cid, size_t block_max)
{
	AtpErr		err = atp_get_blocks_add(&request, cid);

	if (err != ATP_E_FETCH_FULL)
		return err;
	get_blocks();
	atp_get_blocks_begin(&request, URL_LEN, block_max);
	return atp_get_blocks_add(&request, cid);
}

static AtpExportSource
source_of(bool records)
{
	return (AtpExportSource) {
		.read = read_kept, .has = records ? has_kept : NULL, .blocks = kept.index.n, .max_records = RECORDS_MAX,
		.sha256 = fetch.sha256, .ranges = fetch.ranges, .nranges = fetch.nranges
	};
}

/* One round of P-03; ATP_E_MST_END when no node is absent. */
static AtpErr
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
static AtpErr
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
static AtpErr
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

static int
compare_ranges(const void *a, const void *b)
{
	return atp_key_range_compare(a, b);
}

static void
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
static void
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

static AtpErr
fetch_nodes(void)
{
	AtpErr		err;

	do
		err = fetch_level();
	while (err == ATP_OK);
	return err;
}

#define PATTERN_LIST(...)	((const char *const[]) {__VA_ARGS__, NULL})

/* --- repositories of the usual sizes --- */

static void
measure(const char *name, unsigned ways, const char *const *patterns, size_t expected, size_t max_requests, size_t max_rounds, double max_share)
{
	bool		as_whole;
	AtpErr		err;
	size_t		nodes;
	double		share;

	begin_fetch(patterns);
	fetch_ways(ways);
	err = fetch_nodes();
	nodes = kept.index.n;
	ok(err == ATP_E_MST_END && prove(false, patterns, &as_whole) == ATP_E_MST_END && as_whole && fetch.records == expected,
	   "P-15: %s: the keys are those of the whole tree: %zu", name, fetch.records);
	if (expected > 0)
	{
		ok(prove(true, patterns, &as_whole) == ATP_E_RECORD_MISSING, "P-15: without the records the proof fails");
		err = fetch_records();
		ok(err == ATP_E_MST_END && prove(true, patterns, &as_whole) == ATP_E_MST_END && as_whole, "with them it is whole");
	}
	share = 100.0 * fetch.bytes / whole_bytes;
	ok(fetch.requests <= max_requests && fetch.rounds <= max_rounds && share <= max_share,
	   "P-03: %s: %zu requests in %zu rounds, %zu nodes, %zu bytes: %.2f %% of %zu", name, fetch.requests, fetch.rounds, nodes, fetch.bytes, share, whole_bytes);
	ok(nodes <= proof.asked, "nothing else was kept");
	ok(ways == 0 || (fetch.estimate.records >= nitems / 16 && fetch.estimate.records <= nitems * 16 &&
	   fetch.estimate.in_ranges >= fetch.records / 16 && fetch.estimate.in_ranges <= fetch.records * 16),
	   "P-30: after the first answers %llu records are expected, %llu of them in the ranges",
	   (unsigned long long) fetch.estimate.records, (unsigned long long) fetch.estimate.in_ranges);
}

static void
usual_sizes(void)
{
	static const Part small[] = {
		{"app.bsky.actor.profile", 1}, {"app.bsky.feed.like", 700}, {"app.bsky.feed.post", 200}, {"app.bsky.graph.follow", 99}
	};
	static const Part middle[] = {
		{"app.bsky.actor.profile", 1}, {"app.bsky.feed.like", 12000}, {"app.bsky.feed.post", 3000}, {"app.bsky.feed.repost", 2000},
		{"app.bsky.graph.follow", 2594}, {"exchange.recipe.recipe", 405}
	};
	static const Part large[] = {
		{"app.bsky.actor.profile", 1}, {"app.bsky.feed.like", 70000}, {"app.bsky.feed.post", 15000}, {"app.bsky.feed.repost", 10000},
		{"app.bsky.graph.block", 78}, {"app.bsky.graph.follow", 2912}, {"com.whtwnd.blog.entry", 2009}
	};

	serve_parts(small, 4, 0);
	measure("nothing of 1,000 records", 1, PATTERN_LIST("exchange.recipe.recipe"), 0, 1, 1, 10);
	measure("199 of 1,000 records, without getRecord", 0, PATTERN_LIST("app.bsky.feed.post"), 200, 12, 7, 60);
	serve_parts(middle, 6, 0);
	measure("nothing of 20,000 records", 1, PATTERN_LIST("com.example.nothing"), 0, 1, 1, 0.2);
	measure("405 of 20,000 records", 2, PATTERN_LIST("exchange.recipe.recipe"), 405, 12, 7, 5);
	measure("3 ranges of 20,000 records", 2, PATTERN_LIST("exchange.recipe.*", "app.bsky.actor.profile", "com.example.nothing"), 406, 30, 9, 5);
	serve_parts(large, 7, 0);
	measure("nothing of 100,000 records", 1, PATTERN_LIST("app.bsky.feed.threadgate"), 0, 1, 1, 0.1);
	measure("78 of 100,000 records", 2, PATTERN_LIST("app.bsky.graph.block"), 78, 6, 5, 1);
	measure("2,009 of 100,000 records", 2, PATTERN_LIST("com.whtwnd.*"), 2009, 34, 7, 4);
}

/* --- many small repositories --- */

/*
 * Any ranges of any tree: each round goes a level down, only necessary nodes are fetched, and the proof fails
 * without any of these nodes or records.
 */
static void
small_trees(void)
{
	static const char *const collections[] = {"a.b.c.d", "a.b.c.e", "a.b.c", "a.b.c0d", "a.b.d", "a.c.a", "b.a.a"};
	static const char *const patterns[] = {"a.b.c", "a.b.c.*", "a.b.*", "a.b.c.e", "a.b.d", "a.b.x", "b.*", "c.c.c", "*"};
	size_t		right = 0;
	size_t		missed = 0;
	size_t		blocks = 0;
	size_t		with_records = 0;
	const size_t trees = 300;

	for (size_t t = 0; t < trees; t++)
	{
		Part		parts[7];
		const char *some[4] = {NULL};
		size_t		levels;
		size_t		nodes;
		bool		as_whole;
		bool		good;

		for (size_t i = 0; i < 7; i++)
			parts[i] = (Part) {collections[i], random_below(3) == 0 ? 0 : random_below(t % 10 == 0 ? 200 : 20)};
		for (size_t i = 0; i <= random_below(3); i++)
			some[i] = patterns[random_below(9)];
		serve_parts(parts, 7, random_below(100000));
		begin_fetch(some);
		good = fetch_nodes() == ATP_E_MST_END;
		levels = sparse.top_keys > 0 ? sparse.top + 1 : 1;
		nodes = kept.index.n;
		good = good && prove(false, some, &as_whole) == ATP_E_MST_END && as_whole && nodes == proof.asked && fetch.rounds <= levels;
		/* P-16 */
		if (fetch.records == 0)
			good = good && nodes <= levels * fetch.nranges;
		with_records += fetch.records > 0;
		good = good && fetch_records() == ATP_E_MST_END && prove(true, some, &as_whole) == ATP_E_MST_END && as_whole;
		right += good;
		for (size_t i = 0; i < kept.index.n; i += 1 + kept.index.n / 50)
		{
			left_out = &kept.blocks[i];
			missed += prove(true, some, &as_whole) == (i < nodes ? ATP_E_MST_MISSING : ATP_E_RECORD_MISSING);
			blocks++;
		}
		left_out = NULL;
	}
	ok(right == trees && with_records > 100, "P-13: %zu of %zu trees give the records of the ranges; each node that was fetched is needed", right, trees);
	ok(missed == blocks && blocks > 3000, "P-15: each of %zu blocks that was left out was missed", blocks);
}

/* P-04: the repository gets a new record during the fetch: almost all nodes are the same. */
static void
moved_on(void)
{
	static const Part parts[] = {{"a.b.c", 3000}, {"a.b.d", 1000}};
	size_t		before;
	bool		as_whole;

	serve_parts(parts, 2, 0);
	begin_fetch(PATTERN_LIST("a.b.d"));
	(void) fetch_nodes();
	before = kept.index.n;
	serve_record("a.b.d", 1000);
	serve_tree();
	ok(fetch_nodes() == ATP_E_MST_END && prove(false, PATTERN_LIST("a.b.d"), &as_whole) == ATP_E_MST_END && as_whole &&
	   fetch.records == 1001, "P-04: a fetch begins again at a later commit");
	ok(before > 200 && kept.index.n - before <= sparse.top + 1, "with %zu more nodes than %zu", kept.index.n - before, before);
}

/* Blocks that came early, here the whole repository: the same walks take the nodes of the ranges, and no other block. */
static void
all_at_once(void)
{
	static const Part parts[] = {{"a.b.c", 3000}, {"a.b.d", 30}};
	bool		as_whole;

	serve_parts(parts, 2, 0);
	begin_fetch(PATTERN_LIST("a.b.d"));
	for (size_t i = 0; i < server.index.n; i++)
		blocks_add(&early, &server.blocks[i]);
	ok(fetch_nodes() == ATP_E_MST_END && fetch.requests == 0 && prove(false, PATTERN_LIST("a.b.d"), &as_whole) == ATP_E_MST_END && as_whole,
	   "P-10: nodes that came early need no request");
	ok(kept.index.n == proof.asked && kept.index.n < 60, "%zu of %zu blocks were kept", kept.index.n, early.index.n);
}

/* --- hostile trees --- */

static uint8_t car[4 * 1024 * 1024];
static AtpCborWriter w;
static uint8_t child[ATP_CID_BLESSED_LEN];
static uint8_t other[ATP_CID_BLESSED_LEN];

/* The number behind '@' is the key's height n: a hostile account finds such a key with 4^n hashes. */
static void
claimed_height(void *ctx, const uint8_t *key, size_t n, uint8_t out[32])
{
	unsigned	height = n >= 3 && key[n - 3] == '@' ? (key[n - 2] - '0') * 10u + (key[n - 1] - '0') : 0;

	memset(out, 0, 32);
	out[height / 4] = 0x80 >> 2 * (height % 4);
}

/* A node of entries with whole keys, which are shortened here. */
static void
put_keys(uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *left, NodeEntry *entries, size_t n)
{
	for (size_t i = n; i-- > 1;)
	{
		NodeEntry  *entry = &entries[i];
		const char *before = entries[i - 1].suffix;

		while (before[entry->prefix] != '\0' && before[entry->prefix] == entry->suffix[entry->prefix])
			entry->prefix++;
		entry->suffix += entry->prefix;
	}
	put_node(&w, entries, n, left, cid);
}

#define NODE(cid, left, ...) \
	do { \
		NodeEntry	list_[] = {__VA_ARGS__}; \
		put_keys(cid, left, list_, sizeof(list_) / sizeof(list_[0])); \
	} while (0)

static void
begin_nodes(void)
{
	serve_nothing();
	w = (AtpCborWriter) {.buf = car, .cap = sizeof(car)};
}

/* A chain of nodes without entries above a node, as many as requested. */
static void
put_chain(unsigned n, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	while (n-- > 0)
		put_node(&w, NULL, 0, cid, cid);
}

/* Fetches collections of the tree in the buffer; the walk asks for a bounded number of nodes. */
static void
expect_of(const char *name, const char *const *patterns, AtpErr expected, size_t max_asked)
{
	AtpCar		reader = {.buf = car, .len = w.len};
	AtpCarBlock block;
	size_t		at;
	bool		as_whole;
	AtpErr		err;

	if (w.len > w.cap)
		exit(2);
	while (atp_car_next(&reader, &block, &at) == ATP_OK)
		blocks_add(&server, &block);
	begin_fetch(patterns);
	fetch.sha256 = claimed_height;
	err = fetch_nodes();
	if (err == ATP_E_MST_END)
		err = prove(false, patterns, &as_whole);
	ok(err == expected && sparse.walk.asked <= max_asked, "%s: %llu nodes: %s", name, (unsigned long long) sparse.walk.asked, atp_err_text(err));
	begin_nodes();
}

static void
expect_within(const char *name, AtpErr expected, size_t max_asked)
{
	expect_of(name, PATTERN_LIST("m.m.m"), expected, max_asked);
}

static void
expect(const char *name, AtpErr expected)
{
	expect_within(name, expected, 5);
}

static void
hidden_ranges(void)
{
	begin_nodes();
	NODE(child, NULL, {0, "m.m.m/a@01", NULL});
	NODE(root, NULL, {0, "a@02", child}, {0, "z@02", NULL});
	expect("a tree", ATP_E_MST_END);
	ok(fetch.records == 1, "with a record");

	NODE(child, NULL, {0, "zz@01", NULL});
	NODE(root, NULL, {0, "a@02", child}, {0, "z@02", NULL});
	expect("P-12: a node whose keys lie behind its interval", ATP_E_MST_ORDER);
	NODE(child, NULL, {0, "A@01", NULL});
	NODE(root, NULL, {0, "a@02", child}, {0, "z@02", NULL});
	expect("P-12: or before it", ATP_E_MST_ORDER);
	NODE(child, NULL, {0, "A@01", NULL});
	NODE(root, NULL, {0, "a@02", NULL}, {0, "b@02", child});
	expect("P-12: or before the last interval", ATP_E_MST_ORDER);
	NODE(child, NULL, {0, "zz@01", NULL});
	NODE(root, child, {0, "z@02", NULL});
	expect("P-12: or behind the first", ATP_E_MST_ORDER);
	NODE(other, NULL, {0, "zz@00", NULL});
	NODE(child, NULL, {0, "m.m.m/a@01", other});
	NODE(root, NULL, {0, "a@02", child}, {0, "z@02", NULL});
	expect("P-12: an interval that ends two nodes above", ATP_E_MST_ORDER);
	NODE(other, NULL, {0, "A@00", NULL});
	put_node(&w, NULL, 0, other, child);
	NODE(root, NULL, {0, "a@02", child}, {0, "z@02", NULL});
	expect("P-12: or begins there", ATP_E_MST_ORDER);

	NODE(child, NULL, {0, "m.m.m/a@00", NULL});
	NODE(root, NULL, {0, "a@02", child}, {0, "z@02", NULL});
	expect("P-12: a key of another height than its node", ATP_E_MST_LAYER);
	NODE(child, NULL, {0, "m.m.m/a@02", NULL});
	NODE(root, NULL, {0, "a@02", child}, {0, "z@02", NULL});
	expect("P-12: a node as high as the node above", ATP_E_MST_LAYER);
	NODE(root, NULL, {0, "a@02", NULL}, {0, "z@01", NULL});
	expect("P-12: two heights in a node, none in the range", ATP_E_MST_LAYER);
	NODE(root, NULL, {0, "a@02", NULL}, {0, "b@02", NULL}, {0, "a@02", NULL});
	expect("P-12: order in a node, outside of the range", ATP_E_MST_ORDER);
	NODE(child, NULL, {0, "m.m.m/a@00", NULL});
	NODE(root, NULL, {0, "a@00", child});
	expect("P-12: a link below height 0", ATP_E_MST_LAYER);
	NODE(child, NULL, {0, "m.m.m/a@01", NULL});
	put_node(&w, NULL, 0, child, root);
	expect("P-12: a top without keys", ATP_E_MST_EMPTY);
	put_node(&w, NULL, 0, NULL, child);
	NODE(root, NULL, {0, "a@02", child}, {0, "z@02", NULL});
	expect("P-12: an empty node", ATP_E_MST_EMPTY);
	put_node(&w, NULL, 0, NULL, root);
	expect("P-12: the empty tree", ATP_E_MST_END);
}

/* P-13: nodes beside the range have no part in the proof. */
static void
beside_the_range(void)
{
	uint8_t		absent[ATP_CID_BLESSED_LEN];

	memset(absent, 7, sizeof(absent));
	memcpy(absent, "\x01\x71\x12\x20", 4);
	begin_nodes();
	NODE(child, NULL, {0, "m.m.m/a@01", NULL});
	NODE(root, absent, {0, "a@02", NULL}, {0, "b@02", child}, {0, "z@02", absent});
	expect("P-13: absent nodes beside the range", ATP_E_MST_END);
	NODE(child, NULL, {0, "m.m.m/a@01", NULL});
	NODE(root, absent, {0, "m.m.m.z/z@02", NULL}, {0, "m.m.m/@02", child}, {0, "m.m.m0@02", absent});
	expect("P-13: up to its ends", ATP_E_MST_END);
	NODE(child, NULL, {0, "m.m.m/a@01", NULL}, {0, "n@01", absent});
	NODE(root, NULL, {0, "a@02", child}, {0, "x@02", NULL});
	expect_of("P-13: an absent node between two ranges, whose next key stands two nodes above", PATTERN_LIST("m.m.m", "y.y.y"), ATP_E_MST_END, 2);
	NODE(child, NULL, {0, "b@01", NULL});
	NODE(root, child, {0, "m.m.m/@02", absent}, {0, "z@02", NULL});
	expect("P-13: but an absent node in the range", ATP_E_MST_MISSING);
	NODE(root, NULL, {0, "a@02", absent}, {0, "m.m.m/a@02", NULL});
	expect("P-13: or across its first end", ATP_E_MST_MISSING);
	NODE(root, NULL, {0, "m.m.m/a@02", absent}, {0, "z@02", NULL});
	expect("P-13: or across its last", ATP_E_MST_MISSING);
	NODE(root, NULL, {0, "a@02", absent}, {0, "z@02", NULL});
	expect("P-13: or around it", ATP_E_MST_MISSING);
	expect("P-03: no root", ATP_E_MST_MISSING);
}

/* Trees with long or many paths. */
static void
long_ways(void)
{
	static char names[300][2][16];
	static NodeEntry entries[300];
	static uint8_t chains[300][ATP_CID_BLESSED_LEN];

	begin_nodes();
	NODE(child, NULL, {0, "m.m.m/c@01", NULL});
	NODE(root, NULL, {0, "m.m.m/b@02", child}, {0, "m.m.m/d@02", child});
	expect("V-24: a node twice", ATP_E_MST_ORDER);
	NODE(child, NULL, {0, "m.m.m/c@01", NULL});
	put_node(&w, NULL, 0, child, other);
	NODE(root, other, {0, "m.m.m/b@03", NULL}, {0, "m.m.m/d@03", other});
	expect("V-24: a node without keys twice", ATP_E_MST_ORDER);

	NODE(root, NULL, {0, "m.m.m/k@00", NULL});
	for (unsigned i = 1; i <= 30; i++)
	{
		char		key[16];

		(void) sprintf(key, "m.m.m/k@%02u", i);
		memcpy(child, root, sizeof(child));
		NODE(root, child, {0, key, child});
	}
	expect_within("V-24: 2^30 paths", ATP_E_MST_ORDER, 40);

	NODE(child, NULL, {0, "m.m.m/a@00", NULL});
	put_chain(59, child);
	NODE(root, child, {0, "z@60", NULL});
	expect_within("P-14: 60 levels", ATP_E_MST_DEPTH, 33);
	NODE(child, NULL, {0, "m.m.m/a@00", NULL});
	put_chain(20, child);
	NODE(root, child, {0, "z@20", NULL});
	expect_within("P-12: more levels than the root is high", ATP_E_MST_LAYER, 22);
	NODE(child, NULL, {0, "m.m.m/a@00", NULL});
	put_chain(19, child);
	NODE(root, child, {0, "z@20", NULL});
	expect_within("as many levels", ATP_E_MST_END, 21);

	/* two records in the range for each 30 nodes */
	for (unsigned i = 0; i < 300; i++)
	{
		(void) sprintf(names[i][0], "m.m.m/%03u@30", i);
		(void) sprintf(names[i][1], "m.m.m/%03ua@00", i);
		NODE(chains[i], NULL, {0, names[i][1], NULL});
		put_chain(29, chains[i]);
		entries[i] = (NodeEntry) {0, names[i][0], chains[i]};
	}
	put_keys(root, NULL, entries, 300);
	expect_within("P-14: many nodes and few records", ATP_E_EXPORT_HOLLOW, 300 * ATP_EXPORT_NODES_EACH + 31 * ATP_EXPORT_NODES_BESIDE + 1);
}

static bool
read_endless(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	AtpCborWriter one = {.buf = car, .cap = sizeof(car)};
	const AtpCarBlock *block = atp_car_index_find(&kept.index, cid);
	uint8_t		next[ATP_CID_BLESSED_LEN];
	AtpCar		reader = {.buf = car};
	AtpCarBlock made;
	size_t		at;

	if (block != NULL)
		return copy_node(level, block, node);
	memcpy(next, cid.ptr, sizeof(next));
	next[35] += ctx != NULL;	/* another, or itself */
	put_node(&one, NULL, 0, next, next);
	reader.len = one.len;
	return atp_car_next(&reader, &made, &at) == ATP_OK && copy_node(level, &made, node);
}

static void
lies_and_limits(void)
{
	static uint8_t big[ATP_EXPORT_NODE_MAX + 1];
	AtpExportSource source;
	AtpExportRecord record;
	AtpCarBlock block = {.data = {big, sizeof(big)}};
	AtpBytes	cid;
	size_t		at;
	bool		as_whole;
	int			pauses;
	AtpErr		err;

	/* no server can do this, since each link is a hash */
	for (unsigned i = 0; i < 2; i++)
	{
		begin_nodes();
		memset(child, 7, sizeof(child));
		memcpy(child, "\x01\x71\x12\x20", 4);
		NODE(root, child, {0, "z@60", NULL});
		expect("an absent node", ATP_E_MST_MISSING);
		source = source_of(false);
		source.read = read_endless;
		source.ctx = i == 0 ? &source : NULL;
		source.blocks = UINT64_MAX;
		err = atp_export_begin(&proof, &source, cid_span(root), &at);
		if (err == ATP_OK)
			err = atp_export_next(&proof, &record, &at);
		let_go(0);
		ok(err == ATP_E_MST_DEPTH && proof.asked <= ATP_MST_LEVELS_MAX + 1, "P-14: %s: %s", i == 0 ? "a tree without end" : "a circle", atp_err_text(err));
	}

	serve_parts((Part[]) {{"m.m.m", 100}}, 1, 0);
	begin_fetch(PATTERN_LIST("m.m.m"));
	(void) fetch_nodes();
	ok(prove(true, PATTERN_LIST("m.m.m"), &as_whole) == ATP_E_RECORD_MISSING && fetch.records == 0, "P-15: records that are nowhere");
	source = source_of(false);
	err = atp_sparse_begin(&sparse, &source, cid_span(root), &at);
	sparse.pause_after = 30;
	for (pauses = 0; err == ATP_OK && (err = atp_sparse_next(&sparse, &cid, &at)) == ATP_OK && cid.ptr == NULL;)
		pauses++;
	ok(err == ATP_E_MST_END && pauses == 3, "P-14: a walk over 100 keys that pauses after 30");
	source = source_of(false);
	source.max_records = 99;
	err = atp_sparse_begin(&sparse, &source, cid_span(root), &at);
	if (err == ATP_OK)
		err = atp_sparse_next(&sparse, &cid, &at);
	ok(err == ATP_E_EXPORT_RECORDS, "P-14: too many records");
	source = source_of(false);
	err = atp_sparse_begin(&sparse, &source, cid_span(root), &at);
	sparse.walk.asked = ATP_EXPORT_NODES_MAX;
	if (err == ATP_OK)
		err = atp_sparse_next(&sparse, &cid, &at);
	ok(err == ATP_E_EXPORT_NODES, "P-14: more than 200,000 nodes");
	let_go(0);

	block_cid(big, sizeof(big), root);
	block.cid = cid_span(root);
	blocks_add(&kept, &block);
	ok(fetch_level() == ATP_E_MST_NODE_SIZE && prove(false, PATTERN_LIST("m.m.m"), &as_whole) == ATP_E_MST_NODE_SIZE, "P-14: a node of 1,000,001 bytes");
	begin_fetch(PATTERN_LIST("m.m.m", "a.a.a"));
	{
		AtpKeyRange range = fetch.ranges[0];

		fetch.ranges[0] = fetch.ranges[1];
		fetch.ranges[1] = range;
	}
	ok(fetch_level() == ATP_E_EXPORT_RANGES, "ranges that were not sorted");
}

int
main(void)
{
	usual_sizes();
	small_trees();
	moved_on();
	all_at_once();
	hidden_ranges();
	beside_the_range();
	long_ways();
	lies_and_limits();
	let_go(0);
	return done_testing();
}
