/*
 * frame.c
 *		Event-stream framing, rules E-20 to E-29: see frame.h.
 */
#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/wire/frame.h"

/* E-21: {op, t}; other fields of the header are ignored (E-23). */
static AtpErr
read_header(AtpCborReader *r, AtpFrame *frame, size_t *at)
{
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	bool		has_op = false;

	if ((err = atp_cbor_next(r, &item, at)) != ATP_OK)
		return err == ATP_E_CBOR_END ? ATP_E_FRAME_EMPTY : err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_FRAME_HEADER;
	fields = atp_fields(r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		if (atp_span_is(key, "op"))
		{
			if (item.kind == ATP_CBOR_UINT)
				frame->kind = item.u == 1 ? ATP_FRAME_MESSAGE : ATP_FRAME_UNKNOWN;
			else if (item.kind == ATP_CBOR_NINT)
				frame->kind = item.u == 0 ? ATP_FRAME_ERROR : ATP_FRAME_UNKNOWN;
			else
				return ATP_E_FRAME_OP;
			frame->op_negative = item.kind == ATP_CBOR_NINT;
			frame->op_u = item.u;
			has_op = true;
		}
		else if (atp_span_is(key, "t") && item.kind == ATP_CBOR_TEXT)
			frame->t = atp_cbor_span(&item);
	}
	if (err != ATP_E_CBOR_END)
		return err;
	*at = 0;
	if (!has_op)
		return ATP_E_FRAME_OP;
	if (frame->kind == ATP_FRAME_MESSAGE && frame->t.ptr == NULL)
		return ATP_E_FRAME_T;
	return ATP_OK;
}

/* E-27: {error, message}. */
static AtpErr
read_error(AtpFields fields, AtpFrame *frame, size_t *at)
{
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;

	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		bool		is_error = atp_span_is(key, "error");

		if (!is_error && !atp_span_is(key, "message"))
			continue;
		if (item.kind != ATP_CBOR_TEXT)
			return ATP_E_FRAME_ERROR;
		*(is_error ? &frame->error : &frame->message) = atp_cbor_span(&item);
	}
	if (err != ATP_E_CBOR_END)
		return err;
	*at = frame->payload_at;
	return frame->error.ptr != NULL ? ATP_OK : ATP_E_FRAME_ERROR;
}

/*
 * E-11, E-20: a header and a payload, and nothing else.  E-24: every error says
 * that the message is no frame, and drops the connection.  E-26: the payload is
 * a map, of which no member is read here, also not "$type".  E-29, E-30: the
 * published frames and our own have their verdicts by these rules.
 */
AtpErr
atp_frame_parse(const uint8_t *buf, size_t len, AtpFrame *frame, size_t *at)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpErr		err;

	*frame = (AtpFrame) {.kind = ATP_FRAME_UNKNOWN};
	*at = ATP_FRAME_MAX;
	if (len > ATP_FRAME_MAX)
		return ATP_E_FRAME_SIZE;
	atp_cbor_init(&r, buf, len, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = read_header(&r, frame, at)) != ATP_OK)
		return err;
	frame->payload_at = r.pos;
	frame->payload = (AtpBytes) {buf + r.pos, len - r.pos};
	if (frame->kind == ATP_FRAME_UNKNOWN)
		return ATP_OK;

	if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
		return err == ATP_E_CBOR_END ? ATP_E_FRAME_NO_PAYLOAD : err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_FRAME_PAYLOAD;
	if (frame->kind == ATP_FRAME_ERROR)
		err = read_error(atp_fields(&r, &item), frame, at);
	else
		err = atp_cbor_finish(&r, 0, at);
	if (err != ATP_OK)
		return err;
	if (r.pos != len)
	{
		*at = r.pos;
		return ATP_E_FRAME_TRAILING;
	}
	return ATP_OK;
}
