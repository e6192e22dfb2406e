/*
 * format_labels.c
 *		Messages of com.atproto.label.subscribeLabels into events and rows.
 *
 * A labeler's server may also send labels of other labelers.  At level full each labeler of a message
 * gets a part, which is judged and held separately.  A held part is stored as a message with only this
 * labeler's labels.  So a message naming many labelers takes no more room than the message itself.
 */
#include "postgres.h"

#include "core/codec/cbor_write.h"
#include "core/wire/labels_message.h"
#include "lib/qunique.h"
#include "stream/format.h"
#include "stream/stream_time.h"
#include "stream/unknown.h"
#include "types/foreign_time.h"
#include "types/types.h"
#include "utils/builtins.h"

/* The most bytes of a message before its labels. */
#define MESSAGE_HEAD	64

static void
fill_row(AtpLabelRow *row, const AtpLabel *label)
{
	row->src = atp_did_make(label->src.ptr, label->src.len);
	row->uri = cstring_to_text_with_len(label->uri.ptr, label->uri.len);
	row->val = cstring_to_text_with_len(label->val.ptr, label->val.len);
	row->cid = label->cid_len > 0 ? atp_cidlink_make(label->cid, label->cid_len) : NULL;
	row->neg = label->neg;
	row->cts = atp_foreign_time(label->cts);
	row->has_exp = label->has_exp;
	row->exp = atp_foreign_time(label->exp);
	row->ver = label->has_ver ? (int32) label->ver : -1;
	row->sig = label->sig.ptr != NULL ? atp_varlena(label->sig.ptr, label->sig.len) : NULL;
}

/* Make the parts of a message whose rows are made, sorted by labeler. */
static void
make_parts(AtpBatch *batch, AtpEvent *event)
{
	AtpRow	   *rows = batch->rows + event->first_row;
	struct varlena **srcs = palloc(sizeof(struct varlena *) * Max(event->nrows, 1));

	for (int r = 0; r < event->nrows; r++)
		srcs[r] = rows[r].label.src;
	qsort(srcs, event->nrows, sizeof(struct varlena *), atp_compare_did_refs);
	event->nparts = qunique(srcs, event->nrows, sizeof(struct varlena *), atp_compare_did_refs);
	event->parts = palloc(sizeof(AtpEvent) * Max(event->nparts, 1));
	for (int i = 0; i < event->nparts; i++)
		event->parts[i] = (AtpEvent) {
			.seq = event->seq, .time = event->time, .message = event->message, .did = srcs[i], .rev = event->seq
		};
	for (int r = 0; r < event->nrows; r++)
	{
		struct varlena **src = bsearch(&rows[r].label.src, srcs, event->nparts, sizeof(struct varlena *), atp_compare_did_refs);

		rows[r].label.part = &event->parts[src - srcs];
	}
}

/* Begin to write a message with this number of labels. */
static AtpCborWriter
begin_message(size_t room, int64 seq, int nlabels)
{
	AtpCborWriter w = {.buf = palloc(room), .cap = room};

	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "t");
	atp_cbor_put_key(&w, "#labels");
	atp_cbor_put_key(&w, "op");
	atp_cbor_put_uint(&w, 1);
	atp_cbor_put_map(&w, 2);
	atp_cbor_put_key(&w, "seq");
	atp_cbor_put_uint(&w, seq);
	atp_cbor_put_key(&w, "labels");
	atp_cbor_put_array(&w, nlabels);
	return w;
}

