/*
 * repo.h
 *		Small repositories for the tests: records, tree, commit and CAR file,
 *		made with the writers of src/core, and frames around them.
 */
#ifndef REPO_H
#define REPO_H

#include <stdlib.h>

#include "core/repo/commit.h"
#include "core/wire/commit_check.h"
#include "core/repo/mst.h"
#include "core/wire/repos_message.h"
#include "core/syntax/tid.h"
#include "core/repo/car_write.h"
#include "core/repo/commit_write.h"
#include "protocol/mst_build.h"
#include "sha.h"

#define REPO_ROOM	(256 * 1024)
#define REPO_DID	"did:plc:ewvi7nxzyoun6zhxrhs64oiz"
#define REPO_REV	UINT64_C(0x1234567890abcdef)
#define REPO_BLOCKS	512

typedef struct Repo
{
	uint8_t		car[REPO_ROOM];
	size_t		len;
	uint8_t		root[ATP_CID_BLESSED_LEN];	/* of the tree */
	uint8_t		commit[ATP_CID_BLESSED_LEN];
} Repo;

typedef struct Index
{
	AtpCarBlock blocks[REPO_BLOCKS];
	uint32_t	slots[2 * REPO_BLOCKS];
	AtpCarIndex index;
} Index;

static inline AtpBytes
bytes_of(const char *s)
{
	return (AtpBytes) {(const uint8_t *) s, strlen(s)};
}

static inline AtpBytes
cid_span(const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	return (AtpBytes) {cid, ATP_CID_BLESSED_LEN};
}

static inline void
repo_block(void *w, const uint8_t cid[ATP_CID_BLESSED_LEN], const uint8_t *block, size_t n)
{
	atp_car_put_block(w, cid_span(cid), block, n);
}

static inline void
block_cid(const uint8_t *block, size_t n, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block, n, sha256, NULL, cid);
}

/* The record at a path: {n: the path's length, $type: its collection}. */
static inline size_t
repo_record(const char *path, uint8_t *out, size_t room, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	AtpCborWriter w = {.buf = out, .cap = room};

	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "n");
	atp_cbor_put_uint(&w, strlen(path));
	atp_cbor_put_key(&w, "$type");
	atp_cbor_put_text(&w, path, strcspn(path, "/"));
	block_cid(out, w.len, cid);
	return w.len;
}

/* A whole repository; paths are sorted. */
static inline void
repo_make(Repo *repo, const char *const *paths, size_t n)
{
	static uint8_t tree[REPO_ROOM];
	static uint8_t scratch[REPO_ROOM];
	static uint8_t value_cids[REPO_BLOCKS][ATP_CID_BLESSED_LEN];
	static AtpMstItem items[REPO_BLOCKS];
	static const uint8_t sig[ATP_COMMIT_SIG_LEN];
	AtpCborWriter tree_w = {.buf = tree, .cap = sizeof(tree)};
	AtpCborWriter car_w = {.buf = repo->car, .cap = sizeof(repo->car)};
	uint8_t		block[4096];
	AtpCborWriter commit_w = {.buf = block, .cap = sizeof(block)};
	AtpCommit	commit = {.did = {REPO_DID, strlen(REPO_DID)}, .rev = REPO_REV};

	for (size_t i = 0; i < n; i++)
	{
		uint8_t		record[4096];

		repo_record(paths[i], record, sizeof(record), value_cids[i]);
		items[i] = (AtpMstItem) {.key = bytes_of(paths[i]), .value = cid_span(value_cids[i])};
	}
	if (atp_mst_build(items, n, sha256, NULL, scratch, sizeof(scratch),
					  repo_block, &tree_w, repo->root) != ATP_OK)
		exit(2);
	commit.data = cid_span(repo->root);
	commit.sig = (AtpBytes) {sig, sizeof(sig)};
	atp_commit_put(&commit_w, &commit);
	block_cid(commit_w.buf, commit_w.len, repo->commit);

	atp_car_put_header(&car_w, cid_span(repo->commit));
	atp_cbor_put_raw(&car_w, tree, tree_w.len);
	for (size_t i = 0; i < n; i++)
	{
		uint8_t		record[4096];
		uint8_t		cid[ATP_CID_BLESSED_LEN];
		size_t		len = repo_record(paths[i], record, sizeof(record), cid);

		atp_car_put_block(&car_w, cid_span(cid), record, len);
	}
	atp_car_put_block(&car_w, cid_span(repo->commit), commit_w.buf, commit_w.len);
	if (tree_w.len > tree_w.cap || car_w.len > car_w.cap)
		exit(2);
	repo->len = car_w.len;
}

