/*
 * mst_root.c
 *		Computes the root of a Merkle search tree from its contents, given in
 *		the order of keys: see mst_root.h.
 *
 * Incomplete nodes form a stack, beginning with the root's layer.  Their bytes
 * lie one after the other in the buffer, and only the last node grows.  A key
 * completes the nodes of all layers below its own; each completed node becomes
 * a link in the node above.
 */
#include "core/repo/mst.h"

const uint8_t atp_mst_empty[ATP_CID_BLESSED_LEN] = {
	0x01, 0x71, 0x12, 0x20, 0x9d, 0xfe, 0xfe, 0x61, 0xdd, 0x76, 0xea, 0x3d,
	0xca, 0xe5, 0x02, 0x38, 0x80, 0xb0, 0x83, 0x79, 0xd5, 0x7a, 0xdf, 0x20,
	0x48, 0x2d, 0x6f, 0xdb, 0xe2, 0x75, 0x92, 0x89, 0xf6, 0x47, 0x67, 0x7b
};

/* The bytes before a node's first entry: a map's head, "e", an array's head. */
#define HEAD_ROOM	12

/*
 * The bytes after an entry's key: the subtree and the value; and the bytes
 * after the last entry: the left subtree.
 */
#define ENTRY_TAIL_MAX	(ATP_NODE_LINK_LEN + 2 + 2 + 2 + 1 + ATP_CID_MAX)
#define NODE_TAIL_MAX	(2 + ATP_NODE_LINK_LEN)

/* An entry up to its subtree: heads, names and the key. */
#define ENTRY_HEAD_MAX	(1 + 2 + 3 + ATP_MST_KEY_MAX + 2 + 3 + 2)

_Static_assert(ATP_MST_ROOT_SPARE >= HEAD_ROOM + ENTRY_HEAD_MAX +
			   ATP_MST_LEVELS_MAX * (ENTRY_TAIL_MAX + NODE_TAIL_MAX),
			   "room for one entry, after all nodes below it are complete");

/* A node with no entries, up to the link to its subtree; and the only node of the tree without keys. */
#define KEYLESS			"\xa2\x61" "e\x80\x61l"
#define EMPTY			KEYLESS "\xf6"

static inline uint8_t *
put_raw(uint8_t *p, const void *bytes, size_t n)
{
	memcpy(p, bytes, n);
	return p + n;
}

#define PUT(p, literal)		put_raw(p, literal, sizeof(literal) - 1)

/* Writes a head in its shortest form. */
static inline uint8_t *
put_head(uint8_t *p, uint8_t major, uint64_t n)
{
	unsigned	bytes = n < 24 ? 0 : n <= 0xff ? 1 : n <= 0xffff ? 2 : n <= 0xffffffff ? 4 : 8;

	*p++ = (uint8_t) (major << 5 | (bytes == 0 ? n : bytes == 1 ? 24 : bytes == 2 ? 25 : bytes == 4 ? 26 : 27));
	while (bytes > 0)
		*p++ = (uint8_t) (n >> 8 * --bytes);
	return p;
}

static inline uint8_t *
put_cid_link(uint8_t *p, const uint8_t *cid, size_t n)
{
	p = PUT(p, "\xd8\x2a");
	p = put_head(p, 2, n + 1);
	*p++ = 0;
	return put_raw(p, cid, n);
}

static inline uint8_t *
put_subtree(uint8_t *p, const AtpMstSubtree *subtree)
{
	if (!subtree->present)
		return PUT(p, "\xf6");
	p = PUT(p, ATP_NODE_LINK);
	return put_raw(p, subtree->cid + ATP_CID_BLESSED_LEN - 32, 32);
}

static inline bool
has_room(AtpMstBuilder *b, size_t n)
{
	if (b->room - b->len >= n)
		return true;
	b->err = ATP_E_MST_ROOM;
	return false;
}

