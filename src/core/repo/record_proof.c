/*
 * record_proof.c
 *		Reads a proof that a repository has a record at a path, or has none (O-05): see record_proof.h.
 *
 * The walk over ranges of keys (export_walk.h) reads exactly the nodes on the way, when the only range has one key.
 */
#include "core/repo/record_proof.h"

/* Puts each block that can be checked into the index; *root is the first root, which names the commit (O-05). */
static AtpErr
index_blocks(const uint8_t *buf, size_t len, const AtpRecordProofClaim *claim, AtpCarIndex *index, AtpBytes *root)
{
	AtpCar		car;
	AtpCarBlock block;
	size_t		at;
	AtpErr		err;

	if ((err = atp_car_open(&car, buf, len, &at)) != ATP_OK)
		return err;
	*root = car.root;
	if (root->ptr == NULL)
		return ATP_E_CAR_NO_ROOT;
	while ((err = atp_car_next(&car, &block, &at)) == ATP_OK)
	{
		/* a block with another hash function can be no part of a proof, and does no harm */
		if (!atp_car_can_verify(&block))
			continue;
		if ((err = atp_car_verify(&block, claim->sha256, claim->sha_ctx)) != ATP_OK)
			return err;
		if (!atp_car_index_add(index, &block))
			return ATP_E_CAR_BLOCKS;
	}
	return err == ATP_E_CAR_END ? ATP_OK : err;
}

/* The commit is of this account, and signed by the key. */
static AtpErr
read_commit(AtpBytes block, const AtpRecordProofClaim *claim, uint8_t *room, AtpCommit *commit)
{
	AtpCborWriter w = {.buf = room, .cap = ATP_PROOF_ROOM};
	AtpBytes	sig;
	size_t		at;
	AtpErr		err;

	if ((err = atp_commit_parse(block.ptr, block.len, commit, &at)) != ATP_OK)
		return err;
	if (commit->did.len != claim->did.len || memcmp(commit->did.ptr, claim->did.ptr, claim->did.len) != 0)
		return ATP_E_PROOF_DID;
	if ((err = atp_sig_cut(block.ptr, block.len, false, &w, &sig, &at)) != ATP_OK)
		return err;
	return atp_sig_verify(claim->key, w.buf, w.len, sig, claim->sha256, claim->sha_ctx, claim->verify, claim->verify_ctx);
}

/* The range that has this key, and no other.  The path is not empty. */
static AtpKeyRange
range_of(AtpSpan path)
{
	return (AtpKeyRange) {
		.first = {{path.ptr, path.len - 1}, (uint8_t) path.ptr[path.len - 1]},
		.end = {path, 0}
	};
}

static bool
read_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	const AtpCarBlock *block = atp_car_index_find(ctx, cid);

	(void) level;
	if (block == NULL)
		return false;
	*node = block->data;
	return true;
}

/* ATP_OK: proof->cid is the record's CID; ATP_E_MST_END: the tree has no record there. */
static AtpErr
find_record(AtpBytes root, const AtpRecordProofClaim *claim, AtpCarIndex *index, AtpRecordProof *proof)
{
	AtpKeyRange range = range_of(claim->path);
	AtpExportSource source = {
		.read = read_node, .ctx = index, .blocks = index->n, .max_records = 1,
		.sha256 = claim->sha256, .sha_ctx = claim->sha_ctx, .ranges = &range, .nranges = 1
	};
	AtpExportRecord record;
	bool		found = false;
	size_t		at;
	AtpErr		err;

	if ((err = atp_export_begin(&proof->walk, &source, root, &at)) != ATP_OK)
		return err;
	/* only the end of the walk proves that the nodes on the way are valid */
	while ((err = atp_export_next(&proof->walk, &record, &at)) == ATP_OK)
	{
		found = true;
		proof->cid = record.cid;
	}
	return err == ATP_E_MST_END && found ? ATP_OK : err;
}

void
atp_read_record_proof(const uint8_t *buf, size_t len, const AtpRecordProofClaim *claim, AtpCarIndex *index,
			   uint8_t *signed_room, AtpRecordProof *proof)
{
	AtpBytes	root;
	AtpCommit	commit;
	const AtpCarBlock *block;

	proof->answer = ATP_PROOF_NONE;
	proof->cid = proof->block = (AtpBytes) {NULL, 0};
	if ((proof->why = index_blocks(buf, len, claim, index, &root)) != ATP_OK)
		return;
	if ((block = atp_car_index_find(index, root)) == NULL)
	{
		proof->why = ATP_E_COMMIT_MISSING;
		return;
	}
	if ((proof->why = read_commit(block->data, claim, signed_room, &commit)) != ATP_OK)
		return;
	proof->rev = commit.rev;
	proof->why = find_record(commit.data, claim, index, proof);
	if (proof->why == ATP_E_MST_END)
		proof->answer = ATP_PROOF_ABSENT;
	else if (proof->why == ATP_OK && (block = atp_car_index_find(index, proof->cid)) == NULL)
		proof->why = ATP_E_RECORD_MISSING;
	else if (proof->why == ATP_OK)
	{
		proof->block = block->data;
		proof->answer = ATP_PROOF_THERE;
	}
	if (proof->answer != ATP_PROOF_NONE)
		proof->why = ATP_OK;
	else
		proof->cid = (AtpBytes) {NULL, 0};
}
