/*
 * commit.c
 *		Signed commits (rule B-60), and the blocks of a #commit or #sync message
 *		checked against it (F-01, F-02, F-07).
 */
#include "cid.h"
#include "commit.h"
#include "dagcbor.h"
#include "did.h"
#include "field.h"
#include "mst.h"
#include "repos_message.h"
#include "tid.h"

#define COMMIT_MAX	1000000		/* bytes, as for any record (B-28) */

_Static_assert(ATP_OPS_MAX <= UINT8_MAX + 1, "an operation's number fits into a byte");

static AtpErr
read_field(AtpSpan key, const AtpCborItem *value, AtpCommit *commit,
		   bool *has_version, bool *has_rev, bool *has_prev)
{
	size_t		at;

	if (atp_span_is(key, "did"))
	{
		commit->did = atp_cbor_span(value);
		if (value->kind != ATP_CBOR_TEXT ||
			atp_did_check(commit->did.ptr, commit->did.len, &at) != ATP_OK)
			return ATP_E_COMMIT_DID;
	}
	else if (atp_span_is(key, "rev"))
	{
		if (value->kind != ATP_CBOR_TEXT ||
			atp_tid_parse((const char *) value->str.ptr, value->str.len,
						  &commit->rev, &at) != ATP_OK)
			return ATP_E_COMMIT_REV;
		*has_rev = true;
	}
	else if (atp_span_is(key, "sig"))
	{
		if (value->kind != ATP_CBOR_BYTES || value->str.len != ATP_COMMIT_SIG_LEN)
			return ATP_E_COMMIT_SIG;
		commit->sig = value->str;
	}
	else if (atp_span_is(key, "data"))
	{
		if (value->kind != ATP_CBOR_LINK || !atp_cid_is_node(value->str))
			return ATP_E_COMMIT_LINK;
		commit->data = value->str;
	}
	else if (atp_span_is(key, "prev"))
	{
		if (value->kind == ATP_CBOR_LINK && atp_cid_is_node(value->str))
			commit->prev = value->str;
		else if (value->kind != ATP_CBOR_NULL)
			return ATP_E_COMMIT_LINK;
		*has_prev = true;
	}
	else if (atp_span_is(key, "version"))
	{
		if (value->kind != ATP_CBOR_UINT || value->u != 3)
			return ATP_E_COMMIT_VERSION;
		*has_version = true;
	}
	return ATP_OK;
}

AtpErr
atp_commit_parse(const uint8_t *block, size_t n, AtpCommit *commit, size_t *at)
{
	AtpCborReader r;
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	bool		has_version = false;
	bool		has_rev = false;
	bool		has_prev = false;

	*commit = (AtpCommit) {0};
	*at = 0;
	if (n > COMMIT_MAX)
		return ATP_E_COMMIT_SIZE;
	atp_cbor_init(&r, block, n, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
		return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_COMMIT_MAP;
	fields = atp_fields(&r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		if ((err = read_field(key, &item, commit, &has_version, &has_rev, &has_prev)) != ATP_OK)
			return err;
	}
	if (err != ATP_E_CBOR_END)
		return err;
	*at = r.pos;
	if (r.pos != n)
		return ATP_E_CBOR_TRAILING;
	*at = 0;
	if (commit->did.ptr == NULL || commit->data.ptr == NULL || commit->sig.ptr == NULL ||
		!has_version || !has_rev || !has_prev)
		return ATP_E_COMMIT_MAP;
	return ATP_OK;
}

/* Puts every block into the index, once its hash is right; *root is roots[0]. */
static AtpErr
index_blocks(AtpBytes blocks, AtpCarIndex *index, AtpSha256Fn sha256, void *ctx,
			 AtpBytes *root, size_t *at)
{
	AtpCar		car;
	AtpErr		err;

	if ((err = atp_car_open(&car, blocks.ptr, blocks.len, at)) != ATP_OK)
		return err;
	do
		err = atp_car_index_next(index, &car, sha256, ctx, at);
	while (err == ATP_OK);
	*root = car.root;
	return err == ATP_E_CAR_END ? ATP_OK : err;
}

static inline bool
bytes_equal(const void *a, size_t an, const void *b, size_t bn)
{
	return an == bn && (an == 0 || (a != NULL && b != NULL && memcmp(a, b, an) == 0));
}

/* The paths of the operations in the order of the tree; which[] tells whose each is. */
static void
sort_paths(const AtpReposMessage *msg, AtpMstLookup *list, uint8_t *which)
{
	for (unsigned i = 0; i < msg->nops; i++)
	{
		AtpBytes	path = {(const uint8_t *) msg->ops[i].path.ptr, msg->ops[i].path.len};
		unsigned	lo = 0;
		unsigned	hi = i;

		while (lo < hi)
		{
			unsigned	mid = (lo + hi) / 2;

			if (atp_mst_compare(path, list[mid].key) < 0)
				hi = mid;
			else
				lo = mid + 1;
		}
		memmove(&list[lo + 1], &list[lo], (i - lo) * sizeof(list[0]));
		memmove(&which[lo + 1], &which[lo], i - lo);
		list[lo].key = path;
		which[lo] = (uint8_t) i;
	}
}

/*
 * F-07, V-17: the blocks have each operation's record, and the new tree has the
 * record (or, after a delete, nothing) at the operation's path.  Servers from
 * before prevData did not send all that a delete needs to be seen.
 */
static AtpErr
check_ops(AtpReposMessage *msg, const AtpCarIndex *index, AtpSha256Fn sha256, void *ctx, size_t *at)
{
	AtpMstWalk	walk;
	AtpMstLookup list[ATP_OPS_MAX];
	uint8_t		which[ATP_OPS_MAX];
	AtpErr		err;

	sort_paths(msg, list, which);
	err = atp_mst_lookup(&walk, index, msg->blocks.ptr, msg->data, list, msg->nops,
						 sha256, ctx, at);
	if (err != ATP_OK)
		return err;
	for (unsigned i = 0; i < msg->nops; i++)
	{
		AtpOp	   *op = &msg->ops[which[i]];
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
	return ATP_OK;
}

AtpErr
atp_commit_check(AtpReposMessage *msg, AtpCarIndex *index, AtpSha256Fn sha256, void *ctx, size_t *at)
{
	AtpBytes	root;
	AtpCommit	commit;
	const AtpCarBlock *block;
	AtpErr		err;

	*at = 0;
	if ((err = index_blocks(msg->blocks, index, sha256, ctx, &root, at)) != ATP_OK)
		return err;

	/* a #sync does not name its commit: it is the root */
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

	return check_ops(msg, index, sha256, ctx, at);
}
