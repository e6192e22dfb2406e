/*
 * test_record_proof.c
 *		Proofs of records (O-05), and the nodes that a builder hands out (O-01).  All trees of ten keys: the builder's
 *		nodes are the nodes of the tests' own builder; for each key, the marked nodes, the commit and the record prove
 *		that the key is there or absent, and prove nothing if a block is left out.  Then files of strangers: any order,
 *		blocks twice, blocks too many, and each rule broken.
 */
#include "core/repo/record_proof.h"
#include "hex.h"
#include "repo.h"
#include "unit.h"

#define KEYS		10
#define NODES_MAX	64
#define BLOCKS_MAX	128

/* Of layers 0, 1, 0, 2, 1, 3, 2, 3, 1, 0. */
static const char *const keys[KEYS] = {
	"a.b.c/22", "a.b.c/25", "a.b.c/27", "a.b.c/2g", "a.b.c/32", "a.b.c/4m", "a.b.c/64", "a.b.c/av", "a.b.c/z2", "a.b.c/zs"
};

typedef struct Node
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	unsigned	layer;
	bool		on_way;
	uint8_t		block[2048];
	size_t		n;
} Node;

typedef struct Nodes
{
	Node		list[NODES_MAX];
	size_t		n;
} Nodes;

static Nodes made;				/* by the builder under test */
static Nodes other;				/* by the tests' own builder */

/* The blocks of a file, for car_of(). */
typedef struct File
{
	AtpCarBlock blocks[BLOCKS_MAX];
	size_t		n;
} File;

static AtpErr sig_result;
static uint8_t key[ATP_MULTIKEY_LEN] = {0x80, 0x24, 2};
static uint8_t sig[ATP_SIG_LEN];
static uint8_t room[ATP_PROOF_ROOM];
static AtpRecordProof proof;
static uint8_t found[ATP_CID_BLESSED_LEN];	/* the CID proven last */

static AtpErr
verify(void *ctx, const uint8_t with[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t of[ATP_SIG_LEN])
{
	return sig_result;
}

static Node *
keep(Nodes *nodes, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	Node	   *node = &nodes->list[nodes->n++];

	if (nodes->n > NODES_MAX || n > sizeof(node->block))
		exit(2);
	memcpy(node->cid, cid, ATP_CID_BLESSED_LEN);
	memcpy(node->block, block, n);
	node->n = n;
	return node;
}

static void
keep_other(void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	keep(ctx, cid, block, n);
}

static void
keep_made(void *ctx, const AtpMstSubtree *subtree, const uint8_t *block, size_t n)
{
	Node	   *node = keep(ctx, subtree->cid, block, n);

	node->layer = subtree->layer;
	node->on_way = subtree->on_way;
}

/* The record of a key, {k: the key, $type: its collection}, in memory of its own. */
static AtpBytes
record_of(int k, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	static uint8_t records[KEYS][128];
	AtpCborWriter w = {.buf = records[k], .cap = sizeof(records[k])};

	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "k");
	atp_cbor_put_key(&w, keys[k]);
	atp_cbor_put_key(&w, "$type");
	atp_cbor_put_key(&w, "a.b.c");
	block_cid(w.buf, w.len, cid);
	return (AtpBytes) {w.buf, w.len};
}

/* Builds the tree of the keys of this set, and marks the way to a key (NULL: none), as record_proof() does. */
static void
build(unsigned set, const char *wanted, uint8_t root[ATP_CID_BLESSED_LEN])
{
	static uint8_t buf[64 * 1024];
	static AtpMstBuilder b;
	bool		passed = wanted == NULL;

	made.n = 0;
	atp_mst_root_begin(&b, buf, sizeof(buf), sha256, NULL);
	b.take_node = keep_made;
	b.node_ctx = &made;
	for (int i = 0; i < KEYS; i++)
	{
		uint8_t		cid[ATP_CID_BLESSED_LEN];
		int			cmp;

		if (!(set >> i & 1))
			continue;
		record_of(i, cid);
		cmp = passed ? -1 : strcmp(keys[i], wanted);
		if (cmp > 0)
			atp_mst_root_mark(&b);
		atp_mst_root_leaf(&b, bytes_of(keys[i]), cid_span(cid), atp_mst_height((const uint8_t *) keys[i], strlen(keys[i]), sha256, NULL));
		if (cmp >= 0)
			atp_mst_root_mark(&b);
		passed = passed || cmp >= 0;
	}
	if (!passed)
		atp_mst_root_mark(&b);
	if (atp_mst_root_end(&b, root) != ATP_OK)
		exit(2);
}

