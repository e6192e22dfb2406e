/*
 * test_mst.c
 *		Merkle search trees: rules B-63 to B-65.
 */
#include "core/repo/car.h"
#include "core/codec/cbor_write.h"
#include "core/codec/cid.h"
#include "core/repo/mst.h"
#include "protocol/mst_build.h"
#include "hex.h"
#include "repo.h"

#define KEYS_MAX	64

static AtpMstWalk walk;

/* A single tree, as a CAR file without a root, and an index of its blocks. */
typedef struct Tree
{
	uint8_t		car[REPO_ROOM];
	AtpCborWriter w;
	uint8_t		root[ATP_CID_BLESSED_LEN];
	Index		ix;
} Tree;

static Tree tree;

static void
tree_start(void)
{
	tree.w = (AtpCborWriter) {.buf = tree.car, .cap = sizeof(tree.car)};
	atp_car_put_header(&tree.w, (AtpBytes) {NULL, 0});
}

static void
tree_finish(void)
{
	size_t		at;

	if (index_fill(&tree.ix, tree.car, tree.w.len, &at) != ATP_OK)
		exit(2);
}

static int
compare_strings(const void *a, const void *b)
{
	return strcmp(*(char *const *) a, *(char *const *) b);
}

/* Builds the tree of these keys, each with this value. */
static void
tree_build(char **keys, size_t n, AtpBytes value)
{
	static uint8_t scratch[REPO_ROOM];
	AtpMstItem	items[KEYS_MAX];

	qsort(keys, n, sizeof(keys[0]), compare_strings);
	for (size_t i = 0; i < n; i++)
		items[i] = (AtpMstItem) {.key = bytes_of(keys[i]), .value = value};
	tree_start();
	if (atp_mst_build(items, n, sha256, NULL, scratch, sizeof(scratch),
					  repo_block, &tree.w, tree.root) != ATP_OK)
		exit(2);
	tree_finish();
}

/* Walk to the end or a fault; counts the leaves. */
static AtpErr
walk_all(AtpBytes root, size_t *leaves, size_t *at)
{
	AtpMstLeaf	leaf;
	AtpErr		err;

	*leaves = 0;
	err = atp_mst_begin(&walk, &(AtpMstTree) {&tree.ix.index, tree.car, root, sha256, NULL}, at);
	while (err == ATP_OK)
	{
		err = atp_mst_next(&walk, &leaf, at);
		*leaves += err == ATP_OK;
	}
	return err;
}

static void
height(char *line, size_t n, void *arg)
{
	char	   *expected = field(&line);
	char	   *key = field(&line);

	if (strcmp(expected, "height") == 0)
		return;
	ok(atp_mst_height((uint8_t *) key, strlen(key), sha256, NULL) == (unsigned) atoi(expected),
	   "B-63: height of \"%s\" is %s", key, expected);
}

/* A line of our vectors: {"key": "...", "layer": 0} */
static void
vector_layer(char *line, size_t n, void *arg)
{
	char		key[100];
	unsigned	layer;

	if (sscanf(line, "{\"key\": \"%99[^\"]\", \"layer\": %u}", key, &layer) != 2)
		return;
	ok(atp_mst_height((uint8_t *) key, strlen(key), sha256, NULL) == layer, "B-63: the layer of \"%s\" is %u", key, layer);
	(*(int *) arg)++;
}

static size_t
split(char *list, char **out)
{
	size_t		n = 0;

	for (char *s = strtok(list, " "); s != NULL; s = strtok(NULL, " "))
		out[n++] = s;
	return n;
}

static bool
root_is(const char *cid)
{
	char		text[ATP_CID_TEXT_MAX];
	size_t		n = atp_cid_format(tree.root, sizeof(tree.root), text);

	return n == strlen(cid) && memcmp(text, cid, n) == 0;
}

/*
 * The commit proof fixtures: the trees before and after have the expected roots, and the blocks of the proof
 * alone show each added key, and the absence of each deleted key.
 */
