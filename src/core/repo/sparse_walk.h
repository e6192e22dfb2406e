/*
 * sparse_walk.h
 *		Which tree nodes a fetch of some collections of a repository needs next (P-03), and what the fetch would
 *		cost (P-30).
 *
 * A fetch begins with the commit and as many nodes as the first answers contain, which may be none.  It goes
 * through the tree once, as far as nodes are there: this walk names each absent node that can have records
 * of the ranges.  The caller fetches these nodes, and begins again, until a walk names none: each round adds a
 * level, so that there are at most as many rounds as levels.  The nodes above are read again in each round,
 * which costs a third more than one walk does, since each level has about four times the nodes of the level
 * above; in return nothing but the nodes is kept: no list of links, and no list of records.
 *
 * This walk proves nothing.  A walk by export_walk.h over the same ranges does, with has() if records are
 * needed, too.
 */
#ifndef ATP_SPARSE_WALK_H
#define ATP_SPARSE_WALK_H

#include "core/repo/export_walk.h"

/* Must not be moved: the struct contains pointers to itself. */
typedef struct AtpSparseWalk
{
	AtpExportWalk walk;
	bool		root_absent;
	unsigned	top;			/* height of the root's keys ... */
	uint64_t	top_keys;		/* ... and their number; 0: the tree is empty, or the root is absent */
	unsigned	highest;		/* the greatest height of a key of the ranges ... */
	uint64_t	highest_keys;	/* ... and the number of such keys with this height */
} AtpSparseWalk;

/*
 * The source needs ranges.  Between two calls, the caller may add blocks to the source, if blocks that read()
 * has returned stay as they are.
 */
extern AtpErr atp_sparse_begin(AtpSparseWalk *sparse, const AtpExportSource *source, AtpBytes data, size_t *at);

/*
 * The next absent node, in the order of keys; ATP_E_MST_END after the last.  A node that has two places in the
 * tree may be named twice.
 */
extern AtpErr atp_sparse_next(AtpSparseWalk *sparse, AtpBytes *cid, size_t *at);

/*
 * P-30, after the end: what the nodes that are there let expect of the whole tree.  A key of height n stands for
 * 4^n records.  The number for the ranges is 0 as long as no key of the ranges was seen.
 */
typedef struct AtpSparseEstimate
{
	uint64_t	records;		/* of the repository */
	uint64_t	in_ranges;
} AtpSparseEstimate;

extern AtpSparseEstimate atp_sparse_estimate(const AtpSparseWalk *sparse);

#endif							/* ATP_SPARSE_WALK_H */