static void
build_other(unsigned set, uint8_t root[ATP_CID_BLESSED_LEN])
{
	static uint8_t scratch[64 * 1024];
	static uint8_t cids[KEYS][ATP_CID_BLESSED_LEN];
	AtpMstItem	items[KEYS];
	size_t		n = 0;

	other.n = 0;
	for (int i = 0; i < KEYS; i++)
		if (set >> i & 1)
		{
			record_of(i, cids[n]);
			items[n] = (AtpMstItem) {.key = bytes_of(keys[i]), .value = cid_span(cids[n])};
			n++;
		}
	if (atp_mst_build(items, n, sha256, NULL, scratch, sizeof(scratch), keep_other, &other, root) != ATP_OK)
		exit(2);
}

static void
add(File *file, const uint8_t cid[ATP_CID_BLESSED_LEN], AtpBytes block)
{
	if (file->n == BLOCKS_MAX)
		exit(2);
	file->blocks[file->n++] = (AtpCarBlock) {.cid = {cid, ATP_CID_BLESSED_LEN}, .data = block};
}

static const Node *
find(const Nodes *nodes, const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	for (size_t i = 0; i < nodes->n; i++)
		if (memcmp(nodes->list[i].cid, cid, ATP_CID_BLESSED_LEN) == 0)
			return &nodes->list[i];
	return NULL;
}

/* The commit of a tree; the block stays until the next call. */
static AtpBytes
commit_of(const uint8_t root[ATP_CID_BLESSED_LEN], uint8_t cid[ATP_CID_BLESSED_LEN])
{
	static uint8_t block[512];
	AtpCborWriter w = {.buf = block, .cap = sizeof(block)};
	AtpCommit	commit = {.did = {REPO_DID, strlen(REPO_DID)}, .rev = REPO_REV, .data = cid_span(root), .sig = {sig, sizeof(sig)}};

	atp_commit_put(&w, &commit);
	block_cid(block, w.len, cid);
	return (AtpBytes) {block, w.len};
}

/* Read a file with these bytes, in memory of exactly this size. */
static AtpRecordProofAnswer
read_bytes(const uint8_t *bytes, size_t n, const char *did, const char *path)
{
	Index		ix;
	uint8_t    *copy = copy_of(bytes, n);
	AtpRecordProofClaim claim = {.did = {did, strlen(did)}, .path = {path, strlen(path)}, .key = key, .sha256 = sha256, .verify = verify};

	index_clear(&ix);
	atp_read_record_proof(copy, n, &claim, &ix.index, room, &proof);
	if (proof.cid.len == sizeof(found))
		memcpy(found, proof.cid.ptr, sizeof(found));
	free(copy);
	return proof.answer;
}

static size_t
car_of(const File *file, const uint8_t root[ATP_CID_BLESSED_LEN], uint8_t *out, size_t cap)
{
	AtpCborWriter w = {.buf = out, .cap = cap};

	atp_car_put_header(&w, cid_span(root));
	for (size_t i = 0; i < file->n; i++)
		atp_car_put_block(&w, file->blocks[i].cid, file->blocks[i].data.ptr, file->blocks[i].data.len);
	if (w.len > w.cap)
		exit(2);
	return w.len;
}

static AtpRecordProofAnswer
prove(const File *file, const uint8_t root[ATP_CID_BLESSED_LEN], const char *path)
{
	static uint8_t out[REPO_ROOM];

	return read_bytes(out, car_of(file, root, out, sizeof(out)), REPO_DID, path);
}

/* --- all trees --- */

