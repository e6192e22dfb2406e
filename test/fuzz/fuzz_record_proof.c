/*
 * fuzz_record_proof.c
 *		Proofs of records in any bytes (O-05): what a file proves is what a search from the root finds, written down here once
 *		more with a reader of its own, in nodes that are all there, of falling heights, with rising keys.
 *
 * Input: the path, with its length before it, and the file.  Blocks are not hashed and signatures are good, because an
 * attacker can sign any tree of an own account.
 */
#include <stdlib.h>

#include "agree.h"
#include "core/codec/dagcbor.h"
#include "core/repo/record_proof.h"

#define DID		"did:plc:d32222222222222222222222"	/* of test/oracle/out.py signed a 40 */
#define BLOCKS_MAX	4096
#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static AtpErr
verify(void *ctx, const uint8_t key[ATP_MULTIKEY_LEN], const uint8_t digest[32], const uint8_t sig[ATP_SIG_LEN])
{
	return ATP_OK;
}

/* The first block with this CID. */
static bool
find_block(AtpBytes file, AtpBytes cid, AtpBytes *data)
{
	AtpCar		car;
	AtpCarBlock block;
	size_t		at;

	CHECK(atp_car_open(&car, file.ptr, file.len, &at) == ATP_OK);
	while (atp_car_next(&car, &block, &at) == ATP_OK)
	{
		if (block.cid.len == cid.len && memcmp(block.cid.ptr, cid.ptr, cid.len) == 0)
		{
			*data = block.data;
			return true;
		}
	}
	return false;
}

static AtpCborItem
item_of(AtpCborReader *r)
{
	AtpCborItem item;
	size_t		at;

	CHECK(atp_cbor_item(r, &item, &at) == ATP_OK);
	return item;
}

static AtpBytes
member(AtpCborReader *r, char name, AtpCborItem *item)
{
	*item = item_of(r);
	CHECK(item->kind == ATP_CBOR_TEXT && item->str.len == 1 && item->str.ptr[0] == (uint8_t) name);
	*item = item_of(r);
	return item->kind == ATP_CBOR_NULL ? (AtpBytes) {NULL, 0} : item->str;
}

/*
 * A step of the search: *value is set when the node has the key, otherwise *next is the link to follow (ptr NULL: none).  lo and
 * hi, the keys around the node, are narrowed to the link; all keys of the node lie between.
 */
static void
step(AtpBytes node, AtpBytes path, unsigned *height, bool top, AtpBytes *lo, AtpBytes *hi, AtpBytes *value, AtpBytes *next)
{
	static uint8_t ends[2][ATP_MST_KEY_MAX];
	uint8_t		key[ATP_MST_KEY_MAX];
	uint8_t		low[ATP_MST_KEY_MAX];
	uint8_t		high[ATP_MST_KEY_MAX];
	AtpBytes	before = *lo;
	AtpBytes	after = *hi;
	size_t		len = 0;
	uint64_t	n;
	AtpCborReader r;
	AtpCborItem item;
	AtpBytes	link = {NULL, 0};
	bool		left = true;	/* the key is before the node's first key */
	bool		passed = false;

	*value = *next = (AtpBytes) {NULL, 0};
	if (before.len > 0)
		before.ptr = memcpy(low, before.ptr, before.len);
	atp_cbor_init(&r, node.ptr, node.len, ATP_CBOR_DEPTH_DEFAULT);
	CHECK(item_of(&r).u == 2);
	member(&r, 'e', &item);
	CHECK(item.kind == ATP_CBOR_ARRAY);
	n = item.u;
	for (uint64_t i = 0; i < n; i++)
	{
		AtpBytes	suffix;
		AtpBytes	subtree;
		AtpBytes	cid;
		int			cmp;

		CHECK(item_of(&r).u == 4);
		suffix = member(&r, 'k', &item);
		member(&r, 'p', &item);
		CHECK(item.u <= len && item.u + suffix.len <= sizeof(key));
		memcpy(key + item.u, suffix.ptr, suffix.len);
		len = (size_t) item.u + suffix.len;
		subtree = member(&r, 't', &item);
		cid = member(&r, 'v', &item);
		CHECK(before.ptr == NULL || atp_mst_compare((AtpBytes) {key, len}, before) > 0);
		CHECK(hi->ptr == NULL || atp_mst_compare((AtpBytes) {key, len}, *hi) < 0);
		if (top && i == 0)
			*height = atp_mst_height(key, len, sha256, NULL);
		CHECK(atp_mst_height(key, len, sha256, NULL) == *height);
		before = (AtpBytes) {memcpy(low, key, len), len};
		cmp = atp_mst_compare((AtpBytes) {key, len}, path);
		if (cmp == 0)
			*value = cid;
		if (cmp >= 0 && !passed)
		{
			passed = true;
			after = (AtpBytes) {memcpy(high, key, len), len};
		}
		else if (cmp < 0)
		{
			left = false;
			link = subtree;
			*lo = (AtpBytes) {memcpy(ends[0], key, len), len};
		}
	}
	*next = member(&r, 'l', &item);
	if (!left)
		*next = link;
	if (after.ptr != NULL)
		after.ptr = memmove(ends[1], after.ptr, after.len);
	*hi = after;
}

