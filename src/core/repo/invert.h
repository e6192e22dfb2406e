/*
 * invert.h
 *		The tree before a commit, from the nodes that it came with (V-18 to V-21, V-28, V-29):
 *		do the operations that it names, and no others, lead from prevData to it?
 *
 * atp_commit_invert() in repos_message.h does it in the walk over the nodes that
 * it makes anyway.
 */
#ifndef ATP_INVERT_H
#define ATP_INVERT_H

#include "core/atp.h"
#include "core/repo/mst_root.h"

typedef enum AtpProof
{
	ATP_PROVEN,					/* it is prevData */
	ATP_INCOMPLETE,				/* a node, a prev or prevData is missing */
	ATP_MISMATCH				/* it is not prevData */
} AtpProof;

typedef struct AtpInversion
{
	AtpProof	verdict;
	bool		known;			/* root is that of the tree before */
	bool		first;			/* and that one is empty: V-28 */
	uint8_t		root[ATP_CID_BLESSED_LEN];
	AtpMstBuilder builder;
} AtpInversion;

/*
 * What the builder needs at most.  Each operation breaks at most two entries of
 * those that are present away from the key before them, and so does each level
 * that is being made.
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
 * After the walk.  prev_data's ptr is NULL when the message has none; undone:
 * each update and delete has its prev.
 */
extern AtpErr atp_invert_end(AtpInversion *inversion, AtpBytes prev_data, bool undone);

/* V-29: nothing was done, so that the tree before is this one. */
extern void atp_invert_nothing(AtpInversion *inversion, AtpBytes data, AtpBytes prev_data);

#endif							/* ATP_INVERT_H */
