/*
 * mst.h
 *		Merkle search trees: a repository's map from path to record.  Rules B-63
 *		to B-65 and V-23: a walker that checks what it walks, and a lookup of many
 *		keys in one walk, which may undo what was done to them.
 *
 * Reading needs the tree's blocks in an index, their hashes checked.  The
 * offset of a fault counts from base, the start of the buffer that all those
 * blocks lie in.
 */
#ifndef ATP_MST_H
#define ATP_MST_H

#include "core/atp.h"
#include "core/repo/car.h"
#include "core/codec/cid.h"
#include "core/repo/mst_root.h"

/* What a link to DAG-CBOR with SHA-256 begins with: only the digest follows. */
#define ATP_NODE_LINK	"\xd8\x2a\x58\x25\x00\x01\x71\x12\x20"
#define ATP_NODE_LINK_LEN	(sizeof(ATP_NODE_LINK) - 1 + 32)

/* --- walking --- */

typedef struct AtpMstLevel
{
	AtpBytes	node;
	size_t		pos;			/* of the next entry in it */
	uint64_t	left;			/* entries still to come */
	AtpBytes	subtree;		/* to go into before the next entry, or ptr NULL */
	unsigned	layer;			/* height of the node's keys */
	size_t		key_len;
	uint8_t		key[ATP_MST_KEY_MAX];	/* of the last entry */
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
 * Blocks that are in no index.  What read() gave for a level must stay as it is
 * until it is called for that level, or a higher one (of a smaller number), again.
 */
typedef struct AtpMstSource
{
	bool		(*read) (void *ctx, unsigned level, AtpBytes cid, AtpBytes *node);	/* false: absent */
	void	   *ctx;
	uint64_t	blocks;			/* how many there are (V-24) */
} AtpMstSource;

typedef struct AtpMstWalk
{
	AtpMstTree	tree;
	const AtpMstSource *source; /* NULL: the tree's index */
	bool		partial;		/* nodes may be absent */
	unsigned	gap;			/* keys lower than this may be in a node that is absent,
								 * between the last leaf and this one; 0: there is none */
	AtpBytes	stub;			/* the CID of that node */
	uint64_t	visits;			/* nodes read */
	unsigned	depth;			/* levels in use */
	unsigned	last_depth;		/* of the node whose key was delivered last; 0: none was */
	size_t		last_len;
	uint8_t		last[ATP_MST_KEY_MAX];	/* that key */
	AtpMstLevel level[ATP_MST_LEVELS_MAX];
} AtpMstWalk;

typedef struct AtpMstLeaf
{
	AtpBytes	key;			/* valid until the next call */
	AtpBytes	value;			/* binary CID of the record */
} AtpMstLeaf;

extern AtpErr atp_mst_begin(AtpMstWalk *walk, const AtpMstTree *tree, size_t *at);

/* The same from a source: offsets count from the start of the node that was read last. */
extern AtpErr atp_mst_begin_source(AtpMstWalk *walk, const AtpMstSource *source, AtpBytes root,
								   AtpSha256Fn sha256, void *ctx, size_t *at);

/*
 * The next leaf in the order of keys; ATP_E_MST_END after the last.  Once the
 * end has been reached, all of the tree's rules hold.
 */
extern AtpErr atp_mst_next(AtpMstWalk *walk, AtpMstLeaf *leaf, size_t *at);

/* --- looking up --- */

typedef struct AtpMstLookup
{
	AtpBytes	key;
	AtpBytes	value;			/* set: binary CID; ptr NULL: the tree does not have the key ... */
	bool		unknown;		/* set: ... or has it in a node that is absent */
	AtpBytes	before;			/* for the builder: the value that it had; ptr NULL: none */
} AtpMstLookup;

/*
 * Look up n keys, sorted and unique, in a tree of which the index may hold a
 * part only.  Whatever the keys are, each node that is present is read once,
 * and has to keep the tree's rules (V-23).  The walk is the caller's memory.
 *
 * With a builder that was begun (NULL: none), the tree in which each of the keys has the
 * value that it had before is put into it in the same walk (V-19).
 */
extern AtpErr atp_mst_lookup(AtpMstWalk *walk, const AtpMstTree *tree, AtpMstLookup *list,
							 size_t n, AtpMstBuilder *before, size_t *at);

/* The order of keys: that of their bytes. */
extern int	atp_mst_compare(AtpBytes a, AtpBytes b);

#endif							/* ATP_MST_H */