static void
all_trees(void)
{
	size_t		bad_nodes = 0;
	size_t		bad_order = 0;
	size_t		bad_answers = 0;
	size_t		bad_gaps = 0;
	size_t		layers = 0;

	for (unsigned set = 0; set < 1 << KEYS; set++)
	{
		uint8_t		root[ATP_CID_BLESSED_LEN];
		uint8_t		root_other[ATP_CID_BLESSED_LEN];

		build(set, NULL, root);
		build_other(set, root_other);
		bad_nodes += made.n != other.n || memcmp(root, root_other, sizeof(root)) != 0;
		for (size_t i = 0; i < made.n; i++)
		{
			const Node *same = find(&other, made.list[i].cid);

			bad_nodes += same == NULL || same->n != made.list[i].n || memcmp(same->block, made.list[i].block, same->n) != 0;
			layers |= (size_t) 1 << made.list[i].layer;
		}
		/* O-01: the root comes last, on a layer above all others */
		for (size_t i = 0; i + 1 < made.n; i++)
			bad_order += made.list[i].layer >= made.list[made.n - 1].layer;
		bad_order += memcmp(made.list[made.n - 1].cid, root, sizeof(root)) != 0;
		for (int k = 0; k < KEYS; k++)
		{
			bool		there = set >> k & 1;
			uint8_t		cid[ATP_CID_BLESSED_LEN];
			uint8_t		record[ATP_CID_BLESSED_LEN];
			AtpBytes	block = record_of(k, record);
			AtpBytes	commit;
			File		file = {.n = 0};

			build(set, keys[k], root);
			commit = commit_of(root, cid);
			add(&file, cid, commit);
			for (size_t i = 0; i < made.n; i++)
				if (made.list[i].on_way)
					add(&file, made.list[i].cid, (AtpBytes) {made.list[i].block, made.list[i].n});
			if (there)
				add(&file, record, block);
			bad_answers += prove(&file, cid, keys[k]) != (there ? ATP_PROOF_THERE : ATP_PROOF_ABSENT) || proof.rev != REPO_REV ||
				(there && (proof.block.len != block.len || proof.cid.len != sizeof(record)));
			/* no node is too many: without a block, the file proves nothing */
			for (size_t i = 0; i < file.n; i++)
			{
				File		less = file;

				less.blocks[i] = less.blocks[--less.n];
				bad_gaps += prove(&less, cid, keys[k]) != ATP_PROOF_NONE;
			}
		}
	}
	ok(bad_nodes == 0, "O-01: the builder hands out the nodes of each tree");
	ok(bad_order == 0, "O-01: the root is the last node");
	ok(layers == 15, "the trees have four layers");
	ok(bad_answers == 0, "O-05: the marked nodes prove that each key is there, or absent");
	ok(bad_gaps == 0, "O-05: a file without one of the blocks proves nothing");
}

/* --- strangers --- */

static File whole;				/* an export of all keys */
static uint8_t whole_cid[ATP_CID_BLESSED_LEN];
static uint8_t record_cids[KEYS][ATP_CID_BLESSED_LEN];

static void
make_whole(void)
{
	uint8_t		root[ATP_CID_BLESSED_LEN];

	build((1 << KEYS) - 1, NULL, root);
	whole.n = 0;
	add(&whole, whole_cid, commit_of(root, whole_cid));
	for (size_t i = 0; i < made.n; i++)
		add(&whole, made.list[i].cid, (AtpBytes) {made.list[i].block, made.list[i].n});
	for (int k = 0; k < KEYS; k++)
	{
		AtpBytes	block = record_of(k, record_cids[k]);

		add(&whole, record_cids[k], block);
	}
}

static bool
refuses(const File *file, const char *path, AtpErr why)
{
	return prove(file, whole_cid, path) == ATP_PROOF_NONE && proof.why == why && proof.cid.ptr == NULL && proof.block.ptr == NULL;
}