/* Names a complete node by its CID, in the subtree of which the node is the root. */
static void
name_node(const AtpMstBuilder *b, const uint8_t *node, size_t n, AtpMstSubtree *subtree)
{
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, node, n, b->sha256, b->ctx, subtree->cid);
	if (b->take_node != NULL)
		b->take_node(b->node_ctx, subtree, node, n);
}

void
atp_mst_root_begin(AtpMstBuilder *b, uint8_t *buf, size_t room, AtpSha256Fn sha256, void *ctx)
{
	b->buf = buf;
	b->room = room;
	b->len = 0;
	b->sha256 = sha256;
	b->ctx = ctx;
	b->take_node = NULL;
	b->err = ATP_OK;
	b->stub.present = b->stub.on_way = false;
	b->depth = 0;
}

/* V-22: wraps the subtree in nodes without entries, up to the layer below this one. */
static void
lift_subtree(AtpMstBuilder *b, AtpMstSubtree *subtree, unsigned layer)
{
	while (subtree->present && subtree->layer + 1 < layer)
	{
		uint8_t		node[sizeof(KEYLESS) - 1 + ATP_NODE_LINK_LEN];
		uint8_t    *p = PUT(node, KEYLESS);

		p = put_subtree(p, subtree);
		subtree->layer++;
		name_node(b, node, p - node, subtree);
	}
}

/* Completes the last entry of a node, once its subtree is known. */
static void
finish_entry(AtpMstBuilder *b, const AtpMstOpen *node, const AtpMstSubtree *subtree)
{
	uint8_t    *p;

	if (!has_room(b, ENTRY_TAIL_MAX))
		return;
	p = put_subtree(b->buf + b->len, subtree);
	p = PUT(p, "\x61v");
	p = put_cid_link(p, node->value, node->value_len);
	b->len = p - b->buf;
}

/*
 * Completes the lowest node. subtree is the subtree after the node's last key,
 * and becomes the node itself.
 */
static void
close_node(AtpMstBuilder *b, AtpMstSubtree *subtree)
{
	const AtpMstOpen *node = &b->open[b->depth - 1];
	uint8_t		head[HEAD_ROOM];
	uint8_t    *p = head;
	size_t		start;

	lift_subtree(b, subtree, node->layer);
	finish_entry(b, node, subtree);
	if (b->err != ATP_OK || !has_room(b, NODE_TAIL_MAX))
		return;
	p = PUT(b->buf + b->len, "\x61l");
	p = put_subtree(p, &node->left);
	b->len = p - b->buf;

	/*
	 * The head has the number of entries, which is known only now: write it
	 * into the reserved bytes before the entries.
	 */
	p = PUT(head, "\xa2\x61" "e");
	p = put_head(p, 4, node->entries);
	start = node->start - (p - head);
	memcpy(b->buf + start, head, p - head);
	subtree->present = true;
	subtree->on_way |= node->on_way;
	subtree->layer = node->layer;
	name_node(b, b->buf + start, b->len - start, subtree);
	b->len = node->start - HEAD_ROOM;
	b->depth--;
}

static size_t
common_prefix(const uint8_t *a, size_t an, AtpBytes b)
{
	size_t		n = 0;

	/* eight bytes at a time: keys of one collection share most of their bytes */
	while (an - n >= 8 && b.len - n >= 8 && memcmp(a + n, b.ptr + n, 8) == 0)
		n += 8;
	while (n < an && n < b.len && a[n] == b.ptr[n])
		n++;
	return n;
}

static void
begin_entry(AtpMstBuilder *b, AtpMstOpen *node, AtpBytes key, AtpBytes value)
{
	size_t		p = common_prefix(node->key, node->key_len, key);
	uint8_t    *out;

	if (!has_room(b, ENTRY_HEAD_MAX))
		return;
	out = PUT(b->buf + b->len, "\xa4\x61k");
	out = put_head(out, 2, key.len - p);
	out = put_raw(out, key.ptr + p, key.len - p);
	out = PUT(out, "\x61p");
	out = put_head(out, 0, p);
	out = PUT(out, "\x61t");
	b->len = out - b->buf;
	memcpy(node->key + p, key.ptr + p, key.len - p);
	node->key_len = key.len;
	memcpy(node->value, value.ptr, value.len);
	node->value_len = value.len;
	node->entries++;
}

