/*
 * fuzz_sparse_walk.c
 *		Some collections of a repository, with a part of the tree's nodes: the proof ends only if the records are
 *		those of the whole tree, and the nodes that a fetch is told to get are those that the proof needs.  With
 *		damaged nodes, the proof ends only where P-12, written down here once more with intervals and heights
 *		handed from node to node, holds; and wherever a walk over the whole tree has no fault.
 *
 * Input: which ranges (a byte); repeated (length, key), 0; then repeated (node, offset low, offset high, change): a
 * byte of the node is changed, or the node left out where the change is 0.  No node is hashed, because an
 * attacker could write the CID of a damaged node into its parents.
 */
#include <stdlib.h>

#include "agree.h"
#include "core/codec/dagcbor.h"
#include "core/repo/sparse_walk.h"
#include "protocol/mst_build.h"
#include "tree_keys.h"

#define KEYS_MAX	64
#define NODES_MAX	512
#define ROOM		(64 * 1024)
#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t nnodes;
static size_t node_len[NODES_MAX];
static uint8_t *node_data[NODES_MAX];
static uint8_t node_cid[NODES_MAX][ATP_CID_BLESSED_LEN];
static bool node_absent[NODES_MAX];
static uint8_t *level_copy[ATP_MST_LEVELS_MAX];

/* The records of a walk. */
typedef struct Found
{
	size_t		n;
	size_t		len[2 * KEYS_MAX];
	uint8_t		key[2 * KEYS_MAX][ATP_MST_KEY_MAX];
} Found;

static void
keep_node(void *ctx, const uint8_t *cid, const uint8_t *block, size_t n)
{
	CHECK(nnodes < NODES_MAX);
	memcpy(node_cid[nnodes], cid, ATP_CID_BLESSED_LEN);
	node_data[nnodes] = malloc(n);
	memcpy(node_data[nnodes], block, n);
	node_absent[nnodes] = false;
	node_len[nnodes++] = n;
}

static void
let_go(unsigned level)
{
	for (; level < ATP_MST_LEVELS_MAX; level++)
	{
		free(level_copy[level]);
		level_copy[level] = NULL;
	}
}

static bool
read_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	for (size_t i = 0; i < nnodes; i++)
	{
		if (node_absent[i] || memcmp(node_cid[i], cid.ptr, ATP_CID_BLESSED_LEN) != 0)
			continue;
		let_go(level);
		level_copy[level] = malloc(node_len[i]);
		memcpy(level_copy[level], node_data[i], node_len[i]);
		*node = (AtpBytes) {level_copy[level], node_len[i]};
		return true;
	}
	return false;
}

static AtpErr
walk_all(const AtpExportSource *source, const uint8_t *root, Found *found)
{
	static AtpExportWalk walk;
	AtpExportRecord record;
	size_t		at;
	AtpErr		err = atp_export_begin(&walk, source, (AtpBytes) {root, ATP_CID_BLESSED_LEN}, &at);

	for (found->n = 0; err == ATP_OK && (err = atp_export_next(&walk, &record, &at)) == ATP_OK; found->n++)
	{
		memcpy(found->key[found->n], record.path.ptr, record.path.len);
		found->len[found->n] = record.path.len;
	}
	let_go(0);
	return err;
}

static bool
is_in_ranges(const AtpExportSource *source, AtpBytes key)
{
	for (size_t i = 0; i < source->nranges; i++)
	{
		if (atp_key_compare(key, source->ranges[i].first) >= 0 && atp_key_compare(key, source->ranges[i].end) < 0)
			return true;
	}
	return false;
}

/* Are the records those of the whole tree that are in the ranges? */
static void
compare_found(const AtpExportSource *source, const Found *some, const Found *all)
{
	size_t		n = 0;

	for (size_t i = 0; i < all->n; i++)
	{
		AtpBytes	key = {all->key[i], all->len[i]};

		if (!is_in_ranges(source, key))
			continue;
		CHECK(n < some->n && some->len[n] == key.len && memcmp(some->key[n], key.ptr, key.len) == 0);
		n++;
	}
	CHECK(n == some->n);
}

/* --- P-12 and P-13 once more --- */

typedef struct Entry
{
	AtpBytes	key;
	AtpBytes	subtree;		/* ptr NULL: none */
} Entry;

typedef struct Node
{
	size_t		n;
	Entry		entries[2 * KEYS_MAX];
	AtpBytes	left;
} Node;

/* The interval of a node, exclusive; hi.ptr NULL: no end. */
typedef struct Interval
{
	AtpBytes	lo;
	AtpBytes	hi;
} Interval;

static bool
read_item(AtpCborReader *r, AtpCborKind kind, AtpCborItem *item)
{
	size_t		at;

	return atp_cbor_item(r, item, &at) == ATP_OK && item->kind == kind;
}

static bool
read_name(AtpCborReader *r, char name)
{
	AtpCborItem item;

	return read_item(r, ATP_CBOR_TEXT, &item) && item.str.len == 1 && item.str.ptr[0] == (uint8_t) name;
}

