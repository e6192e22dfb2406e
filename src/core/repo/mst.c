/*
 * mst.c
 *		Reads Merkle search trees.  See mst.h.
 *
 * A node is {e: [{k, p, t, v}, ...], l}: l is the subtree before the first entry, and t the subtree after an
 * entry.  An entry's key is the first p bytes of the preceding key in the node, followed by k. v is the
 * record's CID.
 */
#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "core/repo/mst.h"

/* The greatest height of a key: half the bits of a SHA-256 hash. */
#define HEIGHT_MAX	128

unsigned
atp_mst_height(const uint8_t *key, size_t n, AtpSha256Fn sha256, void *ctx)
{
	uint8_t		digest[32];
	unsigned	bits = 0;

	sha256(ctx, key, n, digest);
	while (bits < 256 && digest[bits / 8] == 0)
		bits += 8;
	if (bits < 256)
		bits += (unsigned) __builtin_clz(digest[bits / 8]) - 8 * (sizeof(int) - 1);
	return bits / 2;
}

/* Are the next bytes this string literal? */
#define EXPECT(r, literal)	atp_cbor_expect(r, literal, sizeof(literal) - 1)

/*
 * A node's shape is fixed, and DAG-CBOR has one encoding for everything.  So most of a node is compared with
 * the expected bytes instead of being decoded item by item.  Any deviation is ATP_E_MST_NODE, also where a
 * decoder would name another fault.
 */
static inline bool
is_node_link(const uint8_t *p, size_t left, AtpBytes *cid)
{
	if (left < ATP_NODE_LINK_LEN || memcmp(p, ATP_NODE_LINK, sizeof(ATP_NODE_LINK) - 1) != 0)
		return false;
	*cid = (AtpBytes) {p + ATP_NODE_LINK_LEN - ATP_CID_BLESSED_LEN, ATP_CID_BLESSED_LEN};
	return true;
}

static inline bool
read_node_link(AtpCborReader *r, AtpBytes *cid)
{
	if (!is_node_link(r->buf + r->pos, r->len - r->pos, cid))
		return false;
	r->pos += ATP_NODE_LINK_LEN;
	return true;
}

static inline bool
read_subtree(AtpCborReader *r, AtpBytes *cid)
{
	*cid = (AtpBytes) {NULL, 0};
	return EXPECT(r, "\xf6") || read_node_link(r, cid);
}

/*
 * The length of a head of one byte, or of two bytes in the shortest form; 0: another head, which
 * atp_cbor_item() must read.
 */
static inline size_t
short_head(const uint8_t *p, size_t left, uint8_t major, uint64_t *n)
{
	unsigned	info;

	if (left == 0 || p[0] >> 5 != major)
		return 0;
	*n = info = p[0] & 31;
	if (info < 24)
		return 1;
	if (info > 24 || left < 2)
		return 0;
	*n = p[1];
	return *n < 24 ? 0 : 2;
}

static inline bool
read_short_head(AtpCborReader *r, uint8_t major, uint64_t *n)
{
	size_t		len = short_head(r->buf + r->pos, r->len - r->pos, major, n);

	r->pos += len;
	return len > 0;
}

/*
 * Reads an entry of the usual form at once: with short heads, and a value that is a CID of DAG-CBOR.  False:
 * nothing was read, and read_node_entry() must read item by item.
 */
static inline bool
read_usual_entry(AtpCborReader *r, AtpMstEntry *entry)
{
	const uint8_t *p = r->buf + r->pos;
	const uint8_t *end = r->buf + r->len;
	uint64_t	suffix;
	size_t		n;

	if (end - p < 3 || memcmp(p, "\xa4\x61k", 3) != 0)
		return false;
	p += 3;
	if ((n = short_head(p, end - p, 2, &suffix)) == 0 || (size_t) (end - p) < n + suffix + 2)
		return false;
	p += n;
	entry->suffix = (AtpBytes) {p, (size_t) suffix};
	p += suffix;
	if (memcmp(p, "\x61p", 2) != 0)
		return false;
	p += 2;
	if ((n = short_head(p, end - p, 0, &entry->prefix)) == 0 || (size_t) (end - p) < n + 3)
		return false;
	p += n;
	if (memcmp(p, "\x61t", 2) != 0)
		return false;
	p += 2;
	entry->subtree = (AtpBytes) {NULL, 0};
	if (*p == 0xf6)
		p++;
	else if (is_node_link(p, end - p, &entry->subtree))
		p += ATP_NODE_LINK_LEN;
	else
		return false;
	if (end - p < 2 || memcmp(p, "\x61v", 2) != 0 || !is_node_link(p + 2, end - p - 2, &entry->value))
		return false;
	r->pos = p + 2 + ATP_NODE_LINK_LEN - r->buf;
	return true;
}

