/*
 * frame_v1.c
 *		Event-stream framing in one object of DAG-CBOR, xrpc.v1.cbor: see frame.h.
 */
#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/wire/frame.h"

/* The type of a payload in the form of the first framing: "#commit" of "com.atproto.sync.subscribeRepos#commit" (J-23). */
static AtpErr
read_type(AtpFrame *frame)
{
	AtpCborReader r;
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	size_t		at;

	atp_cbor_init(&r, frame->payload.ptr, frame->payload.len, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = atp_cbor_next(&r, &item, &at)) != ATP_OK)
		return err;
	fields = atp_fields(&r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, &at)) == ATP_OK)
	{
		if (atp_span_is(key, "$type") && item.kind == ATP_CBOR_TEXT)
		{
			AtpSpan		type = atp_cbor_span(&item);
			const char *hash = type.len > 0 ? memchr(type.ptr, '#', type.len) : NULL;

			frame->type = type;
			frame->t = hash == NULL ? type : (AtpSpan) {hash, (size_t) (type.ptr + type.len - hash)};
		}
	}
	return frame->t.ptr != NULL ? ATP_OK : ATP_E_FRAME_T;
}

/* Reads the members of the object; *type is its "$type". */
static AtpErr
read_object(AtpCborReader *r, AtpFrame *frame, AtpSpan *type, size_t *at)
{
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;

	if ((err = atp_cbor_next(r, &item, at)) != ATP_OK)
		return err == ATP_E_CBOR_END ? ATP_E_FRAME_EMPTY : err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_FRAME_HEADER;
	fields = atp_fields(r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		if (item.kind == ATP_CBOR_TEXT && atp_span_is(key, "$type"))
			*type = atp_cbor_span(&item);
		else if (item.kind == ATP_CBOR_TEXT && atp_span_is(key, "error"))
			frame->error = atp_cbor_span(&item);
		else if (item.kind == ATP_CBOR_TEXT && atp_span_is(key, "message"))
			frame->message = atp_cbor_span(&item);
		else if (item.kind == ATP_CBOR_MAP && atp_span_is(key, "payload"))
		{
			frame->payload_at = item.at;
			if ((err = atp_cbor_finish(r, fields.depth, at)) != ATP_OK)
				return err;
			frame->payload = (AtpBytes) {r->buf + item.at, r->pos - item.at};
		}
	}
	return err == ATP_E_CBOR_END ? ATP_OK : err;
}

AtpErr
atp_frame_parse_v1(const uint8_t *buf, size_t len, AtpFrame *frame, size_t *at)
{
	AtpCborReader r;
	AtpSpan		type = {NULL, 0};
	AtpErr		err;

	*frame = (AtpFrame) {.kind = ATP_FRAME_UNKNOWN};
	*at = ATP_FRAME_MAX;
	if (len > ATP_FRAME_MAX)
		return ATP_E_FRAME_SIZE;
	atp_cbor_init(&r, buf, len, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = read_object(&r, frame, &type, at)) != ATP_OK)
		return err;
	*at = 0;
	if (type.ptr == NULL)
		return ATP_E_FRAME_OP;
	*at = r.pos;
	if (r.pos != len)
		return ATP_E_FRAME_TRAILING;
	*at = 0;
	if (atp_span_is(type, "message"))
	{
		frame->kind = ATP_FRAME_MESSAGE;
		frame->op_u = 1;
		if (frame->payload.ptr == NULL)
			return ATP_E_FRAME_PAYLOAD;
		*at = frame->payload_at;
		return read_type(frame);
	}
	if (atp_span_is(type, "error"))
	{
		frame->kind = ATP_FRAME_ERROR;
		frame->op_negative = true;
		return frame->error.ptr != NULL ? ATP_OK : ATP_E_FRAME_ERROR;
	}
	return ATP_OK;
}

bool
atp_frame_is_of(const AtpFrame *frame, const char *nsid)
{
	return frame->type.ptr == NULL || frame->type.len == frame->t.len ||
		atp_span_is((AtpSpan) {frame->type.ptr, frame->type.len - frame->t.len}, nsid);
}

AtpSpan
atp_frame_type(const AtpFrame *frame)
{
	return frame->type.ptr != NULL ? frame->type : frame->t;
}

AtpErr
atp_frame_parse_any(const uint8_t *buf, size_t len, AtpFrame *frame, size_t *at)
{
	AtpErr		err = atp_frame_parse(buf, len, frame, at);

	return err == ATP_E_FRAME_OP ? atp_frame_parse_v1(buf, len, frame, at) : err;
}