static bool
read_link(AtpCborReader *r, AtpBytes *cid)
{
	AtpCborItem item;
	size_t		at;

	*cid = (AtpBytes) {NULL, 0};
	if (atp_cbor_item(r, &item, &at) != ATP_OK)
		return false;
	if (item.kind == ATP_CBOR_LINK)
		*cid = item.str;
	return item.kind == ATP_CBOR_LINK || item.kind == ATP_CBOR_NULL;
}

/* The keys are in memory that the caller frees. */
static bool
read_entries(AtpBytes block, Node *node, uint8_t *keys)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpBytes	value;
	AtpBytes	key = {keys, 0};
	uint64_t	n;

	atp_cbor_init(&r, block.ptr, block.len, ATP_CBOR_DEPTH_DEFAULT);
	if (!read_item(&r, ATP_CBOR_MAP, &item) || item.u != 2 || !read_name(&r, 'e') || !read_item(&r, ATP_CBOR_ARRAY, &item))
		return false;
	n = item.u;
	for (node->n = 0; node->n < n; node->n++)
	{
		Entry	   *entry = &node->entries[node->n];
		uint8_t    *p = keys + ATP_MST_KEY_MAX * node->n;
		AtpBytes	suffix;

		if (node->n == 2 * KEYS_MAX || !read_item(&r, ATP_CBOR_MAP, &item) || item.u != 4 || !read_name(&r, 'k') || !read_item(&r, ATP_CBOR_BYTES, &item))
			return false;
		suffix = item.str;
		if (!read_name(&r, 'p') || !read_item(&r, ATP_CBOR_UINT, &item) || item.u > key.len || item.u + suffix.len > ATP_MST_KEY_MAX)
			return false;
		memmove(p, key.ptr, (size_t) item.u);
		memcpy(p + item.u, suffix.ptr, suffix.len);
		entry->key = key = (AtpBytes) {p, (size_t) item.u + suffix.len};
		if (!read_name(&r, 't') || !read_link(&r, &entry->subtree) || !read_name(&r, 'v') || !read_link(&r, &value) || value.ptr == NULL)
			return false;
	}
	return read_name(&r, 'l') && read_link(&r, &node->left) && r.pos == block.len;
}

static bool
meets_ranges(const AtpExportSource *source, Interval in)
{
	for (size_t i = 0; i < source->nranges; i++)
	{
		if (atp_key_compare(in.lo, source->ranges[i].end) < 0 && (in.hi.ptr == NULL || atp_key_compare(in.hi, source->ranges[i].first) > 0))
			return true;
	}
	return false;
}

static bool search_node(const AtpExportSource *source, AtpBytes cid, Interval in, int height, Found *found);

static bool
search_link(const AtpExportSource *source, AtpBytes cid, Interval in, int height, Found *found)
{
	if (cid.ptr == NULL)
		return true;
	return height > 0 && (!meets_ranges(source, in) || search_node(source, cid, in, height - 1, found));
}

/* Finds the records of the ranges; false: something on the way to one is wrong or absent.  height -1: the root. */
static bool
search_node(const AtpExportSource *source, AtpBytes cid, Interval in, int height, Found *found)
{
	Node	   *node = malloc(sizeof(Node));
	uint8_t    *keys = malloc(ATP_MST_KEY_MAX * 2 * KEYS_MAX);
	size_t		i = 0;
	bool		root = height < 0;
	bool		good;

	while (i < nnodes && (node_absent[i] || cid.len != ATP_CID_BLESSED_LEN || memcmp(node_cid[i], cid.ptr, cid.len) != 0))
		i++;
	good = i < nnodes && read_entries((AtpBytes) {node_data[i], node_len[i]}, node, keys) && (node->n > 0 || (node->left.ptr == NULL) == root);
	if (good && root)
		height = node->n == 0 ? 0 : (int) atp_mst_height(node->entries[0].key.ptr, node->entries[0].key.len, sha256, NULL);
	good = good && search_link(source, node->left, (Interval) {in.lo, node->n > 0 ? node->entries[0].key : in.hi}, height, found);
	for (i = 0; good && i < node->n; i++)
	{
		AtpBytes	key = node->entries[i].key;
		AtpBytes	before = i > 0 ? node->entries[i - 1].key : in.lo;
		AtpBytes	next = i + 1 < node->n ? node->entries[i + 1].key : in.hi;

		good = atp_mst_compare(before, key) < 0 && (in.hi.ptr == NULL || atp_mst_compare(key, in.hi) < 0) &&
			(int) atp_mst_height(key.ptr, key.len, sha256, NULL) == height;
		if (good && is_in_ranges(source, key))
		{
			CHECK(found->n < 2 * KEYS_MAX);
			memcpy(found->key[found->n], key.ptr, key.len);
			found->len[found->n++] = key.len;
		}
		good = good && search_link(source, node->entries[i].subtree, (Interval) {key, next}, height, found);
	}
	free(keys);
	free(node);
	return good;
}

/* A walk has ended: its records must be those that searches in the tree find. */
static void
check_found(const AtpExportSource *source, const uint8_t *root, const Found *some)
{
	static Found searched;

	searched.n = 0;
	CHECK(search_node(source, (AtpBytes) {root, ATP_CID_BLESSED_LEN}, (Interval) {{root, 0}, {NULL, 0}}, -1, &searched));
	compare_found(source, some, &searched);
}

