/*
 * made_frame.c
 *		Frames of subscribeRepos: see made_frame.h.
 */
#include "core/syntax/tid.h"
#include "made_frame.h"

static void
put_op(AtpCborWriter *w, const AtpMstLeaf *leaf)
{
	atp_cbor_put_map(w, 3);
	atp_cbor_put_key(w, "cid");
	atp_cbor_put_link(w, leaf->value.ptr, leaf->value.len);
	atp_cbor_put_key(w, "path");
	atp_cbor_put_text(w, (const char *) leaf->key.ptr, leaf->key.len);
	atp_cbor_put_key(w, "action");
	atp_cbor_put_key(w, "create");
}

/* Keys of a map come in the order of their lengths (B-11). */
void
made_frame_put(AtpCborWriter *w, const MadeFrame *frame)
{
	atp_cbor_put_map(w, 2);
	atp_cbor_put_key(w, "t");
	atp_cbor_put_key(w, "#commit");
	atp_cbor_put_key(w, "op");
	atp_cbor_put_uint(w, 1);
	atp_cbor_put_map(w, 12);
	atp_cbor_put_key(w, "ops");
	atp_cbor_put_array(w, 1);
	put_op(w, &frame->leaf);
	atp_cbor_put_key(w, "rev");
	atp_cbor_put_text(w, frame->rev, ATP_TID_TEXT);
	atp_cbor_put_key(w, "seq");
	atp_cbor_put_uint(w, frame->seq);
	atp_cbor_put_key(w, "repo");
	atp_cbor_put_key(w, frame->did);
	atp_cbor_put_key(w, "time");
	atp_cbor_put_key(w, "2026-01-01T00:00:00.000Z");
	atp_cbor_put_key(w, "blobs");
	atp_cbor_put_array(w, 0);
	atp_cbor_put_key(w, "since");
	if (frame->since == NULL)
		atp_cbor_put_null(w);
	else
		atp_cbor_put_text(w, frame->since, ATP_TID_TEXT);
	atp_cbor_put_key(w, "blocks");
	atp_cbor_put_bytes(w, frame->car.ptr, frame->car.len);
	atp_cbor_put_key(w, "commit");
	atp_cbor_put_link(w, frame->commit.ptr, frame->commit.len);
	atp_cbor_put_key(w, "rebase");
	atp_cbor_put_bool(w, false);
	atp_cbor_put_key(w, "tooBig");
	atp_cbor_put_bool(w, false);
	atp_cbor_put_key(w, "prevData");
	atp_cbor_put_link(w, frame->prev_data.ptr, frame->prev_data.len);
}

bool
made_frame_write(const AtpCborWriter *frame, FILE *f)
{
	uint8_t		head[4];

	for (int k = 0; k < 4; k++)
		head[k] = (uint8_t) (frame->len >> (24 - 8 * k));
	return fwrite(head, 1, sizeof(head), f) == sizeof(head) && fwrite(frame->buf, 1, frame->len, f) == frame->len;
}
