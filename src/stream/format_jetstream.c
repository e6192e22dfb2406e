/*
 * format_jetstream.c
 *		Messages of Jetstream into events and rows.
 *
 * Jetstream sends a record as JSON.  The record is converted to DAG-CBOR and accepted only if the
 * result has the record's CID.  So the tables hold exactly the record in the account's repository, and
 * all further steps are those of subscribeRepos.  Records that the filters exclude are not converted.
 */
#include "postgres.h"

#include "core/codec/json_dagcbor.h"
#include "core/wire/json_frame.h"
#include "core/syntax/tid.h"
#include "common/sha256.h"
#include "stream/format.h"
#include "stream/stream_time.h"
#include "stream/unknown.h"
#include "types/types.h"

/* How the server writes a frame: then it has no member but these. */
static bool
is_usual_frame(const AtpFrame *frame, AtpBytes message)
{
	static const char begin[] = "{\"$type\":\"message\",\"payload\":";

	return frame->payload_at == strlen(begin) && memcmp(message.ptr, begin, strlen(begin)) == 0 &&
		frame->payload_at + frame->payload.len + 1 == message.len;
}

AtpErr
atp_cut_json(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	AtpErr		err = atp_json_frame_parse((const char *) message.ptr, message.len, &decoder->frame, &decoder->jetstream.texts, at);

	decoder->framed = err == ATP_OK && !is_usual_frame(&decoder->frame, message) &&
		atp_unknown_in_json((AtpSpan) {(const char *) message.ptr, message.len}, ATP_OF_JSON_FRAME);
	return err;
}

static AtpErr
cut_bare(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	decoder->framed = false;
	return atp_json_frame_bare((const char *) message.ptr, message.len, &decoder->frame, at);
}

AtpErr
atp_make_dagcbor(AtpSpan json, AtpBytes *cbor, uint8_t **room, size_t *at)
{
	size_t		size = atp_json_dagcbor_room(json.len);

	*room = palloc(size);
	return atp_json_to_dagcbor(json.ptr, json.len, *room, size, cbor, at);
}

/* Set the head from the message read. */
static AtpErr
set_head(AtpDecoder *decoder, AtpHead *head, AtpErr err, size_t *at)
{
	const AtpBytes payload = decoder->frame.payload;
	const uint8_t *repo;

	atp_repos_head(&decoder->msg.repos, head);
	head->micros = decoder->jetstream.time;
	/* the DID outlives the buffer of the message's decoded texts */
	repo = (const uint8_t *) head->repo.ptr;
	if (repo != NULL && (repo < payload.ptr || repo >= payload.ptr + payload.len))
		head->repo.ptr = pnstrdup(head->repo.ptr, head->repo.len);
	*at += decoder->frame.payload_at;
	return err;
}

/* S-10, S-12: what this version does not know of the message.  member: the member with the message's kind. */
static bool
has_unknown(AtpDecoder *decoder, AtpMemberOf of, const char *member)
{
	const AtpBytes payload = decoder->frame.payload;
	const AtpReposKind kind = decoder->msg.repos.kind;
	bool		qualifies = decoder->jetstream.others && atp_unknown_in_json((AtpSpan) {(const char *) payload.ptr, payload.len}, of);
	AtpJsonItem name;
	size_t		at;

	if (kind == ATP_REPOS_UNKNOWN && atp_json_read_object(payload, &member, 1, &name, &at) == ATP_OK && name.kind == ATP_JSON_TEXT)
		atp_unknown_kind(name.raw);
	return atp_repos_kind_is_listed(kind) || qualifies;
}

static AtpErr
parse_v1(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	AtpErr		err = atp_jetstream_parse_v1(decoder->frame.payload, &decoder->msg.repos, &decoder->jetstream, at);

	head->qualifies = has_unknown(decoder, ATP_OF_JETSTREAM_V1, "kind");
	return set_head(decoder, head, err, at);
}

static AtpErr
cut_v2(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	decoder->is_archived = atp_is_archive_message(message);
	return decoder->is_archived ? atp_archived_cut(decoder, message, at) : atp_cut_json(decoder, message, at);
}

static AtpErr
parse_v2(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	AtpErr		err;

	if (decoder->is_archived)
		return atp_archived_parse(decoder, head, at);
	err = atp_jetstream_parse_v2(decoder->frame.payload, &decoder->msg.repos, &decoder->jetstream, at);

	head->qualifies = has_unknown(decoder, ATP_OF_JETSTREAM_V2, "$type");
	return set_head(decoder, head, err, at);
}

/* J-27: convert the record of an operation, and check that the result has the operation's CID. */
static AtpErr
make_record(AtpDecoder *decoder, const AtpOp *op, struct varlena **value, bytea **raw, size_t *at)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];
	uint8_t    *room;
	AtpBytes	block;
	AtpErr		err = atp_make_dagcbor(decoder->jetstream.body, &block, &room, at);

	if (err != ATP_OK)
		return err;
	*at = 0;
	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, block.ptr, block.len, atp_sha256, NULL, cid);
	if (op->cid.len != sizeof(cid) || memcmp(op->cid.ptr, cid, sizeof(cid)) != 0)
		return ATP_E_JSON_CID;
	err = atp_make_record(block, decoder->settings, value, raw, at);
	/* a fault in the DAG-CBOR has no offset in the JSON text */
	*at = 0;
	pfree(room);
	return err;
}

