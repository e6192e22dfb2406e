/*
 * export_walk.c
 *		The records of an exported repository or of some collections: rules, P-14.
 *
 * mst.c walks and checks the tree, and holds one node of each level.  This file
 * limits the memory for these nodes, and checks the rules of exports that are
 * not rules of trees.
 */
#include "core/syntax/chars.h"
#include "core/repo/export_walk.h"
#include "core/repo/path.h"

AtpErr
atp_export_commit(AtpBytes block, AtpSpan did, AtpCommit *commit, size_t *at)
{
	AtpErr		err = atp_commit_parse(block.ptr, block.len, commit, at);

	if (err != ATP_OK)
		return err;
	if (commit->did.len != did.len || memcmp(commit->did.ptr, did.ptr, did.len) != 0)
		return atp_fail(ATP_E_EXPORT_DID, (size_t) ((const uint8_t *) commit->did.ptr - block.ptr), at);
	return ATP_OK;
}

/*
 * P-14: where the first limit is met, a fetch of the whole repository is faster.  A tree that meets the second
 * limit was made to have many nodes and few records.
 */
static AtpErr
check_nodes(const AtpExportWalk *walk)
{
	unsigned	levels;

	if (walk->source.ranges == NULL || walk->asked <= ATP_EXPORT_NODES_BESIDE)
		return ATP_OK;
	if (walk->asked > ATP_EXPORT_NODES_MAX)
		return ATP_E_EXPORT_NODES;
	levels = walk->mst.level[0].layer < ATP_MST_LEVELS_MAX ? walk->mst.level[0].layer + 1 : ATP_MST_LEVELS_MAX;
	if (walk->asked > ATP_EXPORT_NODES_EACH * walk->records + ATP_EXPORT_NODES_BESIDE * levels * walk->source.nranges)
		return ATP_E_EXPORT_HOLLOW;
	return ATP_OK;
}

/*
 * V-51: limits the size of each node, and of all nodes held at one time.
 * Otherwise one export could make the server hold 32 nodes, each as large as a
 * block may be.
 */
static bool
read_node(void *ctx, unsigned level, AtpBytes cid, AtpBytes *node)
{
	AtpExportWalk *walk = ctx;
	size_t		above = 0;

	walk->asked++;
	if (walk->refused == ATP_OK)
		walk->refused = check_nodes(walk);
	if (walk->refused != ATP_OK || !walk->source.read(walk->source.ctx, level, cid, node))
		return false;
	for (unsigned i = 0; i < level; i++)
		above += walk->held[i];
	walk->held[level] = node->len;
	if (node->len > ATP_EXPORT_NODE_MAX)
		walk->refused = ATP_E_MST_NODE_SIZE;
	else if (above + node->len > ATP_EXPORT_PATH_MAX)
		walk->refused = ATP_E_MST_PATH_SIZE;
	return walk->refused == ATP_OK;
}

/* A node that read_node() has refused is an absent node to mst.c. */
static inline AtpErr
reason_of(const AtpExportWalk *walk, AtpErr err)
{
	return walk->refused != ATP_OK ? walk->refused : err;
}

AtpErr
atp_export_begin(AtpExportWalk *walk, const AtpExportSource *source, AtpBytes data, size_t *at)
{
	*at = 0;
	if (!atp_key_ranges_ascend(source->ranges, source->nranges))
		return ATP_E_EXPORT_RANGES;
	walk->source = *source;
	walk->nodes = (AtpMstSource) {
		.read = read_node, .ctx = walk, .blocks = source->blocks, .ranges = source->ranges, .nranges = source->nranges
	};
	walk->refused = ATP_OK;
	walk->records = 0;
	walk->asked = 0;
	return reason_of(walk, atp_mst_begin_source(&walk->mst, &walk->nodes, data, source->sha256, source->sha_ctx, at));
}

AtpErr
atp_export_next(AtpExportWalk *walk, AtpExportRecord *record, size_t *at)
{
	AtpMstLeaf	leaf;
	AtpErr		err = reason_of(walk, atp_mst_next(&walk->mst, &leaf, at));

	if (err != ATP_OK)
		return err;
	if (walk->records >= walk->source.max_records)
		return ATP_E_EXPORT_RECORDS;
	if (walk->source.has != NULL && !walk->source.has(walk->source.ctx, leaf.value))
		return ATP_E_RECORD_MISSING;
	walk->records++;
	record->path = (AtpSpan) {(const char *) leaf.key.ptr, leaf.key.len};
	record->cid = leaf.value;
	if (atp_path_split(record->path, &record->collection, &record->rkey) != ATP_OK)
		record->collection = record->rkey = (AtpSpan) {NULL, 0};
	return ATP_OK;
}
