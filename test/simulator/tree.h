/*
 * tree.h
 *		Merkle search trees that are changed key by key (rules B-63 to B-65), and
 *		share what they have in common.
 *
 * A node belongs to the tree that made it.  A tree may begin as a copy of
 * another one's root: it then changes copies of the nodes on the way to a key,
 * never the nodes themselves.  That is how ten thousand accounts can have
 * repositories of sixty thousand records each.
 */
#ifndef SIM_TREE_H
#define SIM_TREE_H

#include "util.h"

typedef struct Leaf
{
	const char *path;			/* must live as long as the key is in the tree */
	uint32_t	len;
	uint8_t		height;
	uint8_t		value[DIGEST_LEN];	/* of the record's CID */
} Leaf;

typedef struct Node Node;

typedef struct Tree
{
	Node	   *root;			/* NULL: empty */
	uint32_t	owner;			/* Node.owner of nodes made by this tree; not 0 */
} Tree;

typedef void (*TreeBlockFn) (void *ctx, const uint8_t cid[ATP_CID_BLESSED_LEN],
							 const uint8_t *block, size_t n);

/* A leaf for a path, its height computed. */
extern Leaf tree_leaf(const char *path, const uint8_t value[DIGEST_LEN]);

/* The value of a path's record; NULL when the tree does not have it. */
extern const uint8_t *tree_find(const Tree *t, const Leaf *leaf);

/* tree_insert(): the tree lacks the key of the leaf.  tree_update(), tree_remove(): the tree has the key. */
extern void tree_insert(Tree *t, const Leaf *leaf);
extern void tree_update(Tree *t, const Leaf *leaf);
extern void tree_remove(Tree *t, const Leaf *leaf);

/*
 * Computes the CIDs of all nodes that changed since the last time, and calls
 * emit with each of them, children first.  root is the CID of the tree.
 */
extern void tree_seal(Tree *t, TreeBlockFn emit, void *ctx, uint8_t root[ATP_CID_BLESSED_LEN]);

/*
 * Calls emit with the nodes from the root to a key, or to the place where it
 * would be, and to the keys beside it; not with those that have been emitted
 * since tree_seal() began.  With them one can put the key in or take it out.
 */
extern void tree_prove(const Tree *t, const Leaf *leaf, TreeBlockFn emit, void *ctx);

/* Calls emit with every node of a tree that has been sealed. */
extern void tree_walk(const Tree *t, TreeBlockFn emit, void *ctx);

/* Frees the nodes that are the tree's own. */
extern void tree_free(Tree *t);

#endif							/* SIM_TREE_H */
