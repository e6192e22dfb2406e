/*
 * message.c
 *		Messages of any other lexicon's stream, kept as jsonb.
 *
 * Whether such a stream has sequence numbers, its messages tell (D30).
 */
#include "postgres.h"

#include "core/dagcbor.h"
#include "core/field.h"
#include "stream/format.h"
#include "utils/builtins.h"

/*
 * Look for "seq" and "time" at the top of the payload, and for the name of an
 * #info.  Whatever the lexicon, one without a sequence number that is called
 * OutdatedCursor is about the stream (E-44).
 */
static AtpErr
parse(AtpDecoder *decoder, AtpHead *head, size_t *at)
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

static bool
make(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	const AtpFrame *frame = &decoder->frame;
	Jsonb	   *payload;
	bytea	   *raw;
	size_t		at = 0;
	AtpErr		err = atp_make_jsonb(frame->payload, decoder->settings->keep_raw, &payload, &raw, &at);
	AtpRow	   *row;

	if (err == ATP_OK && memchr(frame->t.ptr, 0, frame->t.len) != NULL)
		err = ATP_E_MSG_NUL;
	if (err != ATP_OK)
	{
		(void) atp_dead_letter(batch, "message", event, err, frame->payload_at + at);
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

const AtpFormat atp_message_format = {.cut = atp_cut_frame, .parse = parse, .make = make};
