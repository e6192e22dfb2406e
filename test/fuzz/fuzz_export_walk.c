/*
 * fuzz_export_walk.c
 *		Exports: a tree of any keys comes back.  A tree with damaged or missing nodes is refused, or is the
 *		tree of the keys that the walk returns (V-23).  The memory of nodes that the walk has left is freed.
 *
 * Input: repeated (length, key), 0, then repeated (node, offset low, offset high, change): a byte of the
 * node is changed, or the node left out where the change is 0.  No node is hashed, because an attacker could
 * write the CID of a damaged node into its parents.
 */
#include <stdlib.h>

#include "agree.h"
#include "core/repo/export_walk.h"
#include "protocol/mst_build.h"
#include "tree_keys.h"

#define KEYS_MAX	64
#define NODES_MAX	512
#define ROOM		(64 * 1024)
#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Nodes
{
	size_t		n;
	size_t		bytes;
	bool		absent[NODES_MAX];
	size_t		len[NODES_MAX];
	uint8_t    *data[NODES_MAX];
	uint8_t		cid[NODES_MAX][ATP_CID_BLESSED_LEN];
	uint8_t    *level[ATP_MST_LEVELS_MAX];
	size_t		read;			/* bytes */
	size_t		reads;
	bool		records;		/* they are there */
} Nodes;

static void
keep_node(void *ctx, const uint8_t *cid, const uint8_t *block, size_t n)
{
	Nodes	   *nodes = ctx;

	CHECK(nodes->n < NODES_MAX);
	memcpy(nodes->cid[nodes->n], cid, ATP_CID_BLESSED_LEN);
	nodes->data[nodes->n] = malloc(n);
	memcpy(nodes->data[nodes->n], block, n);
	nodes->len[nodes->n++] = n;
	nodes->bytes += n;
}

static void
let_go(Nodes *nodes, unsigned level)
{
	for (; level < ATP_MST_LEVELS_MAX; level++)
	{
		free(nodes->level[level]);
		nodes->level[level] = NULL;
	}
}

static bool
read_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	Nodes	   *nodes = ctx;

	for (size_t i = 0; i < nodes->n; i++)
	{
		if (nodes->absent[i] || memcmp(nodes->cid[i], cid.ptr, ATP_CID_BLESSED_LEN) != 0)
			continue;
		let_go(nodes, level);
		nodes->level[level] = malloc(nodes->len[i]);
		memcpy(nodes->level[level], nodes->data[i], nodes->len[i]);
		*node = (AtpBytes) {nodes->level[level], nodes->len[i]};
		nodes->read += nodes->len[i];
		nodes->reads++;
		return true;
	}
	return false;
}

static bool
has_record(void *ctx, AtpBytes cid)
{
	return ((Nodes *) ctx)->records;
}

static void
build(AtpMstItem *items, size_t n, Nodes *nodes, uint8_t *root)
{
	static uint8_t scratch[ROOM];

	CHECK(atp_mst_build(items, n, sha256, NULL, scratch, sizeof(scratch), keep_node, nodes, root) == ATP_OK);
}

static void
drop(Nodes *nodes)
{
	let_go(nodes, 0);
	while (nodes->n > 0)
		free(nodes->data[--nodes->n]);
}

/* Walks the tree; keys and values go into items, as far as there is room. */
static AtpErr
walk_all(Nodes *nodes, const uint8_t *root, AtpMstItem *items, size_t *n)
{
	static AtpExportWalk walk;
	static uint8_t keys[2 * KEYS_MAX][ATP_MST_KEY_MAX];
	static uint8_t cids[2 * KEYS_MAX][ATP_CID_MAX];
	AtpExportSource source = {
		.read = read_node, .has = has_record, .ctx = nodes, .blocks = nodes->n,
		.max_records = 2 * KEYS_MAX, .sha256 = sha256
	};
	AtpExportRecord record;
	size_t		at;
	AtpErr		err = atp_export_begin(&walk, &source, (AtpBytes) {root, ATP_CID_BLESSED_LEN}, &at);

	for (*n = 0; err == ATP_OK && (err = atp_export_next(&walk, &record, &at)) == ATP_OK; ++*n)
	{
		memcpy(keys[*n], record.path.ptr, record.path.len);
		memcpy(cids[*n], record.cid.ptr, record.cid.len);
		items[*n] = (AtpMstItem) {.key = {keys[*n], record.path.len}, .value = {cids[*n], record.cid.len}};
		CHECK(*n == 0 || compare_items(&items[*n - 1], &items[*n]) < 0);
	}
	CHECK(nodes->reads <= nodes->n + 1);
	let_go(nodes, 0);
	return err;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static Nodes nodes;
	static Nodes again;
	AtpMstItem	items[KEYS_MAX];
	AtpMstItem	got[2 * KEYS_MAX];
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		value[ATP_CID_BLESSED_LEN];
	size_t		unique;
	size_t		pos = 0;
	size_t		ngot;

	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, data, 0, sha256, NULL, value);
	unique = unique_items(items, take_items(data, size, &pos, (AtpBytes) {value, sizeof(value)}, items, KEYS_MAX));

	nodes = again = (Nodes) {.records = true};
	build(items, unique, &nodes, root);
	CHECK(walk_all(&nodes, root, got, &ngot) == ATP_E_MST_END && ngot == unique && nodes.read == nodes.bytes);
	for (size_t i = 0; i < unique; i++)
		CHECK(compare_items(&got[i], &items[i]) == 0);
	nodes.records = false;
	nodes.read = nodes.reads = 0;
	CHECK(walk_all(&nodes, root, got, &ngot) == (unique > 0 ? ATP_E_RECORD_MISSING : ATP_E_MST_END));

	for (; size - pos >= 4; pos += 4)
	{
		size_t		node = data[pos] % nodes.n;
		size_t		offset = (data[pos + 1] | (size_t) data[pos + 2] << 8) % nodes.len[node];

		nodes.data[node][offset] ^= data[pos + 3];
		nodes.absent[node] = data[pos + 3] == 0;
	}
	nodes.records = true;
	nodes.read = nodes.reads = 0;
	if (walk_all(&nodes, root, got, &ngot) == ATP_E_MST_END)
	{
		bool		usual = true;

		/* values of unusual lengths make a different tree */
		for (size_t i = 0; i < ngot; i++)
			usual = usual && got[i].value.len == ATP_CID_BLESSED_LEN;
		build(got, ngot, &again, root);
		CHECK(again.n == nodes.reads && (!usual || again.bytes == nodes.read));
		drop(&again);
	}
	drop(&nodes);
	return 0;
}
