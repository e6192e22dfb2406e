/*
 * repos_message.c
 *		Parser of the messages of com.atproto.sync.subscribeRepos, in place: see
 *		repos_message.h.
 */
#include <stddef.h>

#include "core/codec/cid.h"
#include "core/codec/dagcbor.h"
#include "core/codec/field.h"
#include "core/syntax/handle.h"
#include "core/repo/mst.h"
#include "core/repo/path.h"
#include "core/wire/repo_status.h"
#include "core/wire/repos_message.h"
#include "core/syntax/tid.h"

#define SYNC_BLOCKS_MAX	10000	/* bytes of #sync.blocks, B-28 */

/* The fields of all messages, as bits.  D25: "rebase", "tooBig" and "blobs" of a #commit are not among them. */
enum
{
	F_SEQ = 1 << 0,
	F_REPO = 1 << 1,
	F_DID = 1 << 2,
	F_TIME = 1 << 3,
	F_REV = 1 << 4,
	F_SINCE = 1 << 5,
	F_COMMIT = 1 << 6,
	F_BLOCKS = 1 << 7,
	F_OPS = 1 << 8,
	F_PREV_DATA = 1 << 9,
	F_HANDLE = 1 << 10,
	F_ACTIVE = 1 << 11,
	F_STATUS = 1 << 12,
	F_NAME = 1 << 13,
	F_MESSAGE = 1 << 14
};

static const struct
{
	const char *t;
	unsigned	required;
	unsigned	optional;
}			kinds[] = {
	[ATP_REPOS_UNKNOWN] = {"", 0, F_SEQ | F_REPO | F_DID},
	[ATP_REPOS_COMMIT] = {
		"#commit", F_SEQ | F_REPO | F_TIME | F_REV | F_COMMIT | F_BLOCKS | F_OPS,
		F_SINCE | F_PREV_DATA
	},
	[ATP_REPOS_SYNC] = {"#sync", F_SEQ | F_DID | F_TIME | F_REV | F_BLOCKS, 0},
	[ATP_REPOS_IDENTITY] = {"#identity", F_SEQ | F_DID | F_TIME, F_HANDLE},
	[ATP_REPOS_ACCOUNT] = {"#account", F_SEQ | F_DID | F_TIME | F_ACTIVE, F_STATUS},
	[ATP_REPOS_INFO] = {"#info", F_NAME, F_MESSAGE},
};

static unsigned
field_of(AtpSpan key)
{
	switch (key.len)
	{
		case 3:
			return atp_span_is(key, "seq") ? F_SEQ :
				atp_span_is(key, "rev") ? F_REV :
				atp_span_is(key, "ops") ? F_OPS :
				atp_span_is(key, "did") ? F_DID : 0;
		case 4:
			return atp_span_is(key, "repo") ? F_REPO :
				atp_span_is(key, "time") ? F_TIME :
				atp_span_is(key, "name") ? F_NAME : 0;
		case 5:
			return atp_span_is(key, "since") ? F_SINCE : 0;
		case 6:
			return atp_span_is(key, "commit") ? F_COMMIT :
				atp_span_is(key, "blocks") ? F_BLOCKS :
				atp_span_is(key, "active") ? F_ACTIVE :
				atp_span_is(key, "status") ? F_STATUS :
				atp_span_is(key, "handle") ? F_HANDLE : 0;
		case 7:
			return atp_span_is(key, "message") ? F_MESSAGE : 0;
		case 8:
			return atp_span_is(key, "prevData") ? F_PREV_DATA : 0;
		default:
			return 0;
	}
}

/* T-12: a revision is a TID; as a number it orders as its text does. */
static AtpErr
set_tid(const AtpCborItem *item, uint64_t *out)
{
	size_t		at;

	if (item->kind != ATP_CBOR_TEXT)
		return ATP_E_MSG_TYPE;
	if (atp_tid_parse((const char *) item->str.ptr, item->str.len, out, &at) != ATP_OK)
		return ATP_E_MSG_REV;
	return ATP_OK;
}

static AtpErr
set_node_link(const AtpCborItem *item, AtpBytes *out)
{
	if (item->kind != ATP_CBOR_LINK)
		return ATP_E_MSG_TYPE;
	if (!atp_cid_is_node(item->str))
		return ATP_E_MSG_LINK;
	*out = item->str;
	return ATP_OK;
}

static AtpErr
set_action(const AtpCborItem *item, AtpAction *action)
{
	AtpSpan		s = atp_cbor_span(item);

	if (item->kind != ATP_CBOR_TEXT)
		return ATP_E_OP_FIELD;
	if (atp_span_is(s, "create"))
		*action = ATP_CREATE;
	else if (atp_span_is(s, "update"))
		*action = ATP_UPDATE;
	else if (atp_span_is(s, "delete"))
		*action = ATP_DELETE;
	else
		return ATP_E_OP_ACTION;
	return ATP_OK;
}

