/*
 * test_sparse_hostile.c
 *		Trees that hide records of some collections, or take long to fetch, and servers that lie: no walk takes them for a proof
 *		 (P-12 to P-16).
 */
#include "sparse_server.h"

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
	hidden_ranges();
	beside_the_range();
	long_ways();
	lies_and_limits();
	let_go(0);
	return done_testing();
}
