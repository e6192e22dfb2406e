/*
 * mst_build.c
 *		Building Merkle search trees.
 */
#include "core/codec/cbor_write.h"
#include "core/repo/mst.h"
#include "mst_build.h"

typedef struct Build
{
	const AtpMstItem *items;
	AtpSha256Fn sha256;
	void	   *sha_ctx;
	AtpBlockFn	emit;
	void	   *emit_ctx;
} Build;

static size_t
common_prefix(AtpBytes a, AtpBytes b)
{
	size_t		n = 0;

	while (n < a.len && n < b.len && a.ptr[n] == b.ptr[n])
		n++;
	return n;
}

/* The first item from lo on whose key belongs into this layer, or hi. */
static size_t
next_of_layer(const Build *b, size_t lo, size_t hi, unsigned layer)
{
	while (lo < hi && b->items[lo].height != layer)
		lo++;
	return lo;
}

static AtpErr build_node(const Build *b, size_t lo, size_t hi, unsigned layer,
						 uint8_t *scratch, size_t room, uint8_t cid[ATP_CID_BLESSED_LEN]);

/* The link to the tree of some items, one layer down; null when there are none. */
static AtpErr
put_subtree(const Build *b, AtpCborWriter *w, size_t lo, size_t hi, unsigned layer)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	AtpErr		err;

	if (lo == hi)
	{
		atp_cbor_put_null(w);
		return ATP_OK;
	}

	/* the child is made in what is left of the scratch, and is gone after */
	if (w->len > w->cap)
		return ATP_E_MST_ROOM;
	if ((err = build_node(b, lo, hi, layer - 1, w->buf + w->len, w->cap - w->len, cid)) != ATP_OK)
		return err;
	atp_cbor_put_link(w, cid, sizeof(cid));
	return ATP_OK;
}

/*
 * The node of items lo to hi, none of which is higher than layer.  Calls
 * itself for each layer below.
 */
static AtpErr
build_node(const Build *b, size_t lo, size_t hi, unsigned layer,
		   uint8_t *scratch, size_t room, uint8_t cid[ATP_CID_BLESSED_LEN])
{
	AtpCborWriter w = {.buf = scratch, .cap = room};
	size_t		first = next_of_layer(b, lo, hi, layer);
	size_t		entries = 0;
	AtpBytes	last = {NULL, 0};
	AtpErr		err;

	for (size_t i = first; i < hi; i = next_of_layer(b, i + 1, hi, layer))
		entries++;
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "e");
	atp_cbor_put_array(&w, entries);
	for (size_t i = first; i < hi;)
	{
		const AtpMstItem *item = &b->items[i];
		size_t		next = next_of_layer(b, i + 1, hi, layer);
		size_t		p = common_prefix(last, item->key);

		atp_cbor_put_map(&w, 4);
		atp_cbor_put_key(&w, "k");
		atp_cbor_put_bytes(&w, item->key.ptr + p, item->key.len - p);
		atp_cbor_put_key(&w, "p");
		atp_cbor_put_uint(&w, p);
		atp_cbor_put_key(&w, "t");
		if ((err = put_subtree(b, &w, i + 1, next, layer)) != ATP_OK)
			return err;
		atp_cbor_put_key(&w, "v");
		atp_cbor_put_link(&w, item->value.ptr, item->value.len);
		last = item->key;
		i = next;
	}
	atp_cbor_put_key(&w, "l");
	if ((err = put_subtree(b, &w, lo, first, layer)) != ATP_OK)
		return err;
	if (w.len > w.cap)
		return ATP_E_MST_ROOM;
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, w.buf, w.len, b->sha256, b->sha_ctx, cid);
	b->emit(b->emit_ctx, cid, w.buf, w.len);
	return ATP_OK;
}

AtpErr
atp_mst_build(AtpMstItem *items, size_t n, AtpSha256Fn sha256, void *sha_ctx,
			  uint8_t *scratch, size_t room, AtpBlockFn emit, void *emit_ctx,
			  uint8_t root[ATP_CID_BLESSED_LEN])
{
	const Build b = {items, sha256, sha_ctx, emit, emit_ctx};
	unsigned	top = 0;

	for (size_t i = 0; i < n; i++)
	{
		items[i].height = atp_mst_height(items[i].key.ptr, items[i].key.len, sha256, sha_ctx);
		if (items[i].height > top)
			top = items[i].height;
	}
	return build_node(&b, 0, n, top, scratch, room, root);
}