/* V-14 */
static bool
is_future(const AtpEvent *event)
{
	return atp_is_ahead(atp_tid_micros(event->rev));
}

/* Make a #commit event from a single operation.  Nothing else of its commit is known. */
static bool
make_operation(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	AtpOp	   *op = &decoder->msg.repos.ops[0];
	size_t		body = (const uint8_t *) decoder->jetstream.body.ptr - event->message.ptr;
	struct varlena *value = NULL;
	bytea	   *raw = NULL;
	size_t		at = 0;
	AtpErr		err;

	event->rev = decoder->msg.repos.rev;
	event->partial = true;
	event->path = atp_path_hash(op->path);
	if (is_future(event))
	{
		(void) atp_dead_letter(batch, "commit", event, ATP_E_REV_FUTURE, 0);
		return false;
	}
	if (!atp_repos_wants(decoder, batch, op))
		return true;
	op->path.ptr = pnstrdup(op->path.ptr, op->path.len);
	if (op->action != ATP_DELETE && (err = make_record(decoder, op, &value, &raw, &at)) != ATP_OK)
		atp_repos_refuse(batch, event, op, err, body + at);
	else
		atp_repos_row(batch, event, op, value, raw);
	return true;
}

/*
 * F-42: a #sync without blocks comes from the Jetstream server itself: the server has fetched the repository
 * again, and all records of this revision follow.  The commit and the tree are unknown.
 */
static bool
make_bare_sync(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	event->rev = decoder->msg.repos.rev;
	if (is_future(event))
	{
		(void) atp_dead_letter(batch, "commit", event, ATP_E_REV_FUTURE, 0);
		return false;
	}
	return true;
}

/* Make an event from a subscribeRepos event wrapped in a message. */
static bool
make_wrapped(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	size_t		body = (const uint8_t *) decoder->jetstream.body.ptr - event->message.ptr;
	uint8_t    *room;
	AtpBytes	cbor;
	size_t		at;
	AtpErr		err = atp_make_dagcbor(decoder->jetstream.body, &cbor, &room, &at);

	if (err == ATP_OK)
	{
		event->qualifies = atp_repos_qualify(cbor, event->kind);
		err = atp_jetstream_unwrap(cbor, &decoder->msg.repos, &at);
		at = 0;
	}
	event->partial = true;
	event->written_at = atp_head_time(&(AtpHead) {.time = decoder->msg.repos.time});
	/* S-10: a fault may be how messages of that kind are */
	if (event->qualifies)
	{
		batch->skips[ATP_SKIP_UNKNOWN]++;
		return err == ATP_OK && atp_repos_mark(decoder, event);
	}
	if (err != ATP_OK)
	{
		(void) atp_dead_letter(batch, "message", event, err, body + at);
		return false;
	}
	if (event->kind == ATP_REPOS_SYNC && decoder->msg.repos.blocks.len == 0)
		return make_bare_sync(decoder, batch, event);
	/* offsets of faults in the blocks are relative to the body */
	decoder->frame.payload = cbor;
	decoder->frame.payload_at = body;
	return atp_repos_make(decoder, batch, event);
}

static bool
make_jetstream_event(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	if (decoder->is_archived)
		return atp_archived_make(decoder, batch, event);
	/* H-33: while events are read again, the number of an event alone says what came before */
	event->archived = event->seq <= decoder->settings->archived_until;
	if (!atp_repos_begin(decoder, batch, event))
		return false;
	return event->kind == ATP_REPOS_COMMIT ? make_operation(decoder, batch, event) : make_wrapped(decoder, batch, event);
}

/* A #sync is wrapped: its revision is not known before it is converted. */
static bool
mark_repo(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	AtpReposMessage *msg = &decoder->msg.repos;
	uint8_t    *room;
	AtpBytes	cbor;
	size_t		at;

	event->partial = true;
	if (msg->nops > 0)
		event->path = atp_path_hash(msg->ops[0].path);
	if (msg->kind == ATP_REPOS_SYNC && decoder->jetstream.body.ptr != NULL &&
		(atp_make_dagcbor(decoder->jetstream.body, &cbor, &room, &at) != ATP_OK || atp_jetstream_unwrap(cbor, msg, &at) != ATP_OK))
		return false;
	return atp_repos_mark(decoder, event);
}

const AtpFormat atp_jetstream_v1_format = {.cut = cut_bare, .parse = parse_v1, .make = make_jetstream_event, .mark = mark_repo};
const AtpFormat atp_jetstream_v2_format = {.cut = cut_v2, .parse = parse_v2, .make = make_jetstream_event, .mark = mark_repo};