static inline AtpErr
read_suffix(AtpCborReader *r, AtpBytes *suffix, size_t *at)
{
	size_t		start = r->pos;
	AtpCborItem item;
	uint64_t	n;
	AtpErr		err;

	if (read_short_head(r, 2, &n) && n <= r->len - r->pos)
	{
		*suffix = (AtpBytes) {r->buf + r->pos, (size_t) n};
		r->pos += (size_t) n;
		return ATP_OK;
	}
	r->pos = start;
	if ((err = atp_cbor_item(r, &item, at)) != ATP_OK)
		return err;
	*suffix = item.str;
	return item.kind == ATP_CBOR_BYTES ? ATP_OK : ATP_E_MST_NODE;
}

static inline AtpErr
read_prefix(AtpCborReader *r, uint64_t *prefix, size_t *at)
{
	AtpCborItem item;
	AtpErr		err;

	if (read_short_head(r, 0, prefix))
		return ATP_OK;
	if ((err = atp_cbor_item(r, &item, at)) != ATP_OK)
		return err;
	*prefix = item.u;
	return item.kind == ATP_CBOR_UINT ? ATP_OK : ATP_E_MST_NODE;
}

static AtpErr
read_node_entry(AtpCborReader *r, AtpMstEntry *entry, size_t *at)
{
	AtpCborItem item;
	AtpErr		err;

	*at = entry->at = r->pos;
	if (read_usual_entry(r, entry))
		return ATP_OK;
	if (!EXPECT(r, "\xa4\x61k"))
		return ATP_E_MST_NODE;
	if ((err = read_suffix(r, &entry->suffix, at)) != ATP_OK)
		return err;
	if (!EXPECT(r, "\x61p"))
		return ATP_E_MST_NODE;
	if ((err = read_prefix(r, &entry->prefix, at)) != ATP_OK)
		return err;
	if (!EXPECT(r, "\x61t"))
		return ATP_E_MST_NODE;
	*at = r->pos;
	if (!read_subtree(r, &entry->subtree) || !EXPECT(r, "\x61v"))
		return ATP_E_MST_NODE;
	if (!read_node_link(r, &entry->value))
	{
		/* B-42: a record's CID may have any codec and hash. */
		if ((err = atp_cbor_item(r, &item, at)) != ATP_OK)
			return err;
		if (item.kind != ATP_CBOR_LINK)
			return ATP_E_MST_NODE;
		entry->value = item.str;
	}
	return ATP_OK;
}

/* Reads a node up to its first entry. */
static AtpErr
read_node_head(AtpCborReader *r, AtpBytes node, uint64_t *count, size_t *at)
{
	AtpCborItem item;
	AtpErr		err;

	atp_cbor_init(r, node.ptr, node.len, ATP_CBOR_DEPTH_DEFAULT);
	*at = 0;
	if (!EXPECT(r, "\xa2\x61" "e"))
		return ATP_E_MST_NODE;
	if ((err = atp_cbor_item(r, &item, at)) != ATP_OK)
		return err;
	if (item.kind != ATP_CBOR_ARRAY)
		return ATP_E_MST_NODE;
	*count = item.u;
	return ATP_OK;
}

/* Reads a node after its last entry. */
static AtpErr
read_node_tail(AtpCborReader *r, AtpBytes *left, size_t *at)
{
	*at = r->pos;
	if (!EXPECT(r, "\x61l") || !read_subtree(r, left))
		return ATP_E_MST_NODE;
	*at = r->pos;
	return r->pos == r->len ? ATP_OK : ATP_E_CBOR_TRAILING;
}

/*
 * Turns the preceding key in the node into the entry's key, in place; *len is 0 before the first entry. p
 * must be as long as possible, and keys must ascend.
 */
static AtpErr
next_key(uint8_t *key, size_t *len, const AtpMstEntry *entry)
{
	size_t		p = (size_t) entry->prefix;
	AtpBytes	k = entry->suffix;

	if (entry->prefix > *len)
		return ATP_E_MST_PREFIX;
	if (k.len == 0)
		return ATP_E_MST_ORDER; /* the key is empty, or a prefix of the preceding key */
	if (p < *len && k.ptr[0] <= key[p])
		return k.ptr[0] == key[p] ? ATP_E_MST_PREFIX : ATP_E_MST_ORDER;
	if (k.len > ATP_MST_KEY_MAX - p)
		return ATP_E_MST_KEY_LONG;
	memcpy(key + p, k.ptr, k.len);
	*len = p + k.len;
	return ATP_OK;
}