static void
proof(char *line, size_t n, void *arg)
{
	char	   *name = field(&line);
	char	   *value_text = field(&line);
	char	   *before = field(&line);
	char	   *after = field(&line);
	char	   *keys_text = field(&line);
	char	   *adds_text = field(&line);
	char	   *dels_text = field(&line);
	char	   *proof_text = field(&line);
	char	   *keys[KEYS_MAX];
	char	   *adds[KEYS_MAX];
	char	   *dels[KEYS_MAX];
	char	   *blocks[KEYS_MAX];
	uint8_t		value_buf[ATP_CID_MAX];
	AtpBytes	value = {value_buf, 0};
	AtpBytes	found;
	static Index part;
	size_t		nkeys;
	size_t		nadds;
	size_t		ndels;
	size_t		nblocks;
	size_t		leaves;
	size_t		at;

	if (strcmp(name, "name") == 0)
		return;
	if (atp_cid_parse(value_text, strlen(value_text), value_buf, &value.len, &at) != ATP_OK)
		exit(2);
	nkeys = split(keys_text, keys);
	nadds = split(adds_text, adds);
	ndels = split(dels_text, dels);
	nblocks = split(proof_text, blocks);

	tree_build(keys, nkeys, value);
	ok(root_is(before), "B-63: %s: root before", name);
	ok(walk_all(cid_span(tree.root), &leaves, &at) == ATP_E_MST_END && leaves == nkeys,
	   "B-63: %s: %zu keys come back", name, leaves);
	for (size_t i = 0; i < ndels; i++)
	{
		for (size_t k = 0; k < nkeys; k++)
		{
			if (strcmp(keys[k], dels[i]) == 0)
				keys[k] = keys[--nkeys];
		}
	}
	for (size_t i = 0; i < nadds; i++)
		keys[nkeys++] = adds[i];
	tree_build(keys, nkeys, value);
	ok(root_is(after), "B-63: %s: root after", name);

	index_clear(&part);
	for (size_t i = 0; i < nblocks; i++)
	{
		uint8_t		cid[ATP_CID_MAX];
		size_t		len;
		const AtpCarBlock *block;

		if (atp_cid_parse(blocks[i], strlen(blocks[i]), cid, &len, &at) != ATP_OK)
			exit(2);
		block = atp_car_index_find(&tree.ix.index, (AtpBytes) {cid, len});
		ok(block != NULL && atp_car_index_add(&part.index, block),
		   "B-63: %s: the tree has block %zu of the proof", name, i);
	}
	for (size_t i = 0; i < nadds; i++)
		ok(mst_find(&part.index, tree.car, cid_span(tree.root), bytes_of(adds[i]),
						&found, &at) == ATP_OK && found.len == value.len &&
		   memcmp(found.ptr, value.ptr, found.len) == 0, "%s: the proof shows %s", name, adds[i]);
	for (size_t i = 0; i < ndels; i++)
		ok(mst_find(&part.index, tree.car, cid_span(tree.root), bytes_of(dels[i]),
						&found, &at) == ATP_OK && found.ptr == NULL,
		   "%s: the proof shows that %s is gone", name, dels[i]);
}

/* The published list of keys, which is made to give a tree of many layers. */
static void
example_keys(void)
{
	FILE	   *f = fopen(VECTORS "interop/mst/example_keys.txt", "r");
	static char lines[KEYS_MAX * 4][64];
	char	   *keys[KEYS_MAX];
	size_t		n = 0;
	size_t		leaves;
	size_t		at;
	uint8_t		value[ATP_CID_BLESSED_LEN];

	ok(f != NULL, "example_keys.txt is there");
	while (f != NULL && n < KEYS_MAX && fgets(lines[n], sizeof(lines[n]), f) != NULL)
	{
		lines[n][strcspn(lines[n], "\n")] = '\0';
		if (lines[n][0] != '\0')
		{
			keys[n] = lines[n];
			n++;
		}
	}
	if (f != NULL)
		fclose(f);
	block_cid((const uint8_t *) "", 0, value);
	tree_build(keys, n, cid_span(value));
	ok(walk_all(cid_span(tree.root), &leaves, &at) == ATP_E_MST_END && leaves == n && n > 40,
	   "B-63: all %zu example keys come back", n);
	for (size_t i = 0; i < n; i++)
	{
		AtpBytes	found;

		ok(mst_find(&tree.ix.index, tree.car, cid_span(tree.root), bytes_of(keys[i]),
						&found, &at) == ATP_OK && found.ptr != NULL, "%s is found", keys[i]);
		keys[i][0] ^= 0x40;
		ok(mst_find(&tree.ix.index, tree.car, cid_span(tree.root), bytes_of(keys[i]),
						&found, &at) == ATP_OK && found.ptr == NULL, "another is not");
	}
}