/* Make the message of each part. */
static void
make_messages(const AtpBatch *batch, AtpEvent *event)
{
	const AtpRow *rows = batch->rows + event->first_row;
	size_t	   *sizes = palloc0(sizeof(size_t) * event->nparts);
	int		   *counts = palloc0(sizeof(int) * event->nparts);
	AtpCborWriter *w = palloc(sizeof(AtpCborWriter) * event->nparts);

	for (int r = 0; r < event->nrows; r++)
	{
		sizes[rows[r].label.part - event->parts] += rows[r].label.map.len;
		counts[rows[r].label.part - event->parts]++;
	}
	for (int i = 0; i < event->nparts; i++)
		w[i] = begin_message(sizes[i] + MESSAGE_HEAD, event->seq, counts[i]);
	for (int r = 0; r < event->nrows; r++)
		atp_cbor_put_raw(&w[rows[r].label.part - event->parts], rows[r].label.map.ptr, rows[r].label.map.len);
	for (int i = 0; i < event->nparts; i++)
	{
		Assert(w[i].len <= w[i].cap);
		event->parts[i].message = (AtpBytes) {w[i].buf, w[i].len};
	}
}

/* The latest creation time of the labels, in microseconds; 0: no label is valid.  msg is a copy, so the caller's reader stays at the first label. */
static int64
latest_cts(AtpLabelsMessage msg)
{
	int64		latest = 0;

	for (uint64 i = 0; i < msg.nlabels; i++)
	{
		AtpLabel	label;
		size_t		at;

		if (atp_labels_next(&msg, &label, &at) == ATP_OK)
			latest = Max(latest, label.cts);
	}
	return latest;
}

static AtpErr
parse_label_head(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	AtpLabelsMessage *msg = &decoder->msg.labels;
	AtpErr		err = atp_labels_parse(&decoder->frame, msg, at);

	head->what = msg->kind == ATP_LABELS_INFO ? atp_head_of_info(msg->name)
		: msg->kind == ATP_LABELS_UNKNOWN ? ATP_HEAD_UNKNOWN : ATP_HEAD_EVENT;
	head->seq = msg->seq;
	if (msg->kind == ATP_LABELS_UNKNOWN)
		atp_unknown_kind(atp_frame_type(&decoder->frame));
	else
		head->qualifies = atp_unknown_in_cbor(decoder->frame.payload, msg->kind == ATP_LABELS_INFO ? ATP_OF_INFO : ATP_OF_LABELS) ||
			atp_unknown_is_listed(msg->kind == ATP_LABELS_INFO ? "#info" : "#labels");
	if (err == ATP_OK && msg->kind == ATP_LABELS_LABELS)
		head->micros = head->latest = latest_cts(*msg);
	return err;
}

static bool
make_label_event(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	AtpLabelsMessage *msg = &decoder->msg.labels;
	bool		full = decoder->settings->verify == ATP_VERIFY_FULL;

	for (uint64 i = 0; i < msg->nlabels; i++)
	{
		AtpLabel	label;
		size_t		at = 0;
		AtpErr		err = atp_labels_next(msg, &label, &at);

		char	   *name = psprintf("labels/" UINT64_FORMAT, i);
		AtpSpan		path = {name, strlen(name)};

		/* S-10: the labels beside it are applied */
		if (label.map.ptr != NULL && atp_unknown_in_cbor(label.map, ATP_OF_LABEL))
		{
			batch->skips[ATP_SKIP_UNKNOWN]++;
			event->omits = true;
			continue;
		}
		/* F-33: the latest creation time wins, so the labeler could not take such a label back before this time */
		if (err == ATP_OK && label.cts > 0 && atp_is_ahead(label.cts))
			err = ATP_E_CTS_FUTURE;
		if (err != ATP_OK)
			atp_dead_letter(batch, "record", event, err, at)->path = path;
		else
		{
			AtpRow	   *row = atp_batch_new_row(batch);

			row->path = path;
			fill_row(&row->label, &label);
			if (full)
			{
				row->label.signature = atp_make_signed(label.map, true);
				row->label.map = label.map;
			}
			event->nrows++;
			/* a label carries its own time; the last label's time counts for the event */
			batch->time = event->time = label.cts;
		}
	}
	if (full)
	{
		make_parts(batch, event);
		if (event->nparts > 1 || event->nrows < msg->nlabels)
			make_messages(batch, event);
	}
	return true;
}

const AtpFormat atp_labels_format = {.cut = atp_cut_frame, .parse = parse_label_head, .make = make_label_event};
