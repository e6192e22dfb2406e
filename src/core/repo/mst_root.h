/*
 * mst_root.h
 *		Computes the root of a Merkle search tree from its contents, given in
 *		the order of keys: of a whole repository (V-45), and of the tree before
 *		a commit (V-19).  Also hands out the nodes, for whoever writes them (O-01, O-05).
 *
 * The caller provides the memory, which is bounded by the nodes on one path
 * from the root.
 */
#ifndef ATP_MST_ROOT_H
#define ATP_MST_ROOT_H

#include "core/atp.h"
#include "core/codec/cid.h"

#define ATP_MST_KEY_MAX		1024	/* bytes, B-65 */

/*
 * Levels of a tree.  A key of height n costs about 4^n hashes to find, so that no
 * account can make a key of height 32.
 */
#define ATP_MST_LEVELS_MAX	32

/* B-63: leading zero bits of the key's SHA-256, in pairs. */
extern unsigned atp_mst_height(const uint8_t *key, size_t n, AtpSha256Fn sha256, void *ctx);

/* V-21: the root of the tree without keys. */
extern const uint8_t atp_mst_empty[ATP_CID_BLESSED_LEN];

/* A subtree between the preceding key and the next one. */
typedef struct AtpMstSubtree
{
	bool		present;
	bool		on_way;			/* a node of the subtree was marked: see atp_mst_root_mark() */
	unsigned	layer;			/* layer of the subtree's root node */
	uint8_t		cid[ATP_CID_BLESSED_LEN];
} AtpMstSubtree;

/*
 * Takes a complete node: each node of the tree once, in the order of their ends, so that the nodes of one layer come
 * from left to right.  subtree: the node's CID and layer, and whether the node is on the marked way.
 */
typedef void (*AtpMstNodeFn) (void *ctx, const AtpMstSubtree *subtree, const uint8_t *node, size_t n);

/* A node under construction. */
typedef struct AtpMstOpen
{
	unsigned	layer;
	size_t		start;			/* offset of the first entry in the buffer */
	uint64_t	entries;
	bool		on_way;
	AtpMstSubtree left;			/* subtree before the first entry */
	size_t		key_len;		/* the key of the last entry ... */
	size_t		value_len;		/* ... and the entry's value, written when the entry's subtree is known */
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
	AtpMstNodeFn take_node;		/* NULL, or set by the caller after atp_mst_root_begin() */
	void	   *node_ctx;
	AtpErr		err;			/* the first error; nothing is done after it */
	AtpMstSubtree stub;			/* an absent subtree since the last key */
	unsigned	depth;
	AtpMstOpen	open[ATP_MST_LEVELS_MAX];	/* open[0] is the highest layer */
} AtpMstBuilder;

/* Room that is enough for one call: a caller who enlarges the buffer does so when less is left. */
#define ATP_MST_ROOT_SPARE	(8 * 1024)

extern void atp_mst_root_begin(AtpMstBuilder *b, uint8_t *buf, size_t room,
							   AtpSha256Fn sha256, void *ctx);

/*
 * Adds the next key, which must be greater than the preceding one.  A key is a
 * path: collection, '/', rkey.  (Beware: rows sorted by collection and rkey are
 * not in the order of paths when one collection's name is a prefix of
 * another's.)
 */
extern void atp_mst_root_leaf(AtpMstBuilder *b, AtpBytes key, AtpBytes value, unsigned height);

/*
 * O-05: marks the node with the key that was added last, and so all nodes on the way from the root to it.
 *
 * A search for a key that the tree has ends in the node with the key.  A search for any other key ends in the node with
 * the key's left neighbour, or in the node with the right neighbour, whichever is lower: mark both, and the
 * way to the lower one passes the higher one.
 */
extern void atp_mst_root_mark(AtpMstBuilder *b);

/*
 * Adds a subtree of which only the CID is known, after the preceding key.
 * V-20: if a later key would split the subtree, the root cannot be known.
 */
extern void atp_mst_root_stub(AtpMstBuilder *b, AtpBytes cid, unsigned layer);

/* Notes that something unknown belongs here: the root cannot be known. */
extern void atp_mst_root_unknown(AtpMstBuilder *b);

/*
 * Returns the root.  ATP_E_MST_MISSING when the root cannot be known.  Then
 * root is all zeros, except if the contents are a single absent subtree: then
 * root is its CID, and the tree is this subtree or a node below its top.
 */
extern AtpErr atp_mst_root_end(AtpMstBuilder *b, uint8_t root[ATP_CID_BLESSED_LEN]);

#endif							/* ATP_MST_ROOT_H */
