/*
 * test_export_walk.c
 *		Exports, V-23, V-24, V-51.  Walks all trees of fourteen keys (16,384), which fill layers 0
 *		to 3, from blocks in separate pieces of memory; then each tree without one block, and trees that break a
 *		rule.
 */
#include "core/codec/cid.h"
#include "core/repo/export_walk.h"
#include "hex.h"
#include "repo.h"

#define BLOCKS_MAX	512
#define KEYS		14

typedef struct Block
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint8_t    *data;
	size_t		len;
} Block;

/*
 * Blocks by their CIDs.  The walk gets a node in memory of exactly its size, one for each level; when the walk
 * lets go of the level, the memory is freed, so that ASan finds a later read.
 */
typedef struct Store
{
	Block		blocks[BLOCKS_MAX];
	size_t		n;
	size_t		nodes;			/* number of nodes; all further blocks are records */
	uint8_t    *level[ATP_MST_LEVELS_MAX];
	size_t		reads;
	size_t		all_there;		/* every record exists, though none was put: for tests of trees alone */
} Store;

static Store store;

static void
put_block(void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	Store	   *s = ctx;

	if (s->n == BLOCKS_MAX)
		exit(2);
	memcpy(s->blocks[s->n].cid, cid, ATP_CID_BLESSED_LEN);
	s->blocks[s->n].data = copy_of(block, n);
	s->blocks[s->n++].len = n;
}

static void
let_go(Store *s, unsigned level)
{
	for (; level < ATP_MST_LEVELS_MAX; level++)
	{
		free(s->level[level]);
		s->level[level] = NULL;
	}
}

static void
store_clear(void)
{
	let_go(&store, 0);
	while (store.n > 0)
		free(store.blocks[--store.n].data);
	store = (Store) {0};
}

static const Block *
find(const Store *s, AtpBytes cid)
{
	for (size_t i = 0; i < s->n; i++)
	{
		if (cid.len == ATP_CID_BLESSED_LEN && memcmp(s->blocks[i].cid, cid.ptr, cid.len) == 0)
			return &s->blocks[i];
	}
	return NULL;
}

static bool
read_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	Store	   *s = ctx;
	const Block *block = find(s, cid);

	s->reads++;
	if (block == NULL)
		return false;
	/* The CID may lie in the memory that is freed here only if the caller is at fault: at this very level. */
	let_go(s, level);
	s->level[level] = copy_of(block->data, block->len);
	*node = (AtpBytes) {s->level[level], block->len};
	return true;
}

static bool
has_record(void *ctx, AtpBytes cid)
{
	const Store *s = ctx;

	return s->all_there || find(s, cid) != NULL;
}

static AtpExportWalk walk;
static AtpSha256Fn key_hash = sha256;
static size_t nfound;
static char found[BLOCKS_MAX][1100];

static AtpErr
walk_all(const uint8_t *root, uint64_t max_records)
{
	AtpExportSource source = {
		.read = read_node, .has = has_record, .ctx = &store, .blocks = store.n,
		.max_records = max_records, .sha256 = key_hash
	};
	AtpExportRecord record;
	size_t		at;
	AtpErr		err = atp_export_begin(&walk, &source, cid_span(root), &at);

	nfound = 0;
	while (err == ATP_OK && (err = atp_export_next(&walk, &record, &at)) == ATP_OK)
		sprintf(found[nfound++], "%.*s", (int) record.path.len, record.path.ptr);
	let_go(&store, 0);
	return err;
}

static void
make_tree(const char *const *keys, size_t n, uint8_t root[ATP_CID_BLESSED_LEN])
{
	static uint8_t scratch[REPO_ROOM];
	static AtpMstItem items[BLOCKS_MAX];
	static uint8_t cids[BLOCKS_MAX][ATP_CID_BLESSED_LEN];
	uint8_t		record[4096];

	store_clear();
	for (size_t i = 0; i < n; i++)
	{
		repo_record(keys[i], record, sizeof(record), cids[i]);
		items[i] = (AtpMstItem) {.key = bytes_of(keys[i]), .value = cid_span(cids[i])};
	}
	if (atp_mst_build(items, n, sha256, NULL, scratch, sizeof(scratch), put_block, &store, root) != ATP_OK)
		exit(2);
	store.nodes = store.n;
	for (size_t i = 0; i < n; i++)
	{
		uint8_t		cid[ATP_CID_BLESSED_LEN];
		size_t		len = repo_record(keys[i], record, sizeof(record), cid);

		if (find(&store, cid_span(cid)) == NULL)
			put_block(&store, cid, record, len);
	}
}

/* Keys in ascending order with these heights, so that subtrees of all shapes occur. */
static char keys[KEYS][64];

