/*
 * labels.c
 *		Messages of com.atproto.label.subscribeLabels into events and rows.
 */
#include "postgres.h"

#include "core/labels_message.h"
#include "stream/format.h"
#include "types/types.h"
#include "utils/builtins.h"

static void
fill_row(AtpLabelRow *row, const AtpLabel *label)
{
	row->src = atp_did_make(label->src.ptr, label->src.len);
	row->uri = cstring_to_text_with_len(label->uri.ptr, label->uri.len);
	row->val = cstring_to_text_with_len(label->val.ptr, label->val.len);
	row->cid = label->cid_len > 0 ? atp_cidlink_make(label->cid, label->cid_len) : NULL;
	row->neg = label->neg;
	row->cts = label->cts - ATP_UNIX_TO_POSTGRES;
	row->has_exp = label->has_exp;
	row->exp = label->exp - ATP_UNIX_TO_POSTGRES;
	row->ver = label->has_ver ? (int32) label->ver : -1;
	row->sig = label->sig.ptr != NULL ? atp_varlena(label->sig.ptr, label->sig.len) : NULL;
}

static AtpErr
parse(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	AtpLabelsMessage *msg = &decoder->msg.labels;
	AtpErr		err = atp_labels_parse(&decoder->frame, msg, at);

	head->what = msg->kind == ATP_LABELS_INFO ? atp_head_of_info(msg->name)
		: msg->kind == ATP_LABELS_UNKNOWN ? ATP_HEAD_UNKNOWN : ATP_HEAD_EVENT;
	head->seq = msg->seq;
	return err;
}

static bool
make(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	AtpLabelsMessage *msg = &decoder->msg.labels;

	for (uint64 i = 0; i < msg->nlabels; i++)
	{
		AtpLabel	label;
		size_t		at = 0;
		AtpErr		err = atp_labels_next(msg, &label, &at);

		char	   *name = psprintf("labels/" UINT64_FORMAT, i);
		AtpSpan		path = {name, strlen(name)};

		if (err != ATP_OK)
			atp_dead_letter(batch, "record", event, err, at)->path = path;
		else
		{
			AtpRow	   *row = atp_batch_new_row(batch);

			row->path = path;
			fill_row(&row->label, &label);
			event->nrows++;
			/* labels carry their own time; the last one stands for the event */
			batch->time = event->time = label.cts;
		}
	}
	return true;
}

const AtpFormat atp_labels_format = {.cut = atp_cut_frame, .parse = parse, .make = make};
