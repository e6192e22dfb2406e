/*
 * any_cbor.c
 *		Readers of DAG-CBOR that give any item which the contract permits: for proofs of what stands on them.
 *
 * An item takes a byte at least; its text, bytes or link lie in these bytes; a container has no more members than
 * bytes follow; after its last member the reader is at an outer depth.  An error leaves an offset in the input.
 * cbor_item.c proves this of single items.
 */
#include "core/codec/dagcbor.h"
#include "lib/proof.h"

void
atp_cbor_init(AtpCborReader *r, const uint8_t *buf, size_t len, unsigned max_depth)
{
	r->buf = buf;
	r->len = len;
	r->pos = 0;
	r->depth = 0;
	r->max_depth = max_depth;
}

/* Moves forward by a byte at least; or an error, also behind the head of an item, and with an offset in it. */
static AtpErr
move(AtpCborReader *r, size_t *at)
{
	size_t		taken = any_size(r->len - r->pos);

	*at = any_bool() ? r->pos : r->pos + taken;
	r->pos += taken;
	if (taken == 0 || any_bool())
		return any_bool() ? ATP_E_CBOR_TRUNCATED : ATP_E_CBOR_KEY;
	return ATP_OK;
}

AtpErr
atp_cbor_next(AtpCborReader *r, AtpCborItem *item, size_t *at)
{
	const size_t from = r->pos;
	AtpErr		err;

	LAW(r->pos <= r->len);
	item->at = *at = from;
	if (r->pos == r->len && r->depth == 0)
		return ATP_E_CBOR_END;
	if ((err = move(r, at)) != ATP_OK)
		return err;
	item->kind = (AtpCborKind) any_size(ATP_CBOR_FLOAT);
	item->is_key = any_bool();
	item->has_nul = any_bool();
	item->u = any_u64();
	item->str = (AtpBytes) {r->buf + from, r->pos - from};
	if (item->kind == ATP_CBOR_TEXT || item->kind == ATP_CBOR_BYTES || item->kind == ATP_CBOR_LINK)
	{
		size_t		skip = any_size(item->str.len);

		ASSUME(skip > 0);
		item->str = (AtpBytes) {r->buf + from + skip, item->str.len - skip};
	}
	if (item->kind == ATP_CBOR_ARRAY || item->kind == ATP_CBOR_MAP)
	{
		ASSUME(item->u <= (item->kind == ATP_CBOR_MAP ? (r->len - r->pos) / 2 : r->len - r->pos));
		if (item->u > 0)
		{
			r->depth++;
			return ATP_OK;
		}
	}
	r->depth = (unsigned) any_size(r->depth);
	return ATP_OK;
}

AtpErr
atp_cbor_read_over(AtpCborReader *r, unsigned depth, size_t *at)
{
	AtpErr		err = move(r, at);

	if (err == ATP_OK)
		r->depth = depth;
	return err;
}