/* Checks the form of the level's whole node; keeps the first entries, and the subtree before them. */
static AtpErr
open_node(AtpMstLevel *level, size_t *at)
{
	AtpCborReader r;
	AtpErr		err;

	level->nkept = level->next_kept = 0;
	if ((err = read_node_head(&r, level->node, &level->left, at)) != ATP_OK)
		return err;
	level->pos = r.pos;
	for (uint64_t i = 0; i < level->left; i++)
	{
		AtpMstEntry entry;

		if ((err = read_node_entry(&r, i < ATP_MST_KEPT ? &level->kept[i] : &entry, at)) != ATP_OK)
			return err;
		if (i < ATP_MST_KEPT)
		{
			level->nkept++;
			level->pos = r.pos;
		}
	}
	return read_node_tail(&r, &level->subtree, at);
}

/*
 * The level's next entry, of a node that open_node() has accepted: a kept one, or one read into memory of the
 * caller.  *pos becomes the level's position behind the entry.
 */
static inline AtpErr
find_entry(const AtpMstLevel *level, AtpMstEntry *memory, const AtpMstEntry **entry, size_t *pos, size_t *at)
{
	AtpCborReader r;
	AtpErr		err;

	*pos = level->pos;
	if (level->next_kept < level->nkept)
	{
		*entry = &level->kept[level->next_kept];
		*at = (*entry)->at;
		return ATP_OK;
	}
	*entry = memory;
	atp_cbor_init(&r, level->node.ptr, level->node.len, ATP_CBOR_DEPTH_DEFAULT);
	r.pos = level->pos;
	err = read_node_entry(&r, memory, at);
	*pos = r.pos;
	return err;
}

/* The offset of a node, or of a link to a node; 0 with a source: see atp_mst_begin_source(). */
static inline size_t
offset_of(const AtpMstWalk *walk, const uint8_t *place)
{
	return walk->source != NULL ? 0 : (size_t) (place - walk->tree.base);
}

static inline bool
find_node(const AtpMstWalk *walk, AtpBytes cid, AtpBytes *node)
{
	const AtpCarBlock *block;

	if (walk->source != NULL)
		return walk->source->read(walk->source->ctx, walk->depth, cid, node);
	block = atp_car_index_find(walk->tree.index, cid);
	if (block == NULL)
		return false;
	*node = block->data;
	return true;
}

/*
 * B-64: enters the node that this link names; layer is the height of the node's keys.  In a partial walk the node
 * may be absent: then the walk notes the gap.
 */
static AtpErr
push_node(AtpMstWalk *walk, AtpBytes cid, unsigned layer, size_t *at)
{
	AtpMstLevel *level = &walk->level[walk->depth];
	AtpErr		err;

	*at = offset_of(walk, cid.ptr);
	if (walk->depth >= ATP_MST_LEVELS_MAX)
		return ATP_E_MST_DEPTH;
	if (!find_node(walk, cid, &level->node))
	{
		walk->stub = cid;
		if (!walk->partial)
			return ATP_E_MST_MISSING;
		walk->gap = layer + 1;
		return ATP_OK;
	}

	/*
	 * V-24: nodes of one tree differ, because their keys do.  More visits than blocks mean that a node is
	 * reached twice, perhaps in a loop.
	 */
	if (++walk->visits > (walk->source != NULL ? walk->source->blocks : walk->tree.index->n))
		return ATP_E_MST_TWICE;
	level->layer = layer;
	level->key_len = 0;
	err = open_node(level, at);
	*at += offset_of(walk, level->node.ptr);
	if (err != ATP_OK)
		return err;

	/*
	 * V-22: only two kinds of nodes have no entries: the root of an empty tree, and below the root a node that
	 * only links to a subtree.
	 */
	if (level->left == 0 && (level->subtree.ptr == NULL) != (walk->depth == 0))
		return ATP_E_MST_EMPTY;
	walk->depth++;
	return ATP_OK;
}

