/*
 * sparse_walk.h
 *		Which tree nodes a fetch of some collections of a repository needs next (P-03), and what the fetch would
 *		cost (P-30).
 *
 * A fetch begins with the commit, and with the nodes of the first answers.  This walk goes through the present
 * nodes in the order of keys, and names each absent node that can have records of the ranges.  The caller
 * fetches these nodes, and begins a new walk, until a walk names none.  Each round adds a level, so that a tree
 * needs at most as many rounds as it has levels.
 *
 * Each round reads the nodes of the upper levels again.  A level has about four times as many nodes as the level
 * above, so that all rounds cost about a third more than the last.  In return the caller keeps only the nodes:
 * there is no list of links, and none of records.
 *
 * This walk proves nothing.  At the end of a fetch, a walk over the same ranges by export_walk.h does, with has()
 * if records are needed.
 */
#ifndef ATP_SPARSE_WALK_H
#define ATP_SPARSE_WALK_H

#include "core/repo/export_walk.h"

/* Must not be moved: the struct contains pointers to itself. */
typedef struct AtpSparseWalk
{
	AtpExportWalk walk;
	bool		root_absent;
	unsigned	top;			/* height of the root's keys */
	uint64_t	top_keys;		/* number of the root's keys; 0: the tree is empty, or the root is absent */
	unsigned	highest;		/* the greatest height of a key of the ranges */
	uint64_t	highest_keys;	/* number of the ranges' keys of this height */
	uint64_t	pause_after;	/* after so many keys atp_sparse_next() returns without a node; 0: never */
} AtpSparseWalk;

/*
 * The source needs ranges.  Between two calls, the caller may add blocks to the source, if the memory of blocks
 * that read() has returned stays unchanged.
 */
extern AtpErr atp_sparse_begin(AtpSparseWalk *sparse, const AtpExportSource *source, AtpBytes data, size_t *at);

/*
 * The next absent node, in the order of keys; ATP_E_MST_END after the last.  A node that has two places in the
 * tree may be named twice.  ATP_OK with ptr NULL: a pause, after which the next call goes on.
 */
extern AtpErr atp_sparse_next(AtpSparseWalk *sparse, AtpBytes *cid, size_t *at);

/*
 * P-30, after the end: estimates of the number of records, from the heights of keys: a key of height n stands for
 * 4^n records.  in_ranges is 0 while no key of the ranges is in a present node.
 */
typedef struct AtpSparseEstimate
{
	uint64_t	records;		/* of the whole repository */
	uint64_t	in_ranges;
} AtpSparseEstimate;

extern AtpSparseEstimate atp_sparse_estimate(const AtpSparseWalk *sparse);

#endif							/* ATP_SPARSE_WALK_H */
