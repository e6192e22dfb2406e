/*
 * test_mst.c
 *		Merkle search trees: rules B-63 to B-65.
 */
#include "core/car.h"
#include "core/cbor_write.h"
#include "core/cid.h"
#include "core/mst.h"
#include "hex.h"
#include "repo.h"

#define KEYS_MAX	64

static AtpMstWalk walk;

/* A tree by itself, as a CAR file without a root, and an index over it. */
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

/* Build the tree of these keys, all with one value. */
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
	err = atp_mst_begin(&walk, &tree.ix.index, tree.car, root, sha256, NULL, at);
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
 * The commit proof fixtures: the trees before and after have the roots that
 * they should, and the blocks of the proof alone show each added key, and that
 * each deleted key is gone.
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
		ok(atp_mst_find(&part.index, tree.car, cid_span(tree.root), bytes_of(adds[i]),
						&found, &at) == ATP_OK && found.len == value.len &&
		   memcmp(found.ptr, value.ptr, found.len) == 0, "%s: the proof shows %s", name, adds[i]);
	for (size_t i = 0; i < ndels; i++)
		ok(atp_mst_find(&part.index, tree.car, cid_span(tree.root), bytes_of(dels[i]),
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

		ok(atp_mst_find(&tree.ix.index, tree.car, cid_span(tree.root), bytes_of(keys[i]),
						&found, &at) == ATP_OK && found.ptr != NULL, "%s is found", keys[i]);
		keys[i][0] ^= 0x40;
		ok(atp_mst_find(&tree.ix.index, tree.car, cid_span(tree.root), bytes_of(keys[i]),
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
	   "B-64: the empty repository's tree");
	ok(walk_all(cid_span(tree.root), &leaves, &at) == ATP_E_MST_END && leaves == 0,
	   "B-64: nothing in it");
}

/* --- trees that break one rule each --- */

typedef struct NodeEntry
{
	unsigned	prefix;
	const char *suffix;
	const uint8_t *subtree;		/* NULL: none */
} NodeEntry;

/* Add a node to the tree's file; returns its CID in cid. */
static void
put_node(const NodeEntry *entries, size_t n, const uint8_t *left, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	uint8_t		buf[8192];
	AtpCborWriter w = {.buf = buf, .cap = sizeof(buf)};
	uint8_t		value[ATP_CID_BLESSED_LEN];

	block_cid((const uint8_t *) "", 0, value);
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "e");
	atp_cbor_put_array(&w, n);
	for (size_t i = 0; i < n; i++)
	{
		atp_cbor_put_map(&w, 4);
		atp_cbor_put_key(&w, "k");
		atp_cbor_put_bytes(&w, (const uint8_t *) entries[i].suffix, strlen(entries[i].suffix));
		atp_cbor_put_key(&w, "p");
		atp_cbor_put_uint(&w, entries[i].prefix);
		atp_cbor_put_key(&w, "t");
		if (entries[i].subtree != NULL)
			atp_cbor_put_link(&w, entries[i].subtree, ATP_CID_BLESSED_LEN);
		else
			atp_cbor_put_null(&w);
		atp_cbor_put_key(&w, "v");
		atp_cbor_put_link(&w, value, sizeof(value));
	}
	atp_cbor_put_key(&w, "l");
	if (left != NULL)
		atp_cbor_put_link(&w, left, ATP_CID_BLESSED_LEN);
	else
		atp_cbor_put_null(&w);
	if (w.len > w.cap)
		exit(2);
	block_cid(buf, w.len, cid);
	repo_block(&tree.w, cid, buf, w.len);
}

/* The tree below root; its fault must lie inside of the file. */
static void
expect(const char *name, const uint8_t *root, AtpErr expected)
{
	size_t		leaves;
	size_t		at = 0;
	AtpErr		err;

	tree_finish();
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
		put_node(list_, sizeof(list_) / sizeof(list_[0]), left, cid); \
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
	put_node(NULL, 0, child, other);
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
	put_node(NULL, 0, NULL, child);
	NODE(root, child, {0, b1, NULL});
	expect("B-64: an empty leaf node", root, ATP_E_MST_EMPTY);

	tree_start();
	NODE(child, NULL, {0, a0, NULL});
	put_node(NULL, 0, child, root);
	expect("B-64: an empty top", root, ATP_E_MST_EMPTY);

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

/* Blocks that are not a node. */
static void
not_nodes(void)
{
	static const char *const hex[] = {
		"", "80", "a0", "a16165", "a2616580616c", "a2616580616c00", "a2616580616cf600",
		"a26165f6616cf6", "a2616581a0616cf6", "a261659bffffffffffffffff616cf6",
		"a2616581a4616b00617000", "a2616581a4616b4161617020", "a3616580616600616cf6"
	};

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
		ok(atp_mst_find(&tree.ix.index, tree.car, cid_span(cid), bytes_of("k"), &found, &at) == err,
		   "B-63: nor in a lookup");
		free((void *) b.ptr);
	}
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
	each_line(VECTORS "derived/mst_heights.tsv", height, NULL);
	each_line(VECTORS "derived/commit_proofs.tsv", proof, NULL);
	example_keys();
	empty_tree();
	broken_trees();
	not_nodes();
	room();
	return done_testing();
}
