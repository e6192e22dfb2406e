/*
 * commit_check.c
 *		Checks the blocks of a #commit or #sync message against its signed commit and its operations (F-01,
 *		F-02, F-07).
 */
#include "core/repo/commit.h"
#include "core/wire/commit_check.h"
#include "core/repo/mst.h"

/*
 * Puts every block with a right hash into the index; *root is roots[0].  B-40: the protocol has two codecs.
 * A block with another codec is refused, since no tree node and no operation can name it.
 */
static AtpErr
index_blocks(AtpBytes blocks, AtpCarIndex *index, AtpSha256Fn sha256, void *ctx,
			 AtpBytes *root, size_t *at)
{
	AtpCar		car;
	AtpCarBlock block;
	AtpErr		err;

	if ((err = atp_car_open(&car, blocks.ptr, blocks.len, at)) != ATP_OK)
		return err;
	while ((err = atp_car_next(&car, &block, at)) == ATP_OK)
	{
		if ((err = atp_car_verify(&block, sha256, ctx)) != ATP_OK)
			break;
		if (!atp_cid_is_blessed(block.cid.ptr, block.cid.len))
			err = ATP_E_CID_NOT_BLESSED;
		else if (!atp_car_index_add(index, &block))
			err = ATP_E_CAR_BLOCKS;
		if (err != ATP_OK)
			break;
	}
	*root = car.root;
	return err == ATP_E_CAR_END ? ATP_OK : err;
}

static inline bool
bytes_equal(const void *a, size_t an, const void *b, size_t bn)
{
	return an == bn && (an == 0 || (a != NULL && b != NULL && memcmp(a, b, an) == 0));
}

/*
 * F-07, V-17, F-09: the blocks contain each operation's record, and the new tree has the record (after a delete,
 * nothing) at the operation's path.  A delete without prevData is exempt when nodes are missing: servers
 * older than prevData did not send all nodes on the path of a delete.
 */
static AtpErr
check_ops(AtpReposMessage *msg, const AtpCarIndex *index, AtpInversion *inversion,
		  AtpSha256Fn sha256, void *ctx, size_t *at)
{
	const AtpMstTree tree = {index, msg->blocks.ptr, msg->data, sha256, ctx};
	AtpMstWalk	walk;
	AtpMstLookup list[ATP_OPS_MAX];
	bool		undone = true;
	AtpErr		err;

	for (unsigned i = 0; i < msg->nops; i++)
	{
		const AtpOp *op = &msg->ops[msg->order[i]];

		list[i].key = (AtpBytes) {(const uint8_t *) op->path.ptr, op->path.len};
		list[i].before = op->prev;
		undone = undone && (op->action == ATP_CREATE || op->prev.ptr != NULL);
	}
	err = atp_mst_lookup(&walk, &tree, list, msg->nops,
						 inversion != NULL && msg->nops > 0 ? &inversion->builder : NULL, at);
	if (err != ATP_OK)
		return err;
	for (unsigned i = 0; i < msg->nops; i++)
	{
		AtpOp	   *op = &msg->ops[msg->order[i]];
		AtpBytes	value = list[i].value;

		*at = (value.ptr != NULL ? value.ptr : msg->data.ptr) - msg->blocks.ptr;
		if (list[i].unknown)
		{
			if (op->action == ATP_DELETE && msg->prev_data.ptr == NULL)
				continue;
			return ATP_E_MST_MISSING;
		}
		if (!bytes_equal(value.ptr, value.len, op->cid.ptr, op->cid.len))
			return ATP_E_MST_VALUE;
		if (op->action != ATP_DELETE &&
			(op->block = atp_car_index_find(index, op->cid)) == NULL)
			return ATP_E_OP_BLOCK;
	}
	if (inversion == NULL)
		return ATP_OK;
	*at = msg->data.ptr - msg->blocks.ptr;
	if (msg->nops > 0)
		return atp_invert_end(inversion, msg->prev_data, undone);
	atp_invert_nothing(inversion, msg->data, msg->prev_data);
	return ATP_OK;
}

AtpErr
atp_commit_invert(AtpReposMessage *msg, AtpCarIndex *index, AtpInversion *inversion,
				  AtpSha256Fn sha256, void *ctx, size_t *at)
{
	AtpBytes	root;
	AtpCommit	commit;
	const AtpCarBlock *block;
	AtpErr		err;

	*at = 0;
	if ((err = index_blocks(msg->blocks, index, sha256, ctx, &root, at)) != ATP_OK)
		return err;

	/* B-51: the root is the commit.  A #sync message has no field that names its commit. */
	*at = 0;
	if (root.ptr == NULL)
		return ATP_E_CAR_NO_ROOT;
	if (msg->kind == ATP_REPOS_SYNC)
		msg->commit = root;
	else if (!bytes_equal(root.ptr, root.len, msg->commit.ptr, msg->commit.len))
		return ATP_E_COMMIT_ROOT;
	if ((block = atp_car_index_find(index, root)) == NULL)
		return ATP_E_COMMIT_MISSING;

	err = atp_commit_parse(block->data.ptr, block->data.len, &commit, at);
	*at += block->data.ptr - msg->blocks.ptr;
	if (err != ATP_OK)
		return err;
	if (!bytes_equal(commit.did.ptr, commit.did.len, msg->did.ptr, msg->did.len))
		return ATP_E_COMMIT_DID_DIFFERS;
	if (commit.rev != msg->rev)
		return ATP_E_COMMIT_REV_DIFFERS;
	msg->data = commit.data;
	msg->block = block->data;
	msg->sig = commit.sig;
	msg->plain = commit.plain;

	return check_ops(msg, index, inversion, sha256, ctx, at);
}

AtpErr
atp_commit_check(AtpReposMessage *msg, AtpCarIndex *index, AtpSha256Fn sha256, void *ctx, size_t *at)
{
	return atp_commit_invert(msg, index, NULL, sha256, ctx, at);
}
