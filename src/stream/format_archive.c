/*
 * format_archive.c
 *		Rows of a Jetstream's archive into events and rows: see core/archive/archive_message.h.
 *
 * The messages of the stream and the rows of the archive come to one subscription, with one sequence of numbers. So
 * the format of the stream hands the rows of the archive to this file, by their first byte.
 *
 * H-30: an archive has no CIDs.  The CID is computed from the payload, which defines it, and checks nothing.
 */
#include "postgres.h"

#include "common/sha256.h"
#include "core/syntax/tid.h"
#include "stream/format.h"
#include "stream/stream_time.h"
#include "types/types.h"

AtpErr
atp_archived_cut(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	*at = 0;
	decoder->framed = false;
	decoder->frame = (AtpFrame) {.kind = ATP_FRAME_MESSAGE, .payload = message};
	return atp_archive_message_read(message, &decoder->archived);
}

AtpErr
atp_archived_parse(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	const AtpArchiveRow *row = &decoder->archived;
	const AtpArchiveBlock place = {.bytes = decoder->frame.payload};
	AtpErr		err = ATP_OK;

	if (row->kind == ATP_ARCHIVE_POSITION)
		*head = (AtpHead) {.what = ATP_HEAD_EVENT};
	else
	{
		err = atp_archive_row_check(&place, row, &decoder->msg.repos, at);
		atp_repos_head(&decoder->msg.repos, head);
	}
	head->seq = (int64) row->seq;
	head->micros = row->witnessed_at;
	/* an old row tells nothing about this machine's clock: make_archived() compares the revision */
	head->rev = 0;
	return err;
}

/* H-25: the row of a record, or a dead letter. */
static void
make_record(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	AtpOp	   *op = &decoder->msg.repos.ops[0];
	AtpBytes	payload = decoder->archived.payload;
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	Jsonb	   *value = NULL;
	bytea	   *raw = NULL;
	size_t		at = 0;
	AtpErr		err;

	if (!atp_repos_wants(decoder, batch, op))
		return;
	op->path.len = op->collection.len + 1 + op->rkey.len;
	op->path.ptr = psprintf("%.*s/%.*s", (int) op->collection.len, op->collection.ptr, (int) op->rkey.len, op->rkey.ptr);
	if (op->action == ATP_DELETE)
	{
		atp_repos_row(batch, event, op, NULL, NULL);
		return;
	}
	err = atp_make_record(payload, decoder->settings->keep_raw, &value, &raw, &at);
	if (err != ATP_OK)
	{
		atp_repos_refuse(batch, event, op, err, payload.ptr - event->message.ptr + at);
		return;
	}
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, payload.ptr, payload.len, atp_sha256, NULL, cid);
	op->cid = (AtpBytes) {cid, sizeof(cid)};
	atp_repos_row(batch, event, op, value, raw);
}

bool
atp_archived_make(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	const AtpReposMessage *msg = &decoder->msg.repos;

	if (decoder->archived.kind == ATP_ARCHIVE_POSITION || !atp_repos_begin(decoder, batch, event))
		return false;
	event->archived = event->partial = true;
	if (event->kind == ATP_REPOS_IDENTITY || event->kind == ATP_REPOS_ACCOUNT)
	{
		/* S-10 */
		if (atp_repos_qualify(decoder->archived.payload, event->kind))
		{
			batch->skips[ATP_SKIP_UNKNOWN]++;
			return false;
		}
		return atp_repos_make(decoder, batch, event);
	}
	event->rev = msg->rev;
	/* V-14 */
	if (atp_is_ahead(atp_tid_micros(event->rev)))
	{
		(void) atp_dead_letter(batch, "commit", event, ATP_E_REV_FUTURE, 0);
		return false;
	}
	if (event->kind == ATP_REPOS_COMMIT)
		make_record(decoder, batch, event);
	return true;
}
