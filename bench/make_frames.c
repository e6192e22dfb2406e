/*
 * make_frames.c
 *		Makes #commit frames of the mean size of a production relay's: make_frames RECORDS FRAMES.
 *
 * Builds one repository of RECORDS posts, and writes a capture of FRAMES #commit frames to standard output ([u32
 * big-endian length] [message], repeated).  Each frame is a commit that creates one of the posts: the frame has the
 * commit, the record, and the nodes of the tree from the root to the record.  With 60,000 posts a frame has 5 kB and
 * ten blocks, the mean of a production relay.  The captures in test/data would measure too little, because their
 * repositories are small, and so are the frames.
 */
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/repo/commit.h"
#include "core/repo/mst.h"
#include "core/syntax/tid.h"
#include "core/repo/car_write.h"
#include "core/repo/commit_write.h"
#include "made_frame.h"
#include "protocol/mst_build.h"

#define DID			"did:plc:ewvi7nxzyoun6zhxrhs64oiz"
#define COLLECTION	"app.bsky.feed.post"
#define KEY_LEN		(sizeof(COLLECTION) + ATP_TID_TEXT)
#define FIRST_TID	UINT64_C(0x18a0000000000000)
#define TID_STEP	(UINT64_C(977) << 20)
#define NODE_ROOM	(16 * 1024 * 1024)

static void
die(const char *what)
{
	fprintf(stderr, "make_frames: %s\n", what);
	exit(1);
}

static void
sha256(void *ctx, const uint8_t *data, size_t len, uint8_t out[32])
{
	SHA256(data, len, out);
}

static AtpBytes
span(const uint8_t cid[ATP_CID_BLESSED_LEN])
{
	return (AtpBytes) {cid, ATP_CID_BLESSED_LEN};
}

static void
keep_block(void *ctx, const uint8_t *cid, const uint8_t *block, size_t n)
{
	atp_car_put_block(ctx, span(cid), block, n);
}

/* Writes post number n, of about 270 bytes, and the post's CID.  Returns the length.  No two posts are equal. */
static size_t
post(uint64_t n, uint8_t *out, size_t room, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	AtpCborWriter w = {.buf = out, .cap = room};
	char		text[160];
	int			len = snprintf(text, sizeof(text),
							   "Post number %llu. The quick brown fox jumps over the lazy dog, "
							   "and the dog does not mind: it has seen %llu foxes before.",
							   (unsigned long long) n, (unsigned long long) n * 7);

	atp_cbor_put_map(&w, 5);
	atp_cbor_put_key(&w, "text");
	atp_cbor_put_text(&w, text, (size_t) len);
	atp_cbor_put_key(&w, "$type");
	atp_cbor_put_key(&w, COLLECTION);
	atp_cbor_put_key(&w, "langs");
	atp_cbor_put_array(&w, 1);
	atp_cbor_put_key(&w, "en");
	atp_cbor_put_key(&w, "facets");
	atp_cbor_put_array(&w, 0);
	atp_cbor_put_key(&w, "createdAt");
	atp_cbor_put_key(&w, "2026-01-01T00:00:00.000Z");
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, w.buf, w.len, sha256, NULL, cid);
	return w.len;
}

/* Writes the CAR file of a frame: the nodes on the walk's way from the root to the record, the record, and the commit. */
static void
put_blocks(AtpCborWriter *car, const AtpMstWalk *walk, uint64_t n,
		   const uint8_t *commit_cid, const AtpCborWriter *commit)
{
	uint8_t		record[512];
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	size_t		len = post(n, record, sizeof(record), cid);

	atp_car_put_header(car, span(commit_cid));
	for (unsigned i = 0; i < walk->depth; i++)
	{
		AtpBytes	node = walk->level[i].node;

		/* the node is a slice of the tree's CAR file, in which the CID precedes the block */
		atp_car_put_block(car, span(node.ptr - ATP_CID_BLESSED_LEN), node.ptr, node.len);
	}
	atp_car_put_block(car, span(cid), record, len);
	atp_car_put_block(car, span(commit_cid), commit->buf, commit->len);
}

