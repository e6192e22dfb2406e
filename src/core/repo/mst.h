/*
 * mst.h
 *		Reads Merkle search trees, a repository's map from path to record (rules B-63 to B-65 and V-23): a
 *		walker that checks each node, and a lookup of many keys in one walk, which can also compute the tree
 *		before the keys were changed.  Building a tree is in mst_root.h.
 *
 * Reading needs the tree's blocks in an index, with verified hashes.  The offset of a fault counts from base,
 * the start of the buffer that contains all these blocks.
 */
#ifndef ATP_MST_H
#define ATP_MST_H

#include "core/atp.h"
#include "core/repo/car.h"
#include "core/codec/cid.h"
#include "core/repo/key_range.h"
#include "core/repo/mst_root.h"

/* The beginning of a link to DAG-CBOR with SHA-256; only the digest follows. */
#define ATP_NODE_LINK	"\xd8\x2a\x58\x25\x00\x01\x71\x12\x20"
#define ATP_NODE_LINK_LEN	(sizeof(ATP_NODE_LINK) - 1 + 32)

/* --- walking --- */

typedef struct AtpMstEntry
{
	size_t		at;				/* offset in the node */
	uint64_t	prefix;
	AtpBytes	suffix;
	AtpBytes	subtree;		/* ptr NULL for null */
	AtpBytes	value;
} AtpMstEntry;

/* Entries of a node that are kept when the form of the node is checked; most nodes have fewer. */
#define ATP_MST_KEPT	16

typedef struct AtpMstLevel
{
	AtpBytes	node;
	unsigned	nkept;
	unsigned	next_kept;		/* nkept: the next entry is read from the node */
	size_t		pos;			/* of the node's next entry behind the kept entries */
	uint64_t	left;			/* entries still to come */
	AtpBytes	subtree;		/* subtree to enter before the next entry; ptr NULL: none */
	unsigned	layer;			/* height of the node's keys */
	size_t		key_len;
	uint8_t		key[ATP_MST_KEY_MAX];	/* key of the last entry read */
	AtpMstEntry kept[ATP_MST_KEPT];
} AtpMstLevel;

typedef struct AtpMstTree
{
	const AtpCarIndex *index;
	const uint8_t *base;
	AtpBytes	root;			/* binary CID */
	AtpSha256Fn sha256;
	void	   *ctx;
} AtpMstTree;

/*
 * A source of blocks without an index.  The block from read() for a level must stay unchanged until read() is
 * called for this level or for one with a smaller number.
 */
typedef struct AtpMstSource
{
	bool		(*read) (void *ctx, unsigned level, AtpBytes cid, AtpBytes *node);	/* false: absent */
	void	   *ctx;
	uint64_t	blocks;			/* number of blocks (V-24) */

	/*
	 * P-13: the walk reads only nodes that can have keys of these ranges, and delivers only keys of the ranges.
	 * The ranges ascend without overlap.  NULL: the whole tree.
	 */
	const AtpKeyRange *ranges;
	size_t		nranges;
} AtpMstSource;

typedef struct AtpMstWalk
{
	AtpMstTree	tree;
	const AtpMstSource *source; /* NULL: the blocks are in tree.index */
	bool		partial;		/* nodes may be absent */
	/* between the last leaf and this one, an absent node may hold keys of heights below this; 0: no gap */
	unsigned	gap;
	AtpBytes	stub;			/* the CID of the absent node; after ATP_E_MST_MISSING, too */
	uint64_t	visits;			/* nodes read */
	size_t		range;			/* the first of the source's ranges that does not end before the key read last */
	unsigned	depth;			/* levels in use */
	unsigned	last_depth;		/* depth of the node whose key was read last; 0: no key was */
	size_t		last_len;
	uint8_t		last[ATP_MST_KEY_MAX];	/* the key read last */
	AtpMstLevel level[ATP_MST_LEVELS_MAX];
} AtpMstWalk;

typedef struct AtpMstLeaf
{
	AtpBytes	key;			/* valid until the next call */
	AtpBytes	value;			/* binary CID of the record */
} AtpMstLeaf;

extern AtpErr atp_mst_begin(AtpMstWalk *walk, const AtpMstTree *tree, size_t *at);

/* As atp_mst_begin(), with a source: offsets count from the start of the node that was read last. */
extern AtpErr atp_mst_begin_source(AtpMstWalk *walk, const AtpMstSource *source, AtpBytes root,
								   AtpSha256Fn sha256, void *ctx, size_t *at);

/*
 * The next leaf in the order of keys; ATP_E_MST_END after the last.  Only the end proves that the tree keeps
 * all rules.  After ATP_E_MST_MISSING the caller may go on behind the absent node, if it does not need the proof.
 */
extern AtpErr atp_mst_next(AtpMstWalk *walk, AtpMstLeaf *leaf, size_t *at);

/* --- looking up --- */

typedef struct AtpMstLookup
{
	AtpBytes	key;
	AtpBytes	value;			/* out: binary CID; ptr NULL: the tree does not have the key ... */
	bool		unknown;		/* out: ... or an absent node may have the key */
	AtpBytes	before;			/* in, for the builder: the earlier value; ptr NULL: the key was absent */
} AtpMstLookup;

/*
 * Looks up n keys, sorted and unique, in a tree of which the index may have only a part.  Whatever the keys
 * are, each present node is read once and checked (V-23).  The caller provides the memory for the walk.
 *
 * With a builder that was begun (NULL: none), the same walk also puts the tree before into the builder: the
 * tree in which each of the keys has its value "before" (V-19).
 */
extern AtpErr atp_mst_lookup(AtpMstWalk *walk, const AtpMstTree *tree, AtpMstLookup *list,
							 size_t n, AtpMstBuilder *before, size_t *at);

/* The order of keys: bytewise. */
extern int	atp_mst_compare(AtpBytes a, AtpBytes b);

#endif							/* ATP_MST_H */