static void
files(void)
{
	static uint8_t out[REPO_ROOM];
	File		file;
	size_t		n;
	size_t		last = 0;

	make_whole();
	ok(prove(&whole, whole_cid, keys[3]) == ATP_PROOF_THERE && memcmp(found, record_cids[3], sizeof(found)) == 0, "O-05: a whole export is a proof");
	ok(prove(&whole, whole_cid, "a.b.c/33") == ATP_PROOF_ABSENT, "O-05: also of absence");
	ok(prove(&whole, whole_cid, "a.b.c/zzz") == ATP_PROOF_ABSENT && prove(&whole, whole_cid, "a.a.a/a") == ATP_PROOF_ABSENT, "O-05: beyond the last key, and before the first");

	file.n = 0;
	for (size_t i = whole.n; i-- > 0;)
		file.blocks[file.n++] = whole.blocks[i];
	ok(prove(&file, whole_cid, keys[3]) == ATP_PROOF_THERE, "O-05: blocks in any order");
	for (size_t i = 0; i < whole.n; i++)
		file.blocks[file.n++] = whole.blocks[i];
	ok(prove(&file, whole_cid, keys[3]) == ATP_PROOF_THERE, "O-05: blocks twice");

	n = car_of(&whole, whole_cid, out, sizeof(out));
	ok(read_bytes(out, n, "did:plc:ewvi7nxzyoun6zhxrhs64oiy", keys[3]) == ATP_PROOF_NONE && proof.why == ATP_E_PROOF_DID, "O-05: another account's file");
	sig_result = ATP_E_SIG_WRONG;
	ok(refuses(&whole, keys[3], ATP_E_SIG_WRONG), "O-05: a signature of another key");
	sig_result = ATP_OK;

	/* each byte of the file changed, and each place where the file may end */
	for (size_t i = 0; i < n; i++)
	{
		out[i] ^= 0x40;
		last += read_bytes(out, n, REPO_DID, keys[3]) == ATP_PROOF_ABSENT;
		out[i] ^= 0x40;
		last += read_bytes(out, i, REPO_DID, keys[3]) == ATP_PROOF_ABSENT;
	}
	ok(last == 0, "O-05: no damage makes a proof of absence");

	file = whole;
	for (size_t i = 0; i < file.n; i++)
		if (memcmp(file.blocks[i].cid.ptr, record_cids[3], 36) == 0)
			file.blocks[i] = file.blocks[--file.n];
	ok(refuses(&file, keys[3], ATP_E_RECORD_MISSING), "O-05: a record without its block");
	file = whole;
	file.blocks[0] = file.blocks[--file.n];
	ok(refuses(&file, keys[3], ATP_E_COMMIT_MISSING), "O-05: no commit");
	file.n = 0;
	ok(refuses(&file, keys[3], ATP_E_COMMIT_MISSING), "O-05: an empty file");

	file = whole;
	add(&file, record_cids[0], (AtpBytes) {(const uint8_t *) "x", 1});
	ok(refuses(&file, keys[3], ATP_E_CAR_HASH), "B-53: a block with a wrong hash, even one that is not needed");
	file = whole;
	{
		static const uint8_t identity[] = {1, 0x55, 0, 1, 'x'};

		file.blocks[file.n++] = (AtpCarBlock) {.cid = {identity, sizeof(identity)}, .data = {(const uint8_t *) "x", 1}};
	}
	ok(prove(&file, whole_cid, keys[3]) == ATP_PROOF_THERE, "O-05: a block that cannot be checked is passed over");
	ok(read_bytes((const uint8_t *) "", 0, REPO_DID, keys[3]) == ATP_PROOF_NONE, "O-05: no file");
}

/* Signed trees, each against a rule of trees. */
static void
trees(void)
{
	static uint8_t nodes[4096];
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		child[ATP_CID_BLESSED_LEN];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	const char *high = NULL;
	const char *low[2] = {NULL, NULL};
	char		texts[64][16];
	unsigned	nlow = 0;
	static const struct
	{
		const char *name;
		int			place;
		int			search;
		AtpErr		why;
	}			cases[] = {
		{"a key above its subtree's bound", 0, 0, ATP_E_MST_ORDER},
		{"a key below its subtree's bound", 1, 1, ATP_E_MST_ORDER},
		{"a key on a wrong layer", 2, 1, ATP_E_MST_LAYER},
		{"keys out of order", 3, 1, ATP_E_MST_ORDER}
	};

	/* a key of height 1 or more between two of height 0 */
	for (int i = 0; i < 64; i++)
	{
		unsigned	height;

		snprintf(texts[i], sizeof(texts[i]), "a/b%02d", i);
		height = atp_mst_height((const uint8_t *) texts[i], strlen(texts[i]), sha256, NULL);
		if (height == 0 && (nlow == 0 || (nlow == 1 && high != NULL)))
			low[nlow++] = texts[i];
		else if (height == 1 && nlow == 1 && high == NULL)
			high = texts[i];
	}
	if (high == NULL || nlow != 2)
		exit(2);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
	{
		AtpCborWriter w = {.buf = nodes, .cap = sizeof(nodes)};
		uint8_t		file[8192];
		AtpCborWriter car = {.buf = file, .cap = sizeof(file)};
		unsigned	shared = 0;
		AtpBytes	commit;

		switch (cases[i].place)
		{
			case 0:				/* the left subtree has a key behind the node's key */
				put_node(&w, (NodeEntry[]) {{0, low[1], NULL}}, 1, NULL, child);
				put_node(&w, (NodeEntry[]) {{0, high, NULL}}, 1, child, root);
				break;
			case 1:				/* the right subtree has a key before the node's key */
				put_node(&w, (NodeEntry[]) {{0, low[0], NULL}}, 1, NULL, child);
				put_node(&w, (NodeEntry[]) {{0, high, child}}, 1, NULL, root);
				break;
			case 2:
				put_node(&w, (NodeEntry[]) {{0, high, NULL}}, 1, NULL, child);
				put_node(&w, (NodeEntry[]) {{0, low[0], child}}, 1, NULL, root);
				break;
			default:
				while (low[0][shared] == low[1][shared])
					shared++;
				put_node(&w, (NodeEntry[]) {{0, low[1], NULL}, {shared, low[0] + shared, NULL}}, 2, NULL, root);
		}
		commit = commit_of(root, cid);
		atp_car_put_header(&car, cid_span(cid));
		atp_car_put_block(&car, cid_span(cid), commit.ptr, commit.len);
		atp_cbor_put_raw(&car, nodes, w.len);
		ok(read_bytes(file, car.len, REPO_DID, low[cases[i].search]) == ATP_PROOF_NONE && proof.why == cases[i].why, "V-23: %s: no proof", cases[i].name);
	}
}

