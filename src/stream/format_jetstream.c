/*
 * format_jetstream.c
 *		Messages of Jetstream into events and rows.
 *
 * What a message says of a record is JSON.  It becomes the DAG-CBOR that the account's repository
 * has, or else its CID is another one: so what is in the tables is what the CID says, and everything from
 * there on is as with subscribeRepos.  Nothing is converted that filters do not want.
 */
#include "postgres.h"

#include "core/codec/json_dagcbor.h"
#include "core/wire/json_frame.h"
#include "core/syntax/tid.h"
#include "common/sha256.h"
#include "stream/format.h"
#include "stream/stream_time.h"
#include "types/types.h"

AtpErr
atp_cut_json(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	return atp_json_frame_parse((const char *) message.ptr, message.len, &decoder->frame, &decoder->jetstream.texts, at);
}

static AtpErr
cut_bare(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	return atp_json_frame_bare((const char *) message.ptr, message.len, &decoder->frame, at);
}

AtpErr
atp_make_dagcbor(AtpSpan json, AtpBytes *cbor, uint8_t **room, size_t *at)
{
	size_t		size = atp_json_dagcbor_room(json.len);

	*room = palloc(size);
	return atp_json_to_dagcbor(json.ptr, json.len, *room, size, cbor, at);
}

/* What the decoder has read, of the stream itself. */
static AtpErr
set_head(AtpDecoder *decoder, AtpHead *head, AtpErr err, size_t *at)
{
	const AtpBytes payload = decoder->frame.payload;
	const uint8_t *repo;

	atp_repos_head(&decoder->msg.repos, head);
	head->micros = decoder->jetstream.time;
	/* it outlives the message's other texts */
	repo = (const uint8_t *) head->repo.ptr;
	if (repo != NULL && (repo < payload.ptr || repo >= payload.ptr + payload.len))
		head->repo.ptr = pnstrdup(head->repo.ptr, head->repo.len);
	*at += decoder->frame.payload_at;
	return err;
}

static AtpErr
parse_v1(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	return set_head(decoder, head, atp_jetstream_parse_v1(decoder->frame.payload, &decoder->msg.repos, &decoder->jetstream, at), at);
}

static AtpErr
parse_v2(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	return set_head(decoder, head, atp_jetstream_parse_v2(decoder->frame.payload, &decoder->msg.repos, &decoder->jetstream, at), at);
}

/* J-27: the record of an operation, if it is the one that its CID names. */
static AtpErr
make_record(AtpDecoder *decoder, const AtpOp *op, Jsonb **value, bytea **raw, size_t *at)
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
	err = atp_make_record(block, decoder->settings->keep_raw, value, raw, at);
	/* what is wrong is at no byte of the text */
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

/* A #commit: one of the operations of a commit of which nothing else is known. */
static bool
make_operation(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	AtpOp	   *op = &decoder->msg.repos.ops[0];
	size_t		body = (const uint8_t *) decoder->jetstream.body.ptr - event->message.ptr;
	Jsonb	   *value = NULL;
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
 * F-42: a #sync without blocks is the server's own: it has fetched the repository again, whose records of this
 * revision follow.  Nothing says which commit and which tree they make.
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

/* An event of subscribeRepos in a message. */
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
		err = atp_jetstream_unwrap(cbor, &decoder->msg.repos, &at);
		at = 0;
	}
	if (err != ATP_OK)
	{
		(void) atp_dead_letter(batch, "message", event, err, body + at);
		return false;
	}
	event->partial = true;
	if (event->kind == ATP_REPOS_SYNC && decoder->msg.repos.blocks.len == 0)
		return make_bare_sync(decoder, batch, event);
	/* what is wrong with its blocks is counted from there */
	decoder->frame.payload = cbor;
	decoder->frame.payload_at = body;
	return atp_repos_make(decoder, batch, event);
}

static bool
make(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	if (!atp_repos_begin(decoder, batch, event))
		return false;
	return event->kind == ATP_REPOS_COMMIT ? make_operation(decoder, batch, event) : make_wrapped(decoder, batch, event);
}

const AtpFormat atp_jetstream_v1_format = {.cut = cut_bare, .parse = parse_v1, .make = make};
const AtpFormat atp_jetstream_v2_format = {.cut = atp_cut_json, .parse = parse_v2, .make = make};
