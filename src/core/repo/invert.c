/*
 * invert.c
 *		The verdict on a commit's operations: V-18, V-20, V-28, V-29.
 *
 * The tree before the commit is computed as a set: the leaves and absent
 * subtrees of the new tree, with each operation undone.  A tree depends only on
 * its contents, so that the order of the operations does not matter (V-19, D27).
 */
#include "core/repo/invert.h"

void
atp_invert_begin(AtpInversion *inversion, uint8_t *buf, size_t room, AtpSha256Fn sha256, void *ctx)
{
	inversion->verdict = ATP_INCOMPLETE;
	inversion->known = false;
	inversion->first = false;
	memset(inversion->root, 0, sizeof(inversion->root));
	atp_mst_root_begin(&inversion->builder, buf, room, sha256, ctx);
}

static bool
is_root(const AtpInversion *inversion, AtpBytes cid)
{
	return cid.len == sizeof(inversion->root) && memcmp(inversion->root, cid.ptr, cid.len) == 0;
}

static void
judge_root(AtpInversion *inversion, AtpBytes prev_data)
{
	inversion->known = true;
	inversion->first = memcmp(inversion->root, atp_mst_empty, sizeof(atp_mst_empty)) == 0;
	if (prev_data.ptr == NULL)
		inversion->verdict = ATP_INCOMPLETE;
	else
		inversion->verdict = is_root(inversion, prev_data) ? ATP_PROVEN : ATP_MISMATCH;
}

AtpErr
atp_invert_end(AtpInversion *inversion, AtpBytes prev_data, bool undone)
{
	AtpErr		err = atp_mst_root_end(&inversion->builder, inversion->root);

	if (err != ATP_OK && err != ATP_E_MST_MISSING)
		return err;
	if (!undone)
		inversion->verdict = ATP_INCOMPLETE;
	else if (err == ATP_OK)
		judge_root(inversion, prev_data);

	/*
	 * V-20: the tree before is one absent subtree, or a node below its top: a
	 * top without entries would be dropped.  So equal roots prove the commit,
	 * but different roots prove nothing.
	 */
	else if (prev_data.ptr != NULL && is_root(inversion, prev_data))
		judge_root(inversion, prev_data);
	return ATP_OK;
}

void
atp_invert_nothing(AtpInversion *inversion, AtpBytes data, AtpBytes prev_data)
{
	memcpy(inversion->root, data.ptr, sizeof(inversion->root));
	judge_root(inversion, prev_data);
}
