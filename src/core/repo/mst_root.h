/*
 * mst_root.h
 *		The root of a Merkle search tree from what is in it, in the order of keys:
 *		of a whole repository (V-45), and of the tree before a commit (V-19).
 *
 * Memory is the caller's, and bounded: the nodes on one path from the root.
 */
#ifndef ATP_MST_ROOT_H
#define ATP_MST_ROOT_H

#include "core/atp.h"
#include "core/codec/cid.h"

#define ATP_MST_KEY_MAX		1024	/* bytes, B-65 */

/*
 * Levels of a tree.  A key of height n costs its maker 4^n hashes, so that 32
 * is out of anybody's reach.
 */
#define ATP_MST_LEVELS_MAX	32

/* B-63: leading zero bits of the key's SHA-256, in pairs. */
extern unsigned atp_mst_height(const uint8_t *key, size_t n, AtpSha256Fn sha256, void *ctx);

/* V-21: the root of the tree without keys. */
extern const uint8_t atp_mst_empty[ATP_CID_BLESSED_LEN];

/* A tree whose keys are all before what comes next. */
typedef struct AtpMstSubtree
{
	bool		present;
	unsigned	layer;			/* of its root node */
	uint8_t		cid[ATP_CID_BLESSED_LEN];
} AtpMstSubtree;

/* A node that is being made. */
typedef struct AtpMstOpen
{
	unsigned	layer;
	size_t		start;			/* where its first entry is in the buffer */
	uint64_t	entries;
	AtpMstSubtree left;			/* before the first entry */
	size_t		key_len;		/* the last entry: its key, and ... */
	size_t		value_len;		/* ... what it lacks until its subtree is known */
	uint8_t		value[ATP_CID_MAX];
	uint8_t		key[ATP_MST_KEY_MAX];
} AtpMstOpen;

typedef struct AtpMstBuilder
{
	uint8_t    *buf;			/* may be moved and enlarged between two calls */
	size_t		room;
	size_t		len;
	AtpSha256Fn sha256;
	void	   *ctx;
	AtpErr		err;			/* the first one: nothing is done after it */
	AtpMstSubtree stub;			/* put last */
	unsigned	depth;
	AtpMstOpen	open[ATP_MST_LEVELS_MAX];	/* the lower, the later */
} AtpMstBuilder;

/*
 * Room that is enough for any call that puts one thing: who enlarges the buffer
 * does it when less is left.
 */
#define ATP_MST_ROOT_SPARE	(8 * 1024)

extern void atp_mst_root_begin(AtpMstBuilder *b, uint8_t *buf, size_t room,
								AtpSha256Fn sha256, void *ctx);

/*
 * The next key, greater than the one before, which is a path: collection, '/',
 * rkey.  (Rows in the order of collection and rkey are not in that of their
 * paths when one collection's name begins with another's.)
 */
extern void atp_mst_root_leaf(AtpMstBuilder *b, AtpBytes key, AtpBytes value, unsigned height);

/*
 * A subtree of which only the CID is known, between the key before and the next.
 * V-20: the tree is not known when it would have to be taken apart.
 */
extern void atp_mst_root_stub(AtpMstBuilder *b, AtpBytes cid, unsigned layer);

/* What is put here is not known. */
extern void atp_mst_root_unknown(AtpMstBuilder *b);

/*
 * The root.  ATP_E_MST_MISSING when it cannot be known; then root is all zeros,
 * or the stub that is all there is: the tree before it is this one, or one below.
 */
extern AtpErr atp_mst_root_end(AtpMstBuilder *b, uint8_t root[ATP_CID_BLESSED_LEN]);

#endif							/* ATP_MST_ROOT_H */
