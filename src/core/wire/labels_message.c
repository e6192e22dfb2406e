/*
 * labels_message.c
 *		Parser of the messages of com.atproto.label.subscribeLabels, in place:
 *		see labels_message.h.
 */
#include "core/codec/cid.h"
#include "core/lexicon/datetime.h"
#include "core/syntax/did.h"
#include "core/codec/field.h"
#include "core/wire/labels_message.h"
#include "core/syntax/uri.h"

/* Required fields of a label, as bits. */
enum
{
	L_SRC = 1,
	L_URI = 2,
	L_VAL = 4,
	L_CTS = 8,
	L_ALL = 15
};

AtpErr
atp_labels_parse(const AtpFrame *frame, AtpLabelsMessage *msg, size_t *at)
{
	AtpCborReader *r = &msg->reader;
	AtpCborReader found;
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	AtpErr		fault = ATP_OK;
	AtpErr		seq_fault = ATP_E_SEQ_MISSING;
	size_t		fault_at = 0;
	bool		has_labels = false;

	msg->seq = 0;
	msg->nlabels = 0;
	msg->name = (AtpSpan) {NULL, 0};
	msg->base = frame->payload_at;
	msg->kind = !atp_frame_is_of(frame, ATP_NSID_LABELS) ? ATP_LABELS_UNKNOWN
		: atp_span_is(frame->t, "#labels") ? ATP_LABELS_LABELS
		: atp_span_is(frame->t, "#info") ? ATP_LABELS_INFO : ATP_LABELS_UNKNOWN;

	atp_cbor_init(r, frame->payload.ptr, frame->payload.len, ATP_CBOR_DEPTH_MAX);
	*at = msg->base;
	if ((err = atp_cbor_next(r, &item, at)) != ATP_OK)
		return err;
	fields = atp_fields(r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		AtpErr		bad = ATP_OK;

		if (atp_span_is(key, "seq"))
			seq_fault = atp_field_seq(&item, &msg->seq);
		else if (msg->kind == ATP_LABELS_INFO && atp_span_is(key, "name"))
			bad = atp_field_text(&item, &msg->name);
		else if (msg->kind == ATP_LABELS_LABELS && atp_span_is(key, "labels"))
		{
			if (item.kind == ATP_CBOR_ARRAY)
			{
				has_labels = true;
				msg->nlabels = item.u;
				found = *r;
			}
			else
				bad = ATP_E_MSG_TYPE;
		}
		if (bad != ATP_OK && fault == ATP_OK)
		{
			fault = bad;
			fault_at = item.at;
		}
	}
	if (err != ATP_E_CBOR_END)
		return err;
	*at = msg->base;
	if (msg->kind == ATP_LABELS_UNKNOWN)
		return ATP_OK;
	if (msg->kind == ATP_LABELS_LABELS && seq_fault != ATP_OK)
		return seq_fault;
	*at = msg->base + fault_at;
	if (fault != ATP_OK)
		return fault;
	*at = msg->base;
	if (msg->kind == ATP_LABELS_LABELS ? !has_labels : msg->name.ptr == NULL)
		return ATP_E_MSG_FIELD;
	if (has_labels)
		*r = found;
	return ATP_OK;
}

static AtpErr
set_datetime(const AtpCborItem *item, int64_t *micros)
{
	size_t		at;

	if (item->kind != ATP_CBOR_TEXT)
		return ATP_E_MSG_TYPE;
	return atp_datetime_parse((const char *) item->str.ptr, item->str.len, micros, &at);
}

/* F-31: a label's subject is an AT URI or an account's DID. */
static AtpErr
set_subject(const AtpCborItem *item, AtpSpan *uri)
{
	AtpUri		parts;
	size_t		at;
	AtpErr		err = atp_field_text(item, uri);

	if (err != ATP_OK)
		return err;
	if (uri->len >= 4 && memcmp(uri->ptr, "did:", 4) == 0)
		return atp_did_check(uri->ptr, uri->len, &at);
	return atp_uri_parse(ATP_SCHEME_AT, uri->ptr, uri->len, &parts, &at);
}

static AtpErr
set_field(AtpLabel *label, AtpSpan key, const AtpCborItem *item, unsigned *seen)
{
	AtpErr		err = ATP_OK;
	size_t		at;

	if (atp_span_is(key, "src"))
	{
		*seen |= L_SRC;
		err = atp_field_did(item, &label->src);
	}
	else if (atp_span_is(key, "uri"))
	{
		*seen |= L_URI;
		err = set_subject(item, &label->uri);
	}
	else if (atp_span_is(key, "val"))
	{
		*seen |= L_VAL;
		err = atp_field_text(item, &label->val);
		if (err == ATP_OK && (label->val.len == 0 || label->val.len > ATP_LABEL_VAL_MAX))
			err = ATP_E_LABEL_VAL;
	}
	else if (atp_span_is(key, "cts"))
	{
		*seen |= L_CTS;
		err = set_datetime(item, &label->cts);
	}
	else if (atp_span_is(key, "exp"))
	{
		label->has_exp = true;
		err = set_datetime(item, &label->exp);
	}
	else if (atp_span_is(key, "neg"))
	{
		if (item->kind != ATP_CBOR_TRUE && item->kind != ATP_CBOR_FALSE)
			err = ATP_E_MSG_TYPE;
		label->neg = item->kind == ATP_CBOR_TRUE;
	}
	else if (atp_span_is(key, "cid"))
	{
		if (item->kind != ATP_CBOR_TEXT)
			err = ATP_E_MSG_TYPE;
		else
			err = atp_cid_parse((const char *) item->str.ptr, item->str.len,
								label->cid, &label->cid_len, &at);
	}
	else if (atp_span_is(key, "ver"))
	{
		/* The column is an integer of SQL; only version 1 is known (F-31). */
		if (item->kind != ATP_CBOR_UINT || item->u > INT32_MAX)
			err = ATP_E_MSG_TYPE;
		label->has_ver = true;
		label->ver = (int64_t) item->u;
	}
	else if (atp_span_is(key, "sig"))
	{
		if (item->kind != ATP_CBOR_BYTES)
			err = ATP_E_MSG_TYPE;
		label->sig = item->str;
	}
	return err;
}

AtpErr
atp_labels_next(AtpLabelsMessage *msg, AtpLabel *label, size_t *at)
{
	AtpCborReader *r = &msg->reader;
	unsigned	outside = r->depth;
	size_t		from = r->pos;
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	AtpErr		fault = ATP_OK;
	size_t		fault_at = 0;
	unsigned	seen = 0;

	memset(label, 0, sizeof(*label));
	if ((err = atp_cbor_next(r, &item, at)) != ATP_OK)
		return err;
	fault_at = item.at;
	if (item.kind != ATP_CBOR_MAP)
	{
		if ((err = atp_cbor_finish(r, outside, at)) != ATP_OK)
			return err;
		*at = msg->base + fault_at;
		return ATP_E_MSG_TYPE;
	}
	fields = atp_fields(r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		if (fault == ATP_OK && (fault = set_field(label, key, &item, &seen)) != ATP_OK)
			fault_at = item.at;
	}
	if (err != ATP_E_CBOR_END)
		return err;
	label->map = (AtpBytes) {r->buf + from, r->pos - from};
	*at = msg->base + fault_at;
	if (fault == ATP_OK && seen != L_ALL)
		fault = ATP_E_MSG_FIELD;
	return fault;
}