static void
choose_keys(void)
{
	static const unsigned heights[KEYS] = {0, 1, 0, 2, 0, 0, 1, 3, 0, 2, 1, 0, 1, 0};

	for (unsigned i = 0; i < KEYS; i++)
	{
		for (unsigned j = 0;; j++)
		{
			sprintf(keys[i], "app.example.%c%s/%u", 'a' + i % 14, i % 3 ? "" : "Long.name", j);
			if (i % 3 == 0)
				sprintf(keys[i], "app.example.%cname/%u", 'a' + i, j);
			if (atp_mst_height((uint8_t *) keys[i], strlen(keys[i]), sha256, NULL) == heights[i])
				break;
		}
	}
}

/* Each set of keys is a tree, and each block of a tree is necessary. */
static void
all_trees(void)
{
	size_t		wrong = 0;
	size_t		walked = 0;
	size_t		seen = 0;
	size_t		kept = 0;
	size_t		deep = 0;

	choose_keys();
	for (unsigned set = 0; set < 1 << KEYS; set++)
	{
		const char *some[KEYS];
		size_t		n = 0;
		uint8_t		root[ATP_CID_BLESSED_LEN];
		bool		right = true;

		for (unsigned i = 0; i < KEYS; i++)
		{
			if (set >> i & 1)
				some[n++] = keys[i];
		}
		make_tree(some, n, root);
		right = walk_all(root, n) == ATP_E_MST_END && nfound == n && walk.records == n && store.reads == store.nodes;
		for (size_t i = 0; right && i < n; i++)
			right = strcmp(found[i], some[i]) == 0;
		wrong += !right;
		walked++;
		deep += walk.held[3] > 0;
		if (set % 7 != 0)
			continue;
		for (size_t i = 0; i < store.n; i++)
		{
			uint8_t		byte = store.blocks[i].cid[20]++;
			AtpErr		err = walk_all(root, n);

			store.blocks[i].cid[20] = byte;
			seen += err == (i < store.nodes ? ATP_E_MST_MISSING : ATP_E_RECORD_MISSING);
			kept++;
		}
	}
	ok(wrong == 0 && walked == 16384 && deep > 1000, "R-44: %zu trees give their keys in order, each node read once", walked);
	ok(seen == kept && kept > 10000, "R-43: each of %zu blocks that was left out was missed", kept);
}

static void
limits(void)
{
	const char *all[KEYS];
	uint8_t		root[ATP_CID_BLESSED_LEN];
	AtpExportSource source;
	AtpExportRecord record;
	size_t		at;

	for (size_t i = 0; i < KEYS; i++)
		all[i] = keys[i];
	make_tree(all, KEYS, root);
	ok(walk_all(root, KEYS) == ATP_E_MST_END, "R-45: as many records as are allowed");
	ok(walk_all(root, KEYS - 1) == ATP_E_EXPORT_RECORDS && nfound == KEYS - 1, "R-45: one more");

	source = (AtpExportSource) {
		.read = read_node, .has = has_record, .ctx = &store, .blocks = store.nodes - 1,
		.max_records = KEYS, .sha256 = sha256
	};
	(void) atp_export_begin(&walk, &source, cid_span(root), &at);
	for (nfound = 0; nfound <= KEYS; nfound++)
	{
		AtpErr		err = atp_export_next(&walk, &record, &at);

		if (err != ATP_OK)
		{
			ok(err == ATP_E_MST_TWICE, "V-24: more nodes than blocks: %s", atp_err_text(err));
			break;
		}
	}
}

static void
paths(void)
{
	static const char *const some[] = {"app.example.record/a", "no path at all", "no/nsid"};
	uint8_t		root[ATP_CID_BLESSED_LEN];
	AtpExportSource source = {.read = read_node, .has = has_record, .ctx = &store, .max_records = 3, .sha256 = sha256};
	AtpExportRecord record;
	size_t		at;

	make_tree(some, 3, root);
	source.blocks = store.n;
	ok(atp_export_begin(&walk, &source, cid_span(root), &at) == ATP_OK &&
	   atp_export_next(&walk, &record, &at) == ATP_OK, "a tree with a path");
	ok(atp_span_is(record.collection, "app.example.record") && atp_span_is(record.rkey, "a") &&
	   record.cid.len == ATP_CID_BLESSED_LEN, "its parts");
	ok(atp_export_next(&walk, &record, &at) == ATP_OK && record.collection.ptr == NULL && record.rkey.ptr == NULL &&
	   atp_span_is(record.path, "no path at all"), "B-65: what is not the path of a record is delivered as such");
	ok(atp_export_next(&walk, &record, &at) == ATP_OK && record.collection.ptr == NULL, "another");
	ok(atp_export_next(&walk, &record, &at) == ATP_E_MST_END &&
	   atp_export_next(&walk, &record, &at) == ATP_E_MST_END, "the end stays the end");
}