static inline void
index_clear(Index *ix)
{
	memset(ix->slots, 0, sizeof(ix->slots));
	ix->index = (AtpCarIndex) {
		.blocks = ix->blocks, .cap = REPO_BLOCKS, .slots = ix->slots, .nslots = 2 * REPO_BLOCKS
	};
}

/* All blocks of a CAR file, their hashes checked. */
static inline AtpErr
index_fill(Index *ix, const uint8_t *buf, size_t len, size_t *at)
{
	AtpCar		car;
	AtpErr		err;

	index_clear(ix);
	if ((err = atp_car_open(&car, buf, len, at)) != ATP_OK)
		return err;
	do
		err = atp_car_index_next(&ix->index, &car, sha256, NULL, at);
	while (err == ATP_OK);
	return err == ATP_E_CAR_END ? ATP_OK : err;
}

/* A key in a tree whose nodes may be missing from the index. */
static inline AtpErr
mst_find(const AtpCarIndex *index, const uint8_t *base, AtpBytes root, AtpBytes key,
		 AtpBytes *value, size_t *at)
{
	static AtpMstWalk walk;
	AtpMstLookup lookup = {.key = key};
	AtpErr		err = atp_mst_lookup(&walk, &(AtpMstTree) {index, base, root, sha256, NULL}, &lookup, 1, NULL, at);

	*value = lookup.value;
	return err == ATP_OK && lookup.unknown ? ATP_E_MST_MISSING : err;
}

typedef struct NodeEntry
{
	unsigned	prefix;
	const char *suffix;
	const uint8_t *subtree;		/* NULL: none */
} NodeEntry;

/*
 * A tree node, right or wrong, written as a block of a CAR file; returns the CID in cid.  All values of the
 * node are the CID of an empty block.
 */
static inline void
put_node(AtpCborWriter *car, const NodeEntry *entries, size_t n, const uint8_t *left,
		 uint8_t cid[ATP_CID_BLESSED_LEN])
{
	static uint8_t buf[REPO_ROOM];
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
	repo_block(car, cid, buf, w.len);
}

/* A #commit frame that creates one record of the repository; returns its length. */
static inline size_t
repo_frame(const Repo *repo, const char *path, uint64_t seq, uint8_t *out, size_t room)
{
	AtpCborWriter w = {.buf = out, .cap = room};
	uint8_t		record[4096];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	char		rev[13];

	repo_record(path, record, sizeof(record), cid);
	atp_tid_format(REPO_REV, rev);
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "t");
	atp_cbor_put_key(&w, "#commit");
	atp_cbor_put_key(&w, "op");
	atp_cbor_put_uint(&w, 1);
	atp_cbor_put_map(&w, 9);
	atp_cbor_put_key(&w, "ops");
	atp_cbor_put_array(&w, 1);
	atp_cbor_put_map(&w, 3);
	atp_cbor_put_key(&w, "cid");
	atp_cbor_put_link(&w, cid, sizeof(cid));
	atp_cbor_put_key(&w, "path");
	atp_cbor_put_key(&w, path);
	atp_cbor_put_key(&w, "action");
	atp_cbor_put_key(&w, "create");
	atp_cbor_put_key(&w, "rev");
	atp_cbor_put_text(&w, rev, sizeof(rev));
	atp_cbor_put_key(&w, "seq");
	atp_cbor_put_uint(&w, seq);
	atp_cbor_put_key(&w, "repo");
	atp_cbor_put_key(&w, REPO_DID);
	atp_cbor_put_key(&w, "time");
	atp_cbor_put_key(&w, "2024-01-01T00:00:00.000Z");
	atp_cbor_put_key(&w, "since");
	atp_cbor_put_null(&w);
	atp_cbor_put_key(&w, "blocks");
	atp_cbor_put_bytes(&w, repo->car, repo->len);
	atp_cbor_put_key(&w, "commit");
	atp_cbor_put_link(&w, repo->commit, sizeof(repo->commit));
	atp_cbor_put_key(&w, "prevData");
	atp_cbor_put_link(&w, repo->root, sizeof(repo->root));
	if (w.len > w.cap)
		exit(2);
	return w.len;
}

#endif							/* REPO_H */
