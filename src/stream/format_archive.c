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
#include "lib/stringinfo.h"
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
	struct varlena *value = NULL;
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
	err = atp_make_record(payload, decoder->settings, &value, &raw, &at);
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
	event->archived = event->of_archive = event->partial = true;
	if (event->kind == ATP_REPOS_IDENTITY || event->kind == ATP_REPOS_ACCOUNT)
	{
		event->written_at = atp_head_time(&(AtpHead) {.time = msg->time});
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

/* The digest of the message in decoder->msg, with the CID of a record that is put. */
static int64
digest_of(const AtpReposMessage *msg, AtpBytes cid)
{
	const AtpOp *op = &msg->ops[0];
	bool		is_commit = msg->kind == ATP_REPOS_COMMIT && msg->nops > 0;
	StringInfoData text;
	uint8_t		digest[32];
	int64		result;

	initStringInfo(&text);
	appendStringInfo(&text, "%d ", (int) msg->kind);
	appendBinaryStringInfo(&text, msg->did.ptr, msg->did.len);
	if (is_commit)
	{
		appendStringInfo(&text, " " UINT64_FORMAT " %d ", msg->rev, op->action == ATP_DELETE);
		appendBinaryStringInfo(&text, op->collection.ptr, op->collection.len);
		appendStringInfoChar(&text, '/');
		appendBinaryStringInfo(&text, op->rkey.ptr, op->rkey.len);
		if (op->action != ATP_DELETE)
			appendBinaryStringInfo(&text, (const char *) cid.ptr, cid.len);
	}
	atp_sha256(NULL, (const uint8_t *) text.data, text.len, digest);
	pfree(text.data);
	memcpy(&result, digest, sizeof(result));
	/* 0 stands for "not known" */
	return result == 0 ? 1 : result;
}

int64
atp_message_digest(AtpDecoder *decoder, AtpBytes message, int64 *seq)
{
	const AtpReposMessage *msg = &decoder->msg.repos;
	AtpHead		head = {0};
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	AtpBytes	of_record;
	size_t		at;

	*seq = 0;
	decoder->is_archived = false;
	if (decoder->format->cut(decoder, message, &at) != ATP_OK || decoder->frame.kind != ATP_FRAME_MESSAGE ||
		atp_parse_head(decoder, &head, &at) != ATP_OK || head.what != ATP_HEAD_EVENT)
		return 0;
	*seq = head.seq;
	if (!decoder->is_archived)
		return digest_of(msg, msg->ops[0].cid);
	if (decoder->archived.kind == ATP_ARCHIVE_POSITION)
		return 0;
	of_record = decoder->archived.payload;
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, of_record.ptr, of_record.len, atp_sha256, NULL, cid);
	return digest_of(msg, (AtpBytes) {cid, sizeof(cid)});
}