static void
check_search(AtpBytes file, AtpBytes root, AtpBytes path, const AtpRecordProof *proof)
{
	AtpBytes	next = root;
	AtpBytes	value = {NULL, 0};
	AtpBytes	lo = {NULL, 0};
	AtpBytes	hi = {NULL, 0};
	unsigned	height = 0;

	for (bool top = true; value.ptr == NULL && next.ptr != NULL; top = false)
	{
		AtpBytes	node;

		CHECK(top || height-- > 0);
		CHECK(find_block(file, next, &node));
		step(node, path, &height, top, &lo, &hi, &value, &next);
	}
	CHECK((value.ptr != NULL) == (proof->answer == ATP_PROOF_THERE));
	if (value.ptr == NULL)
		return;
	CHECK(value.len == proof->cid.len && memcmp(value.ptr, proof->cid.ptr, value.len) == 0);
	CHECK(find_block(file, value, &value) && value.ptr == proof->block.ptr && value.len == proof->block.len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static AtpRecordProof proof;
	static uint8_t room[ATP_PROOF_ROOM];
	static const uint8_t key[ATP_MULTIKEY_LEN] = {0x80, 0x24, 2};
	static AtpCarBlock blocks[BLOCKS_MAX];
	static uint32_t slots[2 * BLOCKS_MAX];
	AtpCarIndex index = {.blocks = blocks, .cap = BLOCKS_MAX, .slots = slots, .nslots = 2 * BLOCKS_MAX};
	AtpBytes	file;
	AtpBytes	path;
	AtpBytes	block;
	AtpCommit	commit;
	AtpCar		car;
	size_t		at;

	if (size < 2 || data[0] == 0 || data[0] >= size)
		return 0;
	path = (AtpBytes) {data + 1, data[0]};
	file = (AtpBytes) {data + 1 + path.len, size - 1 - path.len};
	memset(slots, 0, sizeof(slots));
	atp_read_record_proof(file.ptr, file.len, &(AtpRecordProofClaim) {
		.did = {DID, sizeof(DID) - 1}, .path = {(const char *) path.ptr, path.len}, .key = key,
		.sha256 = agree_sha256, .sha_ctx = &file, .verify = verify
	}, &index, room, &proof);
	CHECK((proof.answer == ATP_PROOF_NONE) == (proof.why != ATP_OK));
	CHECK((proof.answer == ATP_PROOF_THERE) == (proof.cid.ptr != NULL) && (proof.block.ptr != NULL) == (proof.cid.ptr != NULL));
	if (proof.answer == ATP_PROOF_NONE)
		return 0;
	CHECK(atp_car_open(&car, file.ptr, file.len, &at) == ATP_OK && find_block(file, car.root, &block));
	CHECK(atp_commit_parse(block.ptr, block.len, &commit, &at) == ATP_OK && commit.rev == proof.rev);
	CHECK(commit.did.len == sizeof(DID) - 1 && memcmp(commit.did.ptr, DID, commit.did.len) == 0);
	check_search(file, commit.data, path, &proof);
	return 0;
}