static AtpErr
begin_tree(AtpMstWalk *walk, const AtpMstTree *tree, const AtpMstSource *source, bool partial, size_t *at)
{
	AtpMstLevel *top = &walk->level[0];
	size_t		pos;
	AtpMstEntry memory;
	const AtpMstEntry *entry;
	AtpErr		err;

	walk->tree = *tree;
	walk->source = source;
	walk->partial = partial;
	walk->range = 0;
	walk->gap = 0;
	walk->visits = 0;
	walk->depth = 0;
	walk->last_len = 0;
	walk->last_depth = 0;
	*at = 0;
	if ((err = push_node(walk, tree->root, HEIGHT_MAX, at)) != ATP_OK)
		return err;
	if (walk->depth == 0 || top->left == 0)
		return ATP_OK;

	/* The height of the root's first key is the layer of the root. */
	if ((err = find_entry(top, &memory, &entry, &pos, at)) != ATP_OK)
		return err;
	top->layer = atp_mst_height(entry->suffix.ptr, entry->suffix.len, tree->sha256, tree->ctx);
	return ATP_OK;
}

AtpErr
atp_mst_begin(AtpMstWalk *walk, const AtpMstTree *tree, size_t *at)
{
	return begin_tree(walk, tree, NULL, false, at);
}

AtpErr
atp_mst_begin_source(AtpMstWalk *walk, const AtpMstSource *source, AtpBytes root,
					 AtpSha256Fn sha256, void *ctx, size_t *at)
{
	return begin_tree(walk, &(AtpMstTree) {.root = root, .sha256 = sha256, .ctx = ctx}, source, false, at);
}

int
atp_mst_compare(AtpBytes a, AtpBytes b)
{
	int			cmp = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);

	return cmp != 0 ? cmp : (a.len > b.len) - (a.len < b.len);
}

/* The next entry of the lowest level. */
static AtpErr
next_leaf(AtpMstWalk *walk, AtpMstLevel *level, AtpMstLeaf *leaf, size_t *at)
{
	AtpMstEntry memory;
	const AtpMstEntry *entry;
	AtpErr		err;

	if ((err = find_entry(level, &memory, &entry, &level->pos, at)) == ATP_OK)
		*at = entry->at;
	*at += offset_of(walk, level->node.ptr);
	if (err != ATP_OK ||
		(err = next_key(level->key, &level->key_len, entry)) != ATP_OK)
		return err;
	level->left--;
	if (level->next_kept < level->nkept)
		level->next_kept++;
	level->subtree = entry->subtree;

	/*
	 * next_key() compares keys within one node.  Between two nodes of the same depth lies a key of a level
	 * above, so that a comparison is needed only when the depth changes.
	 */
	if (walk->last_depth != walk->depth &&
		atp_mst_compare((AtpBytes) {level->key, level->key_len},
						(AtpBytes) {walk->last, walk->last_len}) <= 0)
		return ATP_E_MST_ORDER;
	if (atp_mst_height(level->key, level->key_len, walk->tree.sha256, walk->tree.ctx) != level->layer)
		return ATP_E_MST_LAYER;
	memcpy(walk->last, level->key, level->key_len);
	walk->last_len = level->key_len;
	walk->last_depth = walk->depth;
	leaf->key = (AtpBytes) {walk->last, walk->last_len};
	leaf->value = entry->value;
	return ATP_OK;
}

/* P-13: is the key that was read last in a range?  Keys ascend, so that ranges before the key are done with. */
static bool
is_in_range(AtpMstWalk *walk)
{
	const AtpMstSource *source = walk->source;
	AtpBytes	key = {walk->last, walk->last_len};

	if (source == NULL || source->ranges == NULL)
		return true;
	while (walk->range < source->nranges && atp_key_compare(key, source->ranges[walk->range].end) >= 0)
		walk->range++;
	if (walk->range == source->nranges || atp_key_compare(key, source->ranges[walk->range].first) < 0)
		return false;
	/* the range of a single key is done with, too: the subtree behind the key need not be there */
	if (atp_key_is_before(key, source->ranges[walk->range].end))
		walk->range++;
	return true;
}

/*
 * The key after a link of the lowest level, in advance: *key is empty if the tree has no later key.  The key
 * stands in the link's node, or in the lowest node above with entries left.
 */
static AtpErr
peek_key(const AtpMstWalk *walk, uint8_t buf[ATP_MST_KEY_MAX], AtpBytes *key, size_t *at)
{
	*key = (AtpBytes) {buf, 0};
	for (unsigned i = walk->depth; i-- > 0;)
	{
		const AtpMstLevel *level = &walk->level[i];
		size_t		pos;
		AtpMstEntry memory;
		const AtpMstEntry *entry;
		AtpErr		err;

		if (level->left == 0)
			continue;
		if ((err = find_entry(level, &memory, &entry, &pos, at)) != ATP_OK)
			return err;
		memcpy(buf, level->key, level->key_len);
		key->len = level->key_len;
		return next_key(buf, &key->len, entry);
	}
	return ATP_OK;
}