/* --- trees that break a rule --- */

/* put_node() writes sections of a CAR file: copies them into the store. */
static uint8_t car[3 * 1024 * 1024];
static AtpCborWriter w;

static void
expect(const char *name, const uint8_t *root, AtpErr expected)
{
	AtpCar		reader = {.buf = car, .len = w.len};
	AtpCarBlock block;
	size_t		at;
	AtpErr		err;

	store_clear();
	store.all_there = 1;
	while (atp_car_next(&reader, &block, &at) == ATP_OK)
		put_block(&store, block.cid.ptr, block.data.ptr, block.data.len);
	err = walk_all(root, 1000);
	ok(err == expected, "%s: %s", name, atp_err_text(err));
	w.len = 0;
}

static const char *
key_of(char letter, unsigned wanted)
{
	static char made[8][16];
	static int	next;
	char	   *key = made[next++ % 8];

	for (unsigned i = 0;; i++)
	{
		sprintf(key, "%c%u", letter, i);
		if (atp_mst_height((uint8_t *) key, strlen(key), sha256, NULL) == wanted)
			return key;
	}
}

static void
broken_trees(void)
{
	const char *a0 = key_of('a', 0);
	const char *b0 = key_of('b', 0);
	const char *b1 = key_of('b', 1);
	const char *c0 = key_of('c', 0);
	const char *c2 = key_of('c', 2);
	uint8_t		child[ATP_CID_BLESSED_LEN];
	uint8_t		other[ATP_CID_BLESSED_LEN];
	uint8_t		root[ATP_CID_BLESSED_LEN];

	w = (AtpCborWriter) {.buf = car, .cap = sizeof(car)};
#define NODE(cid, left, ...) \
	do { \
		const NodeEntry list_[] = {__VA_ARGS__}; \
		put_node(&w, list_, sizeof(list_) / sizeof(list_[0]), left, cid); \
	} while (0)

	NODE(child, NULL, {0, a0, NULL});
	NODE(other, NULL, {0, c0, NULL});
	NODE(root, child, {0, b1, other});
	expect("a tree", root, ATP_E_MST_END);

	NODE(child, NULL, {0, a0, NULL});
	NODE(root, child, {0, b1, child});
	expect("V-24: the same node twice", root, ATP_E_MST_TWICE);
	NODE(child, NULL, {0, a0, NULL});
	NODE(other, NULL, {0, c0, NULL});
	NODE(root, child, {0, b1, child});
	expect("V-23: the same node twice, beside a block that nothing needs", root, ATP_E_MST_ORDER);

	NODE(root, NULL, {0, b0, NULL}, {0, a0, NULL});
	expect("V-23: order", root, ATP_E_MST_ORDER);
	NODE(child, NULL, {0, c0, NULL});
	NODE(root, child, {0, b1, NULL});
	expect("V-23: order over nodes", root, ATP_E_MST_ORDER);
	NODE(root, NULL, {0, "a0", NULL}, {0, "a1", NULL});
	expect("V-23: a prefix shorter than can be", root, ATP_E_MST_PREFIX);
	NODE(root, NULL, {0, a0, NULL}, {100, "z", NULL});
	expect("V-23: a prefix longer than the key before", root, ATP_E_MST_PREFIX);
	NODE(root, NULL, {0, b1, NULL}, {0, c0, NULL});
	expect("V-23: two heights in a node", root, ATP_E_MST_LAYER);
	NODE(child, NULL, {0, a0, NULL});
	NODE(root, child, {0, c2, NULL});
	expect("V-23: a child two layers down", root, ATP_E_MST_LAYER);
	put_node(&w, NULL, 0, NULL, child);
	NODE(root, child, {0, b1, NULL});
	expect("V-22: an empty subtree", root, ATP_E_MST_EMPTY);
	NODE(child, NULL, {0, a0, NULL});
	put_node(&w, NULL, 0, child, root);
	expect("V-22: an empty top", root, ATP_E_MST_EMPTY);
	memset(child, 7, sizeof(child));
	memcpy(child, "\x01\x71\x12\x20", 4);
	NODE(root, child, {0, b1, NULL});
	expect("R-43: a missing node", root, ATP_E_MST_MISSING);
	expect("R-43: nothing at all", root, ATP_E_MST_MISSING);
#undef NODE
}

/* A hash that gives each key the greatest height: no such key is known. */
static void
zeros(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	memset(out, 0, 32);
}

