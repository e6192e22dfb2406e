/*
 * invert.h
 *		The tree before a commit, computed from the nodes that came with the commit (V-18 to V-21, V-28,
 *		V-29): do exactly the commit's operations lead from prevData to the new tree?
 *
 * atp_commit_invert() in commit_check.h computes it during its walk over the nodes.
 */
#ifndef ATP_INVERT_H
#define ATP_INVERT_H

#include "core/atp.h"
#include "core/repo/mst_root.h"

typedef enum AtpProof
{
	ATP_PROVEN,					/* the tree before has the root prevData */
	ATP_INCOMPLETE,				/* a node, a prev or prevData is missing */
	ATP_MISMATCH				/* the tree before has another root than prevData */
} AtpProof;

typedef struct AtpInversion
{
	AtpProof	verdict;
	bool		known;			/* root is the root of the tree before */
	bool		first;			/* the tree before is empty: V-28 */
	uint8_t		root[ATP_CID_BLESSED_LEN];
	AtpMstBuilder builder;
} AtpInversion;

/*
 * The builder's memory, at most.  Each operation separates at most two entries from the key before them,
 * whose prefix they shared and must now spell out.  So does each level under construction.
 */
static inline size_t
atp_invert_room(size_t blocks, size_t operations)
{
	return blocks + (2 * operations + ATP_MST_LEVELS_MAX) * (ATP_MST_KEY_MAX + ATP_CID_MAX + 64) +
		ATP_MST_ROOT_SPARE;
}

extern void atp_invert_begin(AtpInversion *inversion, uint8_t *buf, size_t room,
							 AtpSha256Fn sha256, void *ctx);

/*
 * Call after the walk. prev_data.ptr is NULL when the message has no prevData; undone: each update and delete
 * has its prev.
 */
extern AtpErr atp_invert_end(AtpInversion *inversion, AtpBytes prev_data, bool undone);

/* V-29: a commit without operations: the tree before is the new tree, data. */
extern void atp_invert_nothing(AtpInversion *inversion, AtpBytes data, AtpBytes prev_data);

#endif							/* ATP_INVERT_H */