/* Reads a member of "ops"; head is its first item. */
static AtpErr
read_op(AtpCborReader *r, const AtpCborItem *head, AtpOp *op, size_t *at)
{
	AtpFields	fields = atp_fields(r, head);
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;
	bool		has_action = false;

	*op = (AtpOp) {0};
	if (head->kind != ATP_CBOR_MAP)
		return ATP_E_OP_FIELD;
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		if (atp_span_is(key, "action"))
		{
			if ((err = set_action(&item, &op->action)) != ATP_OK)
				return err;
			has_action = true;
		}
		else if (atp_span_is(key, "path"))
		{
			if (item.kind != ATP_CBOR_TEXT)
				return ATP_E_OP_FIELD;
			op->path = atp_cbor_span(&item);
		}
		else if (atp_span_is(key, "cid") || atp_span_is(key, "prev"))
		{
			if (item.kind == ATP_CBOR_LINK)
				*(key.len == 3 ? &op->cid : &op->prev) = item.str;
			else if (item.kind != ATP_CBOR_NULL)
				return ATP_E_OP_FIELD;
		}
	}
	if (err != ATP_E_CBOR_END)
		return err;
	*at = head->at;
	if (!has_action || op->path.ptr == NULL)
		return ATP_E_OP_FIELD;
	return atp_path_split(op->path, &op->collection, &op->rkey);
}