static void
empty_tree(void)
{
	char	   *none[1];
	size_t		leaves;
	size_t		at;

	tree_build(none, 0, (AtpBytes) {NULL, 0});
	ok(root_is("bafyreie5737gdxlw5i64vzichcalba3z2v5n6icifvx5xytvske7mr3hpm"),
	   "B-64, V-21: the empty repository's tree");
	ok(walk_all(cid_span(tree.root), &leaves, &at) == ATP_E_MST_END && leaves == 0,
	   "B-64: nothing in it");
}

/* --- trees with a single broken rule --- */

/*
 * Walks the tree below root; the walk must report the fault at a place inside the file.  A lookup reports the
 * same fault, except that a lookup may work without a missing node (V-23).
 */
static void
expect(const char *name, const uint8_t *root, AtpErr expected)
{
	const AtpErr in_lookup = expected == ATP_E_MST_END || expected == ATP_E_MST_MISSING ? ATP_OK : expected;
	size_t		leaves;
	size_t		at = 0;
	AtpErr		err;

	tree_finish();
	err = atp_mst_lookup(&walk, &(AtpMstTree) {&tree.ix.index, tree.car, cid_span(root), sha256, NULL}, NULL, 0, NULL, &at);
	ok(err == in_lookup && at <= tree.w.len, "%s: in a lookup: %s", name, atp_err_text(err));
	err = walk_all((AtpBytes) {root, ATP_CID_BLESSED_LEN}, &leaves, &at);
	ok(err == expected && (err == ATP_E_MST_MISSING || at <= tree.w.len), "%s: %s", name,
	   atp_err_text(err));
}