void
atp_mst_root_leaf(AtpMstBuilder *b, AtpBytes key, AtpBytes value, unsigned height)
{
	AtpMstSubtree below = b->stub;
	AtpMstOpen *node = b->depth > 0 ? &b->open[b->depth - 1] : NULL;

	if (b->err != ATP_OK)
		return;
	if (key.len == 0 || key.len > ATP_MST_KEY_MAX || value.len > ATP_CID_MAX)
		b->err = ATP_E_MST_KEY_LONG;
	else if (height >= ATP_MST_LEVELS_MAX)
		b->err = ATP_E_MST_DEPTH;
	/* The preceding key is the last key of the lowest node. */
	else if (node != NULL && atp_mst_compare((AtpBytes) {node->key, node->key_len}, key) >= 0)
		b->err = ATP_E_MST_ORDER;

	/*
	 * V-20: a key of one of the absent subtree's layers would split the
	 * subtree, whose contents are unknown.
	 */
	else if (below.present && height <= below.layer)
		b->err = ATP_E_MST_MISSING;
	b->stub.present = false;
	while (b->err == ATP_OK && b->depth > 0 && b->open[b->depth - 1].layer < height)
		close_node(b, &below);
	if (b->err != ATP_OK)
		return;

	lift_subtree(b, &below, height);
	if (b->depth > 0 && b->open[b->depth - 1].layer == height)
	{
		finish_entry(b, &b->open[b->depth - 1], &below);
		b->open[b->depth - 1].on_way |= below.on_way;
	}
	else if (has_room(b, HEAD_ROOM))
	{
		node = &b->open[b->depth++];
		b->len += HEAD_ROOM;
		node->start = b->len;
		node->layer = height;
		node->entries = 0;
		node->on_way = below.on_way;
		node->left = below;
		node->key_len = 0;
	}
	if (b->err == ATP_OK)
		begin_entry(b, &b->open[b->depth - 1], key, value);
}

void
atp_mst_root_mark(AtpMstBuilder *b)
{
	if (b->depth > 0)
		b->open[b->depth - 1].on_way = true;
}

void
atp_mst_root_stub(AtpMstBuilder *b, AtpBytes cid, unsigned layer)
{
	if (b->err != ATP_OK)
		return;
	if (b->stub.present || (b->depth > 0 && b->open[b->depth - 1].layer <= layer))
		b->err = ATP_E_MST_MISSING;
	b->stub.present = true;
	b->stub.layer = layer;
	memcpy(b->stub.cid, cid.ptr, sizeof(b->stub.cid));
}

void
atp_mst_root_unknown(AtpMstBuilder *b)
{
	if (b->err == ATP_OK)
		b->err = ATP_E_MST_MISSING;
}

AtpErr
atp_mst_root_end(AtpMstBuilder *b, uint8_t root[ATP_CID_BLESSED_LEN])
{
	AtpMstSubtree top = b->stub;
	bool		alone = b->depth == 0 && top.present;

	memset(root, 0, ATP_CID_BLESSED_LEN);
	while (b->err == ATP_OK && b->depth > 0)
		close_node(b, &top);
	if (b->err != ATP_OK)
		return b->err;
	if (!top.present)
	{
		/* each search in the tree without keys ends here */
		top.on_way = true;
		top.layer = 0;
		name_node(b, (const uint8_t *) EMPTY, sizeof(EMPTY) - 1, &top);
	}
	memcpy(root, top.cid, ATP_CID_BLESSED_LEN);
	return alone ? ATP_E_MST_MISSING : ATP_OK;
}