AtpErr
atp_repos_add_op(AtpReposMessage *msg)
{
	AtpSpan		path = msg->ops[msg->nops].path;
	unsigned	lo = 0;
	unsigned	hi = msg->nops;

	while (lo < hi)
	{
		unsigned	mid = (lo + hi) / 2;
		AtpSpan		other = msg->ops[msg->order[mid]].path;
		int			cmp = atp_mst_compare((AtpBytes) {(const uint8_t *) path.ptr, path.len},
										  (AtpBytes) {(const uint8_t *) other.ptr, other.len});

		if (cmp == 0)
			return ATP_E_OP_TWICE;
		if (cmp < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	memmove(&msg->order[lo + 1], &msg->order[lo], msg->nops - lo);
	msg->order[lo] = (uint8_t) msg->nops++;
	return ATP_OK;
}

static AtpErr
read_ops(AtpCborReader *r, const AtpCborItem *head, AtpReposMessage *msg, size_t *at)
{
	if (head->kind != ATP_CBOR_ARRAY)
		return ATP_E_MSG_TYPE;
	if (head->u > ATP_OPS_MAX)
		return ATP_E_MSG_OPS;
	for (uint64_t n = head->u; n > 0; n--)
	{
		AtpOp	   *op = &msg->ops[msg->nops];
		AtpCborItem item;
		AtpErr		err;

		if ((err = atp_cbor_next(r, &item, at)) != ATP_OK ||
			(err = read_op(r, &item, op, at)) != ATP_OK ||
			(err = atp_repos_add_op(msg)) != ATP_OK)
			return err;
	}
	return ATP_OK;
}

static AtpErr
set_field(AtpCborReader *r, unsigned field, const AtpCborItem *item, AtpReposMessage *msg, size_t *at)
{
	size_t		limit;
	AtpErr		err;

	switch (field)
	{
		case F_SEQ:
			return atp_field_seq(item, &msg->seq);
		case F_REPO:
		case F_DID:
			return atp_field_did(item, &msg->did);
		case F_TIME:
			return atp_field_text(item, &msg->time);
		case F_REV:
			return set_tid(item, &msg->rev);
		case F_SINCE:
			err = set_tid(item, &msg->since);
			msg->has_since = err == ATP_OK;
			return err;
		case F_COMMIT:
			return set_node_link(item, &msg->commit);
		case F_PREV_DATA:
			return set_node_link(item, &msg->prev_data);
		case F_BLOCKS:
			limit = msg->kind == ATP_REPOS_SYNC ? SYNC_BLOCKS_MAX : ATP_BLOCKS_MAX;
			if (item->kind != ATP_CBOR_BYTES)
				return ATP_E_MSG_TYPE;
			if (item->str.len > limit)
				return ATP_E_MSG_BLOCKS;
			msg->blocks = item->str;
			return ATP_OK;
		case F_OPS:
			return read_ops(r, item, msg, at);
		case F_HANDLE:
			if ((err = atp_field_text(item, &msg->handle)) != ATP_OK)
				return err;
			if (atp_handle_check(msg->handle.ptr, msg->handle.len, &limit) == ATP_OK)
				return ATP_OK;
			msg->handle = (AtpSpan) {0};
			return ATP_E_MSG_HANDLE;
		case F_ACTIVE:
			if (item->kind != ATP_CBOR_TRUE && item->kind != ATP_CBOR_FALSE)
				return ATP_E_MSG_TYPE;
			msg->active = item->kind == ATP_CBOR_TRUE;
			return ATP_OK;
		case F_STATUS:
			err = atp_field_text(item, &msg->status);
			/* each event of the account reads and writes the stored status again */
			if (msg->status.len > ATP_STATUS_MAX)
				msg->status = (AtpSpan) {NULL, 0};
			return err;
		case F_NAME:
			return atp_field_text(item, &msg->name);
		case F_MESSAGE:
			return atp_field_text(item, &msg->message);
		default:
			return ATP_OK;
	}
}

AtpErr
atp_repos_check_ops(const AtpReposMessage *msg)
{
	for (unsigned i = 0; i < msg->nops; i++)
	{
		const AtpOp *op = &msg->ops[i];

		if ((op->cid.ptr == NULL) != (op->action == ATP_DELETE))
			return ATP_E_OP_CID;
		if (op->action == ATP_CREATE ? op->prev.ptr != NULL :
			op->prev.ptr == NULL && msg->prev_data.ptr != NULL)
			return ATP_E_OP_CID;
	}
	return ATP_OK;
}

/*
 * Reads all fields.  Goes on after a fault, so that seq and did are found in
 * any case: a dead letter needs them.
 */
static AtpErr
read_fields(AtpCborReader *r, AtpReposMessage *msg, AtpErr *seq_err, size_t *seq_at, size_t *at)
{
	const unsigned required = kinds[msg->kind].required;
	const unsigned known = required | kinds[msg->kind].optional;
	unsigned	seen = 0;
	AtpErr		first = ATP_OK;
	size_t		first_at = 0;
	AtpFields	fields;
	AtpSpan		key;
	AtpCborItem item;
	AtpErr		err;

	if ((err = atp_cbor_next(r, &item, at)) != ATP_OK)
		return err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_FRAME_PAYLOAD;
	fields = atp_fields(r, &item);
	while ((err = atp_fields_next(&fields, &key, &item, at)) == ATP_OK)
	{
		unsigned	field = field_of(key) & known;

		seen |= field;
		if (item.kind != ATP_CBOR_NULL || (field & required))
			err = set_field(r, field, &item, msg, at);
		if (field == F_SEQ)
		{
			*seq_err = err;
			*seq_at = *at;
		}
		else if (err != ATP_OK && first == ATP_OK)
		{
			first = err;
			first_at = *at;
		}
	}
	if (err != ATP_E_CBOR_END)
		return err;
	*at = first_at;
	if (first != ATP_OK)
		return first;
	return (required & ~seen & ~F_SEQ) ? ATP_E_MSG_FIELD : atp_repos_check_ops(msg);
}

static AtpErr
parse_frame(const AtpFrame *frame, AtpReposMessage *msg, bool any_seq, size_t *at)
{
	AtpCborReader r;
	AtpErr		err;
	AtpErr		seq_err = ATP_E_SEQ_MISSING;
	size_t		seq_at = 0;

	memset(msg, 0, offsetof(AtpReposMessage, ops));
	msg->kind = ATP_REPOS_UNKNOWN;
	for (AtpReposKind kind = ATP_REPOS_COMMIT; kind <= ATP_REPOS_INFO; kind++)
	{
		/* E-25: the short form alone, or of this Lexicon */
		if (atp_span_is(frame->t, kinds[kind].t) && atp_frame_is_of(frame, ATP_NSID_REPOS))
			msg->kind = kind;
	}

	atp_cbor_init(&r, frame->payload.ptr, frame->payload.len, ATP_CBOR_DEPTH_DEFAULT);
	err = read_fields(&r, msg, &seq_err, &seq_at, at);
	if (msg->kind == ATP_REPOS_UNKNOWN)
		return ATP_OK;			/* seq and did are set if they are valid */
	if (any_seq && seq_err == ATP_E_SEQ_RANGE)
		seq_err = ATP_OK;
	if ((kinds[msg->kind].required & F_SEQ) && seq_err != ATP_OK)
	{
		err = seq_err;
		*at = seq_at;
	}
	*at += frame->payload_at;
	return err;
}

AtpErr
atp_repos_parse(const AtpFrame *frame, AtpReposMessage *msg, size_t *at)
{
	return parse_frame(frame, msg, false, at);
}

AtpErr
atp_repos_parse_wrapped(const AtpFrame *frame, AtpReposMessage *msg, size_t *at)
{
	return parse_frame(frame, msg, true, at);
}

AtpErr
atp_repos_parse_ops(const uint8_t *buf, size_t n, AtpReposMessage *msg, size_t *at)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpErr		err;

	msg->nops = 0;
	atp_cbor_init(&r, buf, n, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK ||
		(err = read_ops(&r, &item, msg, at)) != ATP_OK)
		return err;
	return atp_repos_check_ops(msg);
}