/* A key of this height: digits after a letter. */
static const char *
key_of(char letter, unsigned wanted)
{
	static char keys[8][16];
	static int	next;
	char	   *key = keys[next++ % 8];

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
	char		long_key[1100];
	uint8_t		child[ATP_CID_BLESSED_LEN];
	uint8_t		other[ATP_CID_BLESSED_LEN];
	uint8_t		root[ATP_CID_BLESSED_LEN];

#define NODE(cid, left, ...) \
	do { \
		const NodeEntry list_[] = {__VA_ARGS__}; \
		put_node(&tree.w, list_, sizeof(list_) / sizeof(list_[0]), left, cid); \
	} while (0)

	tree_start();
	NODE(root, NULL, {0, a0, NULL}, {0, b0, NULL});
	expect("two keys", root, ATP_E_MST_END);

	tree_start();
	NODE(child, NULL, {0, a0, NULL});
	NODE(other, NULL, {0, c0, NULL});
	NODE(root, child, {0, b1, other});
	expect("keys left and right", root, ATP_E_MST_END);

	tree_start();
	NODE(child, NULL, {0, a0, NULL});
	put_node(&tree.w, NULL, 0, child, other);
	NODE(root, other, {0, c2, NULL});
	expect("B-64: a node without entries between", root, ATP_E_MST_END);

	tree_start();
	NODE(root, NULL, {0, b0, NULL}, {0, a0, NULL});
	expect("B-63: order in a node", root, ATP_E_MST_ORDER);

	tree_start();
	NODE(root, NULL, {0, b0, NULL}, {(unsigned) strlen(b0), "", NULL});
	expect("B-63: a key twice", root, ATP_E_MST_ORDER);

	tree_start();
	NODE(root, NULL, {0, "", NULL});
	expect("B-65: an empty key", root, ATP_E_MST_ORDER);

	tree_start();
	NODE(child, NULL, {0, c0, NULL});
	NODE(root, child, {0, b1, NULL});
	expect("B-63: a left subtree that is not before", root, ATP_E_MST_ORDER);

	tree_start();
	NODE(child, NULL, {0, a0, NULL});
	NODE(root, NULL, {0, b1, child});
	expect("B-63: a right subtree that is not after", root, ATP_E_MST_ORDER);

	tree_start();
	NODE(root, NULL, {1, a0, NULL});
	expect("B-63: a prefix of nothing", root, ATP_E_MST_PREFIX);

	tree_start();
	NODE(root, NULL, {0, "a0", NULL}, {0, "a1", NULL});
	expect("B-63: a prefix shorter than can be", root, ATP_E_MST_PREFIX);

	tree_start();
	NODE(root, NULL, {0, a0, NULL}, {100, "z", NULL});
	expect("B-63: a prefix longer than the key before", root, ATP_E_MST_PREFIX);

	tree_start();
	NODE(root, NULL, {0, b1, NULL}, {0, c0, NULL});
	expect("B-64: keys of two heights in a node", root, ATP_E_MST_LAYER);

	tree_start();
	NODE(child, NULL, {0, a0, NULL});
	NODE(root, child, {0, c2, NULL});
	expect("B-64: a child two layers down", root, ATP_E_MST_LAYER);

	tree_start();
	NODE(child, NULL, {0, a0, NULL});
	NODE(root, child, {0, b0, NULL});
	expect("B-64: a child below layer 0", root, ATP_E_MST_LAYER);

	tree_start();
	put_node(&tree.w, NULL, 0, NULL, child);
	NODE(root, child, {0, b1, NULL});
	expect("B-64: an empty leaf node", root, ATP_E_MST_EMPTY);

	tree_start();
	NODE(child, NULL, {0, a0, NULL});
	put_node(&tree.w, NULL, 0, child, root);
	expect("B-64: an empty top", root, ATP_E_MST_EMPTY);

	tree_start();
	put_node(&tree.w, NULL, 0, NULL, child);
	put_node(&tree.w, NULL, 0, child, other);
	NODE(root, other, {0, c2, NULL});
	expect("V-22: an empty node below one without entries", root, ATP_E_MST_EMPTY);

	tree_start();
	memset(child, 7, sizeof(child));
	memcpy(child, "\x01\x71\x12\x20", 4);
	NODE(root, child, {0, b1, NULL});
	expect("a missing node", root, ATP_E_MST_MISSING);
	expect("a missing root", child, ATP_E_MST_MISSING);

	tree_start();
	child[1] = ATP_CID_CODEC_RAW;
	NODE(root, child, {0, b1, NULL});
	expect("B-42: a link to raw bytes", root, ATP_E_MST_NODE);

	tree_start();
	memset(long_key, 'k', sizeof(long_key));
	long_key[1025] = '\0';
	NODE(root, NULL, {0, long_key, NULL});
	expect("B-65: a key of 1,025 bytes", root, ATP_E_MST_KEY_LONG);
#undef NODE
}

/* Blocks that are no node. */
static void
not_nodes(void)
{
	/* an entry's subtree and value, and the node's left subtree */
#define REST	"6174f66176d82a58250001711220" "0000000000000000000000000000000000000000000000000000000000000000" "616cf6"
	static const char *const hex[] = {
		"", "80", "a0", "a16165", "a2616580616c", "a2616580616c00", "a2616580616cf600",
		"a26165f6616cf6", "a2616581a0616cf6", "a261659bffffffffffffffff616cf6",
		"a2616581a4616b00617000", "a2616581a4616b4161617020", "a3616580616600616cf6",
		/* non-canonical (too long) heads: of k, of p */
		"a2616581a4616b580161617000" REST, "a2616581a4616b416161701800" REST
	};
#undef REST

	for (size_t i = 0; i < sizeof(hex) / sizeof(hex[0]); i++)
	{
		AtpBytes	b = unhex(hex[i]);
		uint8_t		cid[ATP_CID_BLESSED_LEN];
		AtpBytes	found;
		size_t		leaves;
		size_t		at = 0;
		AtpErr		err;

		block_cid(b.ptr, b.len, cid);
		tree_start();
		repo_block(&tree.w, cid, b.ptr, b.len);
		tree_finish();
		err = walk_all(cid_span(cid), &leaves, &at);
		ok(err != ATP_OK && err != ATP_E_MST_END && at <= tree.w.len,
		   "B-63: %s is no node: %s", hex[i], atp_err_text(err));
		ok(mst_find(&tree.ix.index, tree.car, cid_span(cid), bytes_of("k"), &found, &at) == err,
		   "B-63: nor in a lookup");
		free((void *) b.ptr);
	}
}