/*
 * P-13: can the subtree of this link have keys of a range?  The subtree's keys lie between the key that was read
 * last and the key after the link, exclusive (P-12): next_leaf() checks both when the walk reads the keys.
 */
static AtpErr
check_link(const AtpMstWalk *walk, bool *wanted, size_t *at)
{
	const AtpMstSource *source = walk->source;
	uint8_t		buf[ATP_MST_KEY_MAX];
	AtpBytes	next;
	AtpErr		err;

	*wanted = true;
	if (source == NULL || source->ranges == NULL)
		return ATP_OK;
	*wanted = walk->range < source->nranges;
	if (!*wanted || atp_key_compare((AtpBytes) {walk->last, walk->last_len}, source->ranges[walk->range].first) >= 0)
		return ATP_OK;
	if ((err = peek_key(walk, buf, &next, at)) == ATP_OK && next.len > 0)
		*wanted = atp_key_compare(next, source->ranges[walk->range].first) > 0;
	return err;
}

AtpErr
atp_mst_next(AtpMstWalk *walk, AtpMstLeaf *leaf, size_t *at)
{
	*at = 0;
	while (walk->depth > 0)
	{
		AtpMstLevel *level = &walk->level[walk->depth - 1];
		AtpErr		err = ATP_OK;

		if (level->subtree.ptr != NULL)
		{
			AtpBytes	child = level->subtree;
			bool		wanted;

			level->subtree.ptr = NULL;
			*at = offset_of(walk, child.ptr);
			if (level->layer == 0)
				return ATP_E_MST_LAYER;
			if ((err = check_link(walk, &wanted, at)) == ATP_OK && wanted)
				err = push_node(walk, child, level->layer - 1, at);
		}
		else if (level->left == 0)
			walk->depth--;
		else if ((err = next_leaf(walk, level, leaf, at)) == ATP_OK && is_in_range(walk))
			return ATP_OK;
		if (err != ATP_OK)
			return err;
	}
	return ATP_E_MST_END;
}

/* The walk has passed this key's place without finding the key (V-17). */
static void
set_absent(const AtpMstWalk *walk, AtpMstLookup *lookup, AtpMstBuilder *before)
{
	bool		is_undone = before != NULL && lookup->before.ptr != NULL;
	unsigned	height = 0;

	lookup->value = (AtpBytes) {NULL, 0};
	if (walk->gap > 0 || is_undone)
		height = atp_mst_height(lookup->key.ptr, lookup->key.len, walk->tree.sha256, walk->tree.ctx);

	/* All keys of an absent subtree have a smaller height than the keys of the node that links to it. */
	lookup->unknown = height < walk->gap;
	if (before == NULL)
		return;
	/* V-20: the key's place relative to the absent subtree is unknown: before it, after it, or within. */
	if (walk->gap > 0)
		atp_mst_root_unknown(before);
	else if (is_undone)
		atp_mst_root_leaf(before, lookup->key, lookup->before, height);
}

AtpErr
atp_mst_lookup(AtpMstWalk *walk, const AtpMstTree *tree, AtpMstLookup *list, size_t n,
			   AtpMstBuilder *before, size_t *at)
{
	size_t		i = 0;
	AtpErr		err = begin_tree(walk, tree, NULL, true, at);

	while (err == ATP_OK)
	{
		AtpMstLeaf	leaf;
		int			cmp = -1;

		err = atp_mst_next(walk, &leaf, at);
		if (err != ATP_OK && err != ATP_E_MST_END)
			break;
		while (i < n && (err == ATP_E_MST_END ||
						 (cmp = atp_mst_compare(list[i].key, leaf.key)) < 0))
			set_absent(walk, &list[i++], before);
		if (before != NULL && walk->gap > 0)
			atp_mst_root_stub(before, walk->stub, walk->gap - 1);
		walk->gap = 0;
		if (i < n && cmp == 0)
		{
			list[i].value = leaf.value;
			list[i].unknown = false;
			leaf.value = list[i++].before;
		}
		if (before != NULL && err == ATP_OK && leaf.value.ptr != NULL)
			atp_mst_root_leaf(before, leaf.key, leaf.value, walk->level[walk->depth - 1].layer);
	}
	return err == ATP_E_MST_END ? ATP_OK : err;
}