/* Enters every block of the tree's CAR file into an index, by which the walk finds the nodes. */
static AtpCarIndex
read_tree(const AtpCborWriter *tree)
{
	AtpCarIndex index = {.cap = 1 << 20, .nslots = 1 << 21};
	AtpCar		car;
	AtpCarBlock block;
	size_t		at;

	index.blocks = malloc(index.cap * sizeof(AtpCarBlock));
	index.slots = calloc(index.nslots, sizeof(uint32_t));
	if (index.blocks == NULL || index.slots == NULL)
		die("out of memory");
	if (atp_car_open(&car, tree->buf, tree->len, &at) != ATP_OK)
		die("the tree's file cannot be read");
	while (atp_car_next(&car, &block, &at) == ATP_OK)
	{
		if (!atp_car_index_add(&index, &block))
			die("too many nodes");
	}
	return index;
}

int
main(int argc, char **argv)
{
	static AtpMstWalk walk;
	static uint8_t car_buf[1 << 16];
	static uint8_t frame_buf[1 << 17];
	static const uint8_t sig[ATP_COMMIT_SIG_LEN];
	size_t		nrecords = argc == 3 ? strtoul(argv[1], NULL, 10) : 0;
	size_t		nframes = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	AtpMstItem *items = calloc(nrecords, sizeof(AtpMstItem));
	char	   *keys = malloc(nrecords * KEY_LEN);
	uint8_t    *cids = malloc(nrecords * ATP_CID_BLESSED_LEN);
	uint8_t    *scratch = malloc(NODE_ROOM);
	AtpCborWriter tree = {.cap = nrecords * 256 + NODE_ROOM};
	uint8_t		root[ATP_CID_BLESSED_LEN];
	uint8_t		commit_buf[512];
	AtpCborWriter commit_w = {.buf = commit_buf, .cap = sizeof(commit_buf)};
	AtpCommit	commit = {
		.did = {DID, strlen(DID)}, .data = {root, sizeof(root)}, .sig = {sig, sizeof(sig)},
		.rev = FIRST_TID
	};
	uint8_t		commit_cid[ATP_CID_BLESSED_LEN];
	AtpCarIndex index;
	AtpMstLeaf	leaf;
	char		rev[ATP_TID_TEXT];
	size_t		at;

	tree.buf = malloc(tree.cap);
	if (nframes == 0 || nrecords < nframes)
		die("usage: make_frames RECORDS FRAMES");
	if (items == NULL || keys == NULL || cids == NULL || scratch == NULL || tree.buf == NULL)
		die("out of memory");

	for (size_t i = 0; i < nrecords; i++)
	{
		char	   *key = keys + i * KEY_LEN;
		uint8_t    *cid = cids + i * ATP_CID_BLESSED_LEN;
		uint8_t		record[512];

		memcpy(key, COLLECTION "/", sizeof(COLLECTION));
		atp_tid_format(FIRST_TID + i * TID_STEP, key + sizeof(COLLECTION));
		post(i, record, sizeof(record), cid);
		items[i].key = (AtpBytes) {(uint8_t *) key, KEY_LEN};
		items[i].value = span(cid);
	}
	atp_car_put_header(&tree, (AtpBytes) {NULL, 0});
	if (atp_mst_build(items, nrecords, sha256, NULL, scratch, NODE_ROOM,
					  keep_block, &tree, root) != ATP_OK || tree.len > tree.cap)
		die("the tree does not fit");
	index = read_tree(&tree);
	atp_commit_put(&commit_w, &commit);
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, commit_buf, commit_w.len, sha256, NULL, commit_cid);
	atp_tid_format(commit.rev, rev);

	if (atp_mst_begin(&walk, &(AtpMstTree) {&index, tree.buf, span(root), sha256, NULL}, &at) != ATP_OK)
		die("the tree cannot be walked");
	for (size_t i = 0; atp_mst_next(&walk, &leaf, &at) == ATP_OK; i++)
	{
		AtpCborWriter car = {.buf = car_buf, .cap = sizeof(car_buf)};
		AtpCborWriter frame = {.buf = frame_buf, .cap = sizeof(frame_buf)};

		if (i % (nrecords / nframes) != 0)
			continue;
		put_blocks(&car, &walk, i, commit_cid, &commit_w);
		made_frame_put(&frame, &(MadeFrame) {.did = DID, .leaf = leaf, .seq = i + 1, .rev = rev, .commit = span(commit_cid), .prev_data = span(root), .car = {car.buf, car.len}});
		if (car.len > car.cap || frame.len > frame.cap)
			die("a frame does not fit");
		if (!made_frame_write(&frame, stdout))
			die("cannot write");
	}
	return 0;
}