/* B-42: a record's CID may have any codec and hash; here raw bytes, and a hash of one byte. */
static void
other_records(void)
{
	static const char *const values[] = {"d82a58250001551220" "0000000000000000000000000000000000000000000000000000000000000000", "d82a4600015500" "0100"};

	for (size_t i = 0; i < 2; i++)
	{
		char		hex[200];
		AtpBytes	b;
		uint8_t		cid[ATP_CID_BLESSED_LEN];
		size_t		leaves;
		size_t		at = 0;
		AtpErr		err;

		snprintf(hex, sizeof(hex), "a2616581a4616b4161617000" "6174f66176%s" "616cf6", values[i]);
		b = unhex(hex);
		block_cid(b.ptr, b.len, cid);
		tree_start();
		repo_block(&tree.w, cid, b.ptr, b.len);
		tree_finish();
		err = walk_all(cid_span(cid), &leaves, &at);
		ok(err == ATP_E_MST_END && leaves == 1, "B-42: a record under %s: %s", values[i], atp_err_text(err));
		free((void *) b.ptr);
	}
}

/* --- work --- */

#define MANY	3000

static size_t hashes;

static void
counted_sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	hashes++;
	sha256(ctx, data, len, out);
}

/* However many keys are looked up, a node is read once, and its keys are hashed once. */
static void
one_large_node(void)
{
	static char names[MANY][16];
	static NodeEntry entries[MANY];
	AtpMstLookup list[200];
	size_t		n = 0;
	size_t		found = 0;
	size_t		at;
	AtpErr		err;
	uint8_t		root[ATP_CID_BLESSED_LEN];

	for (unsigned i = 0; n < MANY; i++)
	{
		unsigned	shared = 0;

		sprintf(names[n], "k%06u", i);
		if (atp_mst_height((uint8_t *) names[n], 7, sha256, NULL) != 0)
			continue;
		while (n > 0 && names[n][shared] == names[n - 1][shared])
			shared++;
		entries[n] = (NodeEntry) {shared, names[n] + shared, NULL};
		n++;
	}
	tree_start();
	put_node(&tree.w, entries, n, NULL, root);
	tree_finish();
	for (size_t i = 0; i < 200; i++)
		list[i].key = bytes_of(names[i * (MANY / 200)]);
	hashes = 0;
	err = atp_mst_lookup(&walk, &(AtpMstTree) {&tree.ix.index, tree.car, cid_span(root), counted_sha256, NULL}, list, 200, NULL, &at);
	for (size_t i = 0; i < 200; i++)
		found += list[i].value.ptr != NULL && !list[i].unknown;
	ok(err == ATP_OK && found == 200, "%zu of 200 keys are in a node of %d", found, MANY);
	ok(walk.visits == 1, "V-24: which was read %llu times", (unsigned long long) walk.visits);
	ok(hashes <= MANY + 1, "and %zu keys hashed", hashes);
}