/* One round of a fetch; the nodes that it asks for are there afterwards, if they were not changed. */
static AtpErr
fetch_level(const AtpExportSource *source, const uint8_t *root, size_t *fetched)
{
	static AtpSparseWalk sparse;
	AtpBytes	cid;
	size_t		at;
	bool		named[NODES_MAX] = {false};
	AtpErr		err = atp_sparse_begin(&sparse, source, (AtpBytes) {root, ATP_CID_BLESSED_LEN}, &at);

	while (err == ATP_OK && (err = atp_sparse_next(&sparse, &cid, &at)) == ATP_OK)
	{
		for (size_t i = 0; i < nnodes; i++)
			named[i] = named[i] || memcmp(node_cid[i], cid.ptr, ATP_CID_BLESSED_LEN) == 0;
	}
	let_go(0);
	*fetched = 0;
	for (size_t i = 0; i < nnodes; i++)
	{
		*fetched += named[i] && node_absent[i];
		node_absent[i] = node_absent[i] && !named[i];
	}
	return err;
}

/* Ranges of keys that inputs have: by their first bytes, next to each other or not. */
static size_t
make_ranges(uint8_t choice, AtpKeyRange ranges[4])
{
	static const char *const ends[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
	size_t		n = 0;

	for (unsigned i = 0; i < 4; i++)
	{
		AtpSpan		text = {ends[2 * i], 1};

		/* keys from "a/" on, up to "a0", or up to the next letter */
		if (choice >> i & 1)
			ranges[n++] = (AtpKeyRange) {{text, '/'}, choice >> (i + 4) & 1 ? (AtpKeyBound) {{ends[2 * i + 1], 0}, (uint8_t) ends[2 * i + 1][0]} : (AtpKeyBound) {text, '0'}};
	}
	return atp_key_ranges_join(ranges, n);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t scratch[ROOM];
	static Found all;
	static Found some;
	AtpMstItem	items[KEYS_MAX];
	AtpKeyRange ranges[4];
	AtpExportSource whole = {.read = read_node, .max_records = 2 * KEYS_MAX, .sha256 = sha256};
	AtpExportSource part;
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		value[ATP_CID_BLESSED_LEN];
	size_t		unique;
	size_t		pos = 1;
	size_t		rounds = 0;
	size_t		fetched;
	bool		absent = false;
	bool		changed = false;
	AtpErr		err;

	if (size == 0)
		return 0;
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, data, 0, sha256, NULL, value);
	unique = unique_items(items, take_items(data, size, &pos, (AtpBytes) {value, sizeof(value)}, items, KEYS_MAX));
	nnodes = 0;
	CHECK(atp_mst_build(items, unique, sha256, NULL, scratch, sizeof(scratch), keep_node, NULL, root) == ATP_OK);
	whole.blocks = nnodes;
	part = whole;
	part.ranges = ranges;
	part.nranges = make_ranges(data[0], ranges);

	/* the tree as it is */
	CHECK(walk_all(&whole, root, &all) == ATP_E_MST_END && all.n == unique);
	CHECK(walk_all(&part, root, &some) == ATP_E_MST_END);
	compare_found(&part, &some, &all);
	check_found(&part, root, &some);

	/* a part of it: never whole unless it agrees, and whole after as many rounds as levels */
	for (size_t i = pos; size - i >= 4; i += 4)
	{
		size_t		node = data[i] % nnodes;

		node_absent[node] = node_absent[node] || data[i + 3] == 0;
		absent = absent || data[i + 3] == 0;
	}
	err = walk_all(&part, root, &some);
	CHECK(err == ATP_E_MST_END || (absent && err == ATP_E_MST_MISSING));
	if (err == ATP_E_MST_END)
		compare_found(&part, &some, &all);
	do
	{
		CHECK(fetch_level(&part, root, &fetched) == ATP_E_MST_END);
		CHECK((fetched > 0) == (err == ATP_E_MST_MISSING));
		err = walk_all(&part, root, &some);
		CHECK(rounds++ <= ATP_MST_LEVELS_MAX);
	} while (err == ATP_E_MST_MISSING);
	CHECK(err == ATP_E_MST_END);
	compare_found(&part, &some, &all);

	/* damaged nodes */
	for (; size - pos >= 4; pos += 4)
	{
		size_t		node = data[pos] % nnodes;

		node_data[node][(data[pos + 1] | (size_t) data[pos + 2] << 8) % node_len[node]] ^= data[pos + 3];
		changed = changed || data[pos + 3] != 0;
	}
	memset(node_absent, 0, sizeof(node_absent));
	if (changed)
	{
		err = walk_all(&part, root, &some);
		if (err == ATP_E_MST_END)
			check_found(&part, root, &some);
		if (walk_all(&whole, root, &all) == ATP_E_MST_END)
		{
			CHECK(err == ATP_E_MST_END);
			compare_found(&part, &some, &all);
		}
	}
	while (nnodes > 0)
		free(node_data[--nnodes]);
	return 0;
}