/* The signed bytes: version, prev, the range of the signature. */
static void
commits(void)
{
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint8_t		copy[512];
	AtpBytes	commit;
	File		file;

	build(0, NULL, root);
	commit = commit_of(root, cid);
	file.n = 0;
	add(&file, cid, commit);
	add(&file, made.list[0].cid, (AtpBytes) {made.list[0].block, made.list[0].n});
	ok(prove(&file, cid, keys[0]) == ATP_PROOF_ABSENT, "O-05: the empty repository");
	/* the last byte is the version */
	memcpy(copy, commit.ptr, commit.len);
	copy[commit.len - 1] = 2;
	block_cid(copy, commit.len, cid);
	file.blocks[0].data = (AtpBytes) {copy, commit.len};
	ok(prove(&file, cid, keys[0]) == ATP_PROOF_NONE && proof.why == ATP_E_COMMIT_VERSION, "B-60: version 2");

	memset(sig + 32, 0xff, 32);
	sig[32] = 0x80;
	file.n = 0;
	commit = commit_of(root, cid);
	add(&file, cid, commit);
	add(&file, made.list[0].cid, (AtpBytes) {made.list[0].block, made.list[0].n});
	ok(prove(&file, cid, keys[0]) == ATP_PROOF_NONE && proof.why == ATP_E_SIG_HIGH, "V-07: a signature with a high s");
	memset(sig, 0, sizeof(sig));
	commit = commit_of(root, cid);
	file.blocks[0].data = commit;
	ok(prove(&file, cid, keys[0]) == ATP_PROOF_NONE && proof.why == ATP_E_SIG_RANGE, "V-06: a signature of zeros");
}

/* O-02: commits that the columns of table repo can make again. */
static void
plain(void)
{
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	static char did[ATP_DID_MAX] = "did:web:";
	uint8_t		block[ATP_COMMIT_PLAIN_MAX + 64];
	AtpCborWriter w = {.buf = block, .cap = sizeof(block)};
	AtpBytes	made_block;
	AtpCommit	commit;
	size_t		at;

	build(1, NULL, root);
	made_block = commit_of(root, cid);
	ok(atp_commit_parse(made_block.ptr, made_block.len, &commit, &at) == ATP_OK && commit.plain, "O-02: a commit of six members");
	commit.prev = cid_span(cid);
	atp_commit_put(&w, &commit);
	ok(atp_commit_parse(block, w.len, &commit, &at) == ATP_OK && !commit.plain, "O-02: with a prev, its members do not make it again");

	memset(did + 8, 'a', sizeof(did) - 8);
	commit = (AtpCommit) {.did = {did, sizeof(did)}, .rev = REPO_REV, .data = cid_span(root), .sig = {sig, sizeof(sig)}};
	w.len = 0;
	atp_commit_put(&w, &commit);
	ok(w.len <= ATP_COMMIT_PLAIN_MAX && atp_commit_parse(block, w.len, &commit, &at) == ATP_OK && commit.plain, "O-02: of the longest DID");

	/* a commit with a further member, behind all others in the order of names */
	w.len = 0;
	atp_cbor_put_map(&w, 7);
	atp_cbor_put_raw(&w, made_block.ptr + 1, made_block.len - 1);
	atp_cbor_put_key(&w, "versions");
	atp_cbor_put_uint(&w, 1);
	ok(atp_commit_parse(block, w.len, &commit, &at) == ATP_OK && !commit.plain, "O-02: with an unknown member");
}

int
main(void)
{
	sig[31] = sig[63] = 1;
	all_trees();
	files();
	trees();
	commits();
	sig[31] = sig[63] = 1;
	plain();
	return done_testing();
}