/* Many links to one node do not make a walk longer than the file. */
static void
many_links(void)
{
	static char names[MANY][16];
	static NodeEntry entries[MANY];
	size_t		n = 0;
	size_t		at;
	unsigned	layer = 7;
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint8_t		next[ATP_CID_BLESSED_LEN];
	AtpErr		err;

	/* nodes without entries, in a chain of which the lowest node is missing */
	tree_start();
	memset(cid, 7, sizeof(cid));
	memcpy(cid, "\x01\x71\x12\x20", 4);
	for (unsigned i = 1; i < layer; i++)
	{
		put_node(&tree.w, NULL, 0, cid, next);
		memcpy(cid, next, sizeof(cid));
	}
	for (unsigned i = 0; n < 20; i++)
	{
		sprintf(names[n], "%c%07u", (char) ('a' + n), i);
		if (atp_mst_height((uint8_t *) names[n], 8, sha256, NULL) != layer)
			continue;
		entries[n] = (NodeEntry) {0, names[n], cid};
		n++;
	}
	put_node(&tree.w, entries, n, NULL, next);
	tree_finish();
	err = atp_mst_lookup(&walk, &(AtpMstTree) {&tree.ix.index, tree.car, cid_span(next), sha256, NULL}, NULL, 0, NULL, &at);
	ok(err == ATP_E_MST_TWICE, "V-24: a node that is linked 20 times: %s", atp_err_text(err));
	ok(walk.visits <= tree.ix.index.n + 1, "V-24: after %llu reads of %zu nodes", (unsigned long long) walk.visits, tree.ix.index.n);
}

/*
 * Keys with common beginnings, some of which are in the tree: each lookup must assemble the right key,
 * whatever an earlier walk left in memory.
 */
static void
keys_that_begin_alike(void)
{
	static char *const names[] = {"a.b.c/k", "a.b.c/kk", "a.b.c/kkk", "a.b.c/kkkk", "a.b.c/l"};
	const unsigned n = sizeof(names) / sizeof(names[0]);
	uint8_t		value[ATP_CID_BLESSED_LEN];
	unsigned	right = 0;

	block_cid((const uint8_t *) "", 0, value);
	for (unsigned there = 0; there < 1u << n; there++)
	{
		char	   *keys[KEYS_MAX];
		AtpMstLookup list[KEYS_MAX];
		size_t		nkeys = 0;
		size_t		at;
		bool		as_built;

		for (unsigned i = 0; i < n; i++)
		{
			list[i].key = bytes_of(names[i]);
			if (there >> i & 1)
				keys[nkeys++] = names[i];
		}
		tree_build(keys, nkeys, cid_span(value));
		memset(&walk, 0xa5, sizeof(walk));
		as_built = atp_mst_lookup(&walk, &(AtpMstTree) {&tree.ix.index, tree.car, cid_span(tree.root), sha256, NULL}, list, n, NULL, &at) == ATP_OK;
		for (unsigned i = 0; i < n; i++)
			as_built = as_built && !list[i].unknown && (list[i].value.ptr != NULL) == (there >> i & 1);
		right += as_built;
	}
	ok(right == 1u << n, "B-63: keys that begin alike: %u of %u trees have what they were built of", right, 1u << n);
}

/* Too little scratch is noticed, whatever the amount. */
static void
room(void)
{
	char	   *paths[] = {"a1", "b2", "c3", "d4", "e5", "f6"};
	AtpMstItem	items[6];
	uint8_t		value[ATP_CID_BLESSED_LEN];
	uint8_t		root[ATP_CID_BLESSED_LEN];
	AtpErr		err = ATP_E_MST_ROOM;
	size_t		n = 0;

	block_cid((const uint8_t *) "", 0, value);
	for (size_t i = 0; i < 6; i++)
		items[i] = (AtpMstItem) {.key = bytes_of(paths[i]), .value = cid_span(value)};
	while (err == ATP_E_MST_ROOM)
	{
		uint8_t    *scratch = malloc(n);

		tree_start();
		err = atp_mst_build(items, 6, sha256, NULL, scratch, n++, repo_block, &tree.w, root);
		free(scratch);
	}
	ok(err == ATP_OK && n > 300, "a tree is built in %zu bytes and not in fewer", n - 1);
}

int
main(void)
{
	int			layers = 0;

	each_line(VECTORS "drafts/mst_layer.json", vector_layer, &layers);
	ok(layers == 44, "44 vectors of layers");
	each_line(VECTORS "derived/mst_heights.tsv", height, NULL);
	each_line(VECTORS "derived/commit_proofs.tsv", proof, NULL);
	example_keys();
	empty_tree();
	broken_trees();
	not_nodes();
	other_records();
	one_large_node();
	many_links();
	keys_that_begin_alike();
	room();
	return done_testing();
}
