/*
 * tree.c
 *		Merkle search trees, changed key by key.
 *
 * Every function that may replace a node returns the one that now stands in its
 * place.  Recursion is as deep as the tree is high: 4^n keys give n layers.
 */
#include "tree.h"

#include "core/codec/cbor_write.h"
#include "core/repo/mst.h"

#include <stdlib.h>

#define BLOCK_MAX	(256 * 1024)	/* bytes of one node */

typedef struct Entry
{
	Leaf		leaf;
	Node	   *right;			/* what is between this key and the next */
} Entry;

struct Node
{
	uint32_t	owner;
	uint32_t	sealed;			/* the tree_seal() after which it was emitted last */
	uint32_t	n;
	uint32_t	cap;
	unsigned	layer;
	bool		changed;		/* digest is not known */
	uint8_t		digest[DIGEST_LEN];
	Node	   *left;			/* what is before the first key */
	Entry		entry[];
};

static uint32_t seals;			/* calls of tree_seal() */

Leaf
tree_leaf(const char *path, const uint8_t value[DIGEST_LEN])
{
	Leaf		leaf = {.path = path, .len = (uint32_t) strlen(path)};

	leaf.height = (uint8_t) atp_mst_height((const uint8_t *) path, leaf.len, sha256, NULL);
	memcpy(leaf.value, value, DIGEST_LEN);
	return leaf;
}

/* --- nodes --- */

static Node *
resize(Node *node, uint32_t cap)
{
	node = xrealloc(node, sizeof(Node) + cap * sizeof(Entry));
	node->cap = cap;
	return node;
}

static Node *
new_node(const Tree *t, unsigned layer, uint32_t cap)
{
	Node	   *node = resize(NULL, cap);

	node->owner = t->owner;
	node->sealed = 0;
	node->n = 0;
	node->layer = layer;
	node->changed = true;
	node->left = NULL;
	return node;
}

/* The node, or a copy of it, for the tree to change. */
static Node *
own(const Tree *t, Node *node)
{
	if (node->owner != t->owner)
	{
		Node	   *copy = new_node(t, node->layer, node->n + 1);

		copy->n = node->n;
		copy->left = node->left;
		memcpy(copy->entry, node->entry, node->n * sizeof(Entry));
		return copy;
	}
	node->changed = true;
	return node;
}

static void
drop(const Tree *t, Node *node)
{
	if (node->owner == t->owner)
		free(node);
}

/* The subtree before the entry i. */
static Node **
child(Node *node, uint32_t i)
{
	return i == 0 ? &node->left : &node->entry[i - 1].right;
}

static int
compare(const Leaf *a, const Leaf *b)
{
	int			cmp = memcmp(a->path, b->path, a->len < b->len ? a->len : b->len);

	return cmp != 0 ? cmp : (a->len > b->len) - (a->len < b->len);
}

/* How many of the node's keys come before this one. */
static uint32_t
position(const Node *node, const Leaf *leaf)
{
	uint32_t	i = node->n;

	while (i > 0 && compare(&node->entry[i - 1].leaf, leaf) >= 0)
		i--;
	return i;
}

const uint8_t *
tree_find(const Tree *t, const Leaf *leaf)
{
	Node	   *node = t->root;

	while (node != NULL)
	{
		uint32_t	i = position(node, leaf);

		if (i < node->n && compare(&node->entry[i].leaf, leaf) == 0)
			return node->entry[i].leaf.value;
		node = *child(node, i);
	}
	return NULL;
}

/* --- changes --- */

/* Cuts a subtree in two, at a key that it does not have. */
static void
split(const Tree *t, Node *node, const Leaf *leaf, Node **left, Node **right)
{
	uint32_t	i;
	Node	   *before;
	Node	   *after;

	*left = *right = NULL;
	if (node == NULL)
		return;
	i = position(node, leaf);
	split(t, *child(node, i), leaf, &before, &after);

	/* all on one side: nothing below has changed either */
	if (i == node->n && after == NULL)
		*left = node;
	else if (i == 0 && before == NULL)
		*right = node;
	else
	{
		*left = own(t, node);
		*right = new_node(t, (*left)->layer, (*left)->n - i + 1);
		(*right)->left = after;
		(*right)->n = (*left)->n - i;
		memcpy((*right)->entry, (*left)->entry + i, (*right)->n * sizeof(Entry));
		(*left)->n = i;
		*child(*left, i) = before;
	}
}

