/*
 * format_message.c
 *		Messages of all other streams, stored as jsonb.
 *
 * Whether a stream has sequence numbers is taken from each message (D30), since the lexicon is
 * unknown.
 */
#include "postgres.h"

#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/wire/json_frame.h"
#include "stream/format.h"
#include "utils/builtins.h"

/*
 * Look for "seq" and "time" at the top level of the payload, and for the name of an #info.  Whatever the
 * lexicon, an #info without a sequence number and with the name OutdatedCursor concerns the stream (E-44).
 */
static AtpErr
parse_message_head(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	const AtpFrame *frame = &decoder->frame;
	AtpCborReader r;
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	AtpSpan		name = {NULL, 0};

	head->what = ATP_HEAD_EVENT;
	atp_cbor_init(&r, frame->payload.ptr, frame->payload.len, ATP_CBOR_DEPTH_MAX);
	if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
		return err;
	fields = atp_fields(&r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		if (atp_span_is(key, "seq"))
		{
			if ((err = atp_field_seq(&item, &head->seq)) != ATP_OK)
			{
				*at = frame->payload_at + item.at;
				return err;
			}
		}
		else if (atp_span_is(key, "time") && item.kind == ATP_CBOR_TEXT)
			head->time = atp_cbor_span(&item);
		else if (atp_span_is(key, "name") && item.kind == ATP_CBOR_TEXT)
			name = atp_cbor_span(&item);
	}
	if (err != ATP_E_CBOR_END)
		return err;
	if (head->seq == 0 && atp_span_is(frame->t, "#info") && atp_head_of_info(name) == ATP_HEAD_OUTDATED)
		head->what = ATP_HEAD_OUTDATED;
	return ATP_OK;
}

/*
 * Make the row of a message whose payload was converted to DAG-CBOR with the result err; at is the fault's
 * offset in the message.
 */
static bool
make_row(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event, AtpBytes cbor, AtpErr err, size_t at)
{
	const AtpFrame *frame = &decoder->frame;
	Jsonb	   *payload;
	bytea	   *raw;
	size_t		within = 0;
	AtpRow	   *row;

	if (err == ATP_OK)
		err = atp_make_jsonb(cbor, decoder->settings->keep_raw, &payload, &raw, &within);
	if (err == ATP_OK && memchr(frame->t.ptr, 0, frame->t.len) != NULL)
		err = ATP_E_MSG_NUL;
	if (err != ATP_OK)
	{
		(void) atp_dead_letter(batch, "message", event, err, at + within);
		return false;
	}
	row = atp_batch_new_row(batch);
	/* no path: the row is the whole event */
	row->message.type = cstring_to_text_with_len(frame->t.ptr, frame->t.len);
	row->message.payload = payload;
	row->message.raw = raw;
	event->nrows++;
	return true;
}

static bool
make_message_event(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	return make_row(decoder, batch, event, decoder->frame.payload, ATP_OK, decoder->frame.payload_at);
}

const AtpFormat atp_message_format = {.cut = atp_cut_frame, .parse = parse_message_head, .make = make_message_event};

/* --- the same in JSON (E-60) --- */

/* J-23: the value which the binary framing has in its field "t". */
static AtpSpan
short_type(AtpSpan type)
{
	const char *fragment = memchr(type.ptr, '#', type.len);

	return fragment == NULL ? type : (AtpSpan) {fragment, type.ptr + type.len - fragment};
}

static AtpErr
parse_json(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	static const char *const names[] = {"$type", "seq", "time", "name"};
	enum
	{
		TYPE, SEQ, TIME, NAME, NAMES
	};
	AtpJsonTexts *texts = &decoder->jetstream.texts;
	AtpFrame   *frame = &decoder->frame;
	AtpJsonItem field[NAMES];
	AtpSpan		type;
	AtpErr		err = atp_json_read_object(frame->payload, names, NAMES, field, at);

	head->what = ATP_HEAD_EVENT;
	texts->used = 0;
	*at += frame->payload_at;
	if (field[SEQ].kind != ATP_JSON_NULL)
	{
		AtpErr		seq_err = atp_json_seq(&field[SEQ], &head->seq);

		if (seq_err != ATP_OK)
			return seq_err;
	}
	if (err != ATP_OK)
		return err;
	if (!atp_json_take_text(texts, &field[TYPE], &type))
		return ATP_E_JSON_TYPE;
	frame->t = short_type(type);
	(void) atp_json_take_text(texts, &field[TIME], &head->time);
	if (head->seq == 0 && atp_span_is(frame->t, "#info") && atp_json_take_text(texts, &field[NAME], &type) &&
		atp_head_of_info(type) == ATP_HEAD_OUTDATED)
		head->what = ATP_HEAD_OUTDATED;
	return ATP_OK;
}

static bool
make_json(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	const AtpBytes payload = decoder->frame.payload;
	uint8_t    *room;
	AtpBytes	cbor;
	size_t		at;
	AtpErr		err = atp_make_dagcbor((AtpSpan) {(const char *) payload.ptr, payload.len}, &cbor, &room, &at);
	bool		made = make_row(decoder, batch, event, cbor, err, decoder->frame.payload_at + (err != ATP_OK ? at : 0));

	pfree(room);
	return made;
}

const AtpFormat atp_message_json_format = {.cut = atp_cut_json, .parse = parse_json, .make = make_json};