/* Chains of nodes without entries: the root must have an entry, and a tree has at most 32 levels. */
static void
deep_tree(void)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	NodeEntry	entry = {0, key_of('a', 0), NULL};

	put_node(&w, &entry, 1, NULL, cid);
	for (int i = 0; i < 40; i++)
		put_node(&w, NULL, 0, cid, cid);
	expect("V-22: 40 levels of nothing", cid, ATP_E_MST_EMPTY);

	for (unsigned levels = ATP_MST_LEVELS_MAX; levels <= ATP_MST_LEVELS_MAX + 1; levels++)
	{
		put_node(&w, &(NodeEntry) {0, "a", NULL}, 1, NULL, cid);
		for (unsigned i = 2; i < levels; i++)
			put_node(&w, NULL, 0, cid, cid);
		put_node(&w, &(NodeEntry) {0, "b", NULL}, 1, cid, cid);
		key_hash = zeros;
		expect(levels > ATP_MST_LEVELS_MAX ? "V-24: 33 levels" : "V-23: 32 levels, of which the lowest has a key of the highest", cid,
			   levels > ATP_MST_LEVELS_MAX ? ATP_E_MST_DEPTH : ATP_E_MST_LAYER);
		key_hash = sha256;
	}
}

/* V-51: large nodes, alone and together.  All keys but one have height 0. */
static void
large_nodes(void)
{
	static uint8_t big[2 * ATP_EXPORT_NODE_MAX];
	static const size_t sizes[2] = {ATP_EXPORT_NODE_MAX, ATP_EXPORT_NODE_MAX + 1};
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	/* the bytes are no node: the size is refused before the walk looks inside */
	for (int i = 0; i < 2; i++)
	{
		AtpErr		err;

		store_clear();
		block_cid(big, sizes[i], cid);
		put_block(&store, cid, big, sizes[i]);
		err = walk_all(cid, 1);
		ok(err == (i == 0 ? ATP_E_MST_NODE : ATP_E_MST_NODE_SIZE), "V-51: a node of %zu bytes: %s", sizes[i], atp_err_text(err));
	}

	/* the path's bytes, as if the upper nodes were so large */
	{
		static AtpExportWalk large;
		AtpExportSource source = {.read = read_node, .has = has_record, .ctx = &store, .blocks = 9, .max_records = 9, .sha256 = sha256};
		const char *all[KEYS];
		uint8_t		root[ATP_CID_BLESSED_LEN];
		AtpExportRecord record;
		size_t		at;
		size_t		path = 0;
		AtpErr		err;

		for (size_t i = 0; i < KEYS; i++)
			all[i] = keys[i];
		make_tree(all, KEYS, root);
		source.blocks = store.n;
		for (int more = -1; more <= 1; more++)
		{
			err = atp_export_begin(&large, &source, cid_span(root), &at);
			if (more >= 0)
				large.held[0] = ATP_EXPORT_PATH_MAX - path + more;
			if (err == ATP_OK)
				err = atp_export_next(&large, &record, &at);
			for (int i = 1; more < 0 && i < 4; i++)
				path += large.held[i];
			ok(err == (more > 0 ? ATP_E_MST_PATH_SIZE : ATP_OK), "R-46: nodes of %s 4,000,000 bytes on one path: %s",
			   more < 0 ? "less than" : more > 0 ? "more than" : "exactly", atp_err_text(err));
			let_go(&store, 0);
		}
	}
}

static void
commits(void)
{
	static Repo repo;
	static const char *const one[] = {"app.example.record/a"};
	static const char other[] = "did:plc:aaaaaaaaaaaaaaaaaaaaaaaa";
	static Index ix;
	AtpCommit	commit;
	AtpBytes	block;
	size_t		at;

	repo_make(&repo, one, 1);
	if (index_fill(&ix, repo.car, repo.len, &at) != ATP_OK)
		exit(2);
	block = atp_car_index_find(&ix.index, cid_span(repo.commit))->data;
	ok(atp_export_commit(block, (AtpSpan) {REPO_DID, strlen(REPO_DID)}, &commit, &at) == ATP_OK &&
	   commit.rev == REPO_REV && memcmp(commit.data.ptr, repo.root, sizeof(repo.root)) == 0 &&
	   commit.sig.len == ATP_COMMIT_SIG_LEN, "R-42: the commit of the account");
	ok(atp_export_commit(block, (AtpSpan) {other, strlen(other)}, &commit, &at) == ATP_E_EXPORT_DID && at < block.len,
	   "R-42: that of another");
	ok(atp_export_commit(block, (AtpSpan) {REPO_DID, strlen(REPO_DID) - 1}, &commit, &at) == ATP_E_EXPORT_DID,
	   "R-42: one whose DID begins so");
	ok(atp_export_commit((AtpBytes) {block.ptr, block.len - 1}, (AtpSpan) {other, strlen(other)}, &commit, &at) != ATP_OK,
	   "R-42: no commit");
}

int
main(void)
{
	all_trees();
	limits();
	paths();
	broken_trees();
	deep_tree();
	large_nodes();
	commits();
	store_clear();
	return done_testing();
}