/* The opposite. */
static Node *
merge(const Tree *t, Node *left, Node *right)
{
	Node	   *middle;

	if (left == NULL || right == NULL)
		return left == NULL ? right : left;
	middle = merge(t, *child(left, left->n), right->left);
	left = own(t, left);
	if (left->n + right->n > left->cap)
		left = resize(left, left->n + right->n);
	*child(left, left->n) = middle;
	memcpy(left->entry + left->n, right->entry, right->n * sizeof(Entry));
	left->n += right->n;
	drop(t, right);
	return left;
}

static Node *
insert(const Tree *t, Node *node, unsigned layer, const Leaf *leaf)
{
	uint32_t	i;

	node = node == NULL ? new_node(t, layer, 2) : own(t, node);
	i = position(node, leaf);
	if (leaf->height < layer)
		*child(node, i) = insert(t, *child(node, i), layer - 1, leaf);
	else
	{
		Node	   *left;
		Node	   *right;

		split(t, *child(node, i), leaf, &left, &right);
		if (node->n == node->cap)
			node = resize(node, node->cap * 2);
		memmove(node->entry + i + 1, node->entry + i, (node->n - i) * sizeof(Entry));
		node->n++;
		node->entry[i] = (Entry) {*leaf, right};
		*child(node, i) = left;
	}
	return node;
}

static void
expect(const Node *node, uint32_t i, const Leaf *leaf)
{
	if (i == node->n || compare(&node->entry[i].leaf, leaf) != 0)
		die("the tree does not have %.*s", (int) leaf->len, leaf->path);
}

static Node *
update(const Tree *t, Node *node, const Leaf *leaf)
{
	uint32_t	i;

	if (node == NULL)
		die("the tree does not have %.*s", (int) leaf->len, leaf->path);
	node = own(t, node);
	i = position(node, leaf);
	if (leaf->height < node->layer)
		*child(node, i) = update(t, *child(node, i), leaf);
	else
	{
		expect(node, i, leaf);
		node->entry[i].leaf = *leaf;
	}
	return node;
}

static Node *
cut_out(const Tree *t, Node *node, const Leaf *leaf)
{
	uint32_t	i;

	if (node == NULL)
		die("the tree does not have %.*s", (int) leaf->len, leaf->path);
	node = own(t, node);
	i = position(node, leaf);
	if (leaf->height < node->layer)
		*child(node, i) = cut_out(t, *child(node, i), leaf);
	else
	{
		expect(node, i, leaf);
		*child(node, i) = merge(t, *child(node, i), node->entry[i].right);
		node->n--;
		memmove(node->entry + i, node->entry + i + 1, (node->n - i) * sizeof(Entry));
	}
	if (node->n > 0 || node->left != NULL)
		return node;
	drop(t, node);
	return NULL;
}

void
tree_insert(Tree *t, const Leaf *leaf)
{
	while (t->root != NULL && t->root->layer < leaf->height)
	{
		Node	   *top = new_node(t, t->root->layer + 1, 2);

		top->left = t->root;
		t->root = top;
	}
	t->root = insert(t, t->root, t->root == NULL ? leaf->height : t->root->layer, leaf);
}

void
tree_update(Tree *t, const Leaf *leaf)
{
	t->root = update(t, t->root, leaf);
}

void
tree_remove(Tree *t, const Leaf *leaf)
{
	t->root = cut_out(t, t->root, leaf);

	/* no node without keys at the top */
	while (t->root != NULL && t->root->n == 0)
	{
		Node	   *below = t->root->left;

		drop(t, t->root);
		t->root = below;
	}
}

/* --- blocks --- */

static void
put_subtree(AtpCborWriter *w, const char *key, const Node *node)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	atp_cbor_put_key(w, key);
	if (node == NULL)
	{
		atp_cbor_put_null(w);
		return;
	}
	cid_of_digest(node->digest, cid);
	atp_cbor_put_link(w, cid, sizeof cid);
}

static size_t
common_prefix(const Leaf *a, const Leaf *b)
{
	size_t		n = 0;

	while (n < a->len && n < b->len && a->path[n] == b->path[n])
		n++;
	return n;
}

