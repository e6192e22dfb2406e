/*
 * sparse_walk.c
 *		Which tree nodes a fetch of some collections of a repository needs next: see sparse_walk.h.
 */
#include "core/repo/sparse_walk.h"

/* 4^24 times the keys of the largest node fits in 64 bits. */
#define HEIGHT_COUNTED	24

AtpErr
atp_sparse_begin(AtpSparseWalk *sparse, const AtpExportSource *source, AtpBytes data, size_t *at)
{
	AtpExportSource nodes = *source;
	const AtpMstWalk *mst = &sparse->walk.mst;
	AtpErr		err;

	nodes.has = NULL;
	/* Blocks may come during the walk.  P-12: where a node has two places in the tree, some keys do not ascend. */
	nodes.blocks = ATP_EXPORT_NODES_MAX;
	err = atp_export_begin(&sparse->walk, &nodes, data, at);
	sparse->root_absent = err == ATP_E_MST_MISSING;
	sparse->top = 0;
	sparse->top_keys = 0;
	sparse->highest = 0;
	sparse->highest_keys = 0;
	sparse->pause_after = 0;
	if (err == ATP_OK && mst->depth > 0)
	{
		sparse->top = mst->level[0].layer;
		sparse->top_keys = mst->level[0].left;
	}
	return sparse->root_absent ? ATP_OK : err;
}

static void
count_key(AtpSparseWalk *sparse, unsigned height)
{
	if (height > sparse->highest)
	{
		sparse->highest = height;
		sparse->highest_keys = 0;
	}
	if (height == sparse->highest)
		sparse->highest_keys++;
}

AtpErr
atp_sparse_next(AtpSparseWalk *sparse, AtpBytes *cid, size_t *at)
{
	const AtpMstWalk *mst = &sparse->walk.mst;
	AtpExportRecord record;
	uint64_t	passed = 0;
	AtpErr		err = ATP_E_MST_MISSING;

	if (!sparse->root_absent)
	{
		while ((err = atp_export_next(&sparse->walk, &record, at)) == ATP_OK)
		{
			count_key(sparse, mst->level[mst->depth - 1].layer);
			if (++passed == sparse->pause_after)
			{
				*cid = (AtpBytes) {NULL, 0};
				return ATP_OK;
			}
		}
	}
	sparse->root_absent = false;
	if (err != ATP_E_MST_MISSING)
		return err;
	*cid = mst->stub;
	return ATP_OK;
}

static inline uint64_t
records_of(uint64_t keys, unsigned height)
{
	return keys << 2 * (height < HEIGHT_COUNTED ? height : HEIGHT_COUNTED);
}

AtpSparseEstimate
atp_sparse_estimate(const AtpSparseWalk *sparse)
{
	return (AtpSparseEstimate) {
		records_of(sparse->top_keys, sparse->top), records_of(sparse->highest_keys, sparse->highest)
	};
}