/* NULL is the node of a tree without keys. */
static void
put_node(AtpCborWriter *w, const Node *node)
{
	uint32_t	n = node == NULL ? 0 : node->n;

	atp_cbor_put_map(w, 2);
	atp_cbor_put_key(w, "e");
	atp_cbor_put_array(w, n);
	for (uint32_t i = 0; i < n; i++)
	{
		const Entry *e = &node->entry[i];
		size_t		p = i == 0 ? 0 : common_prefix(&e[-1].leaf, &e->leaf);
		uint8_t		cid[ATP_CID_BLESSED_LEN];

		atp_cbor_put_map(w, 4);
		atp_cbor_put_key(w, "k");
		atp_cbor_put_bytes(w, (const uint8_t *) e->leaf.path + p, e->leaf.len - p);
		atp_cbor_put_key(w, "p");
		atp_cbor_put_uint(w, p);
		put_subtree(w, "t", e->right);
		atp_cbor_put_key(w, "v");
		cid_of_digest(e->leaf.value, cid);
		atp_cbor_put_link(w, cid, sizeof cid);
	}
	put_subtree(w, "l", node == NULL ? NULL : node->left);
	if (w->len > w->cap)
		die("a node of the tree is too large");
}

static void
emit_node(Node *node, TreeBlockFn emit, void *ctx, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	static uint8_t block[BLOCK_MAX];
	AtpCborWriter w = {.buf = block, .cap = sizeof block};

	put_node(&w, node);
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block, w.len, sha256, NULL, cid);
	emit(ctx, cid, block, w.len);
	if (node == NULL)
		return;
	memcpy(node->digest, cid + ATP_CID_BLESSED_LEN - DIGEST_LEN, DIGEST_LEN);
	node->changed = false;
	node->sealed = seals;
}

static void
seal(Node *node, TreeBlockFn emit, void *ctx)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	if (node == NULL || !node->changed)
		return;
	for (uint32_t i = 0; i <= node->n; i++)
		seal(*child(node, i), emit, ctx);
	emit_node(node, emit, ctx, cid);
}

void
tree_seal(Tree *t, TreeBlockFn emit, void *ctx, uint8_t root[ATP_CID_BLESSED_LEN])
{
	seals++;
	seal(t->root, emit, ctx);
	if (t->root == NULL)
		emit_node(NULL, emit, ctx, root);
	else
		cid_of_digest(t->root->digest, root);
}

/* The node, if that has not been done; what is before its entry i. */
static Node *
go_through(Node *node, uint32_t i, TreeBlockFn emit, void *ctx)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	if (node->sealed != seals)
		emit_node(node, emit, ctx, cid);
	return *child(node, i);
}

void
tree_prove(const Tree *t, const Leaf *leaf, TreeBlockFn emit, void *ctx)
{
	Node	   *node = t->root;
	Node	   *after = NULL;

	/* from the root to the key.  In the node that has the key, the ways to the key before and to the key after part. */
	while (node != NULL)
	{
		uint32_t	i = position(node, leaf);
		bool		is_here = i < node->n && compare(&node->entry[i].leaf, leaf) == 0;

		if (is_here)
			after = node->entry[i].right;
		node = go_through(node, i, emit, ctx);
		if (is_here)
			break;
	}
	while (node != NULL)
		node = go_through(node, node->n, emit, ctx);
	while (after != NULL)
		after = go_through(after, 0, emit, ctx);
}

static void
walk(Node *node, TreeBlockFn emit, void *ctx)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	emit_node(node, emit, ctx, cid);
	for (uint32_t i = 0; node != NULL && i <= node->n; i++)
	{
		if (*child(node, i) != NULL)
			walk(*child(node, i), emit, ctx);
	}
}

void
tree_walk(const Tree *t, TreeBlockFn emit, void *ctx)
{
	walk(t->root, emit, ctx);
}

static void
free_own(const Tree *t, Node *node)
{
	if (node == NULL || node->owner != t->owner)
		return;
	for (uint32_t i = 0; i <= node->n; i++)
		free_own(t, *child(node, i));
	free(node);
}

void
tree_free(Tree *t)
{
	free_own(t, t->root);
	t->root = NULL;
}
