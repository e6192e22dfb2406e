/*
 * jetstream_message.c
 *		Parser of the messages of Jetstream: see jetstream_message.h.
 */
#include <stddef.h>

#include "core/syntax/did.h"
#include "core/codec/field.h"
#include "core/wire/jetstream_message.h"
#include "core/wire/json_frame.h"
#include "core/repo/path.h"
#include "core/syntax/tid.h"

/* The members of messages of all kinds and of both versions. */
enum
{
	DID, SEQ, TIME, REV, OPERATION, COLLECTION, RKEY, CID, RECORD, NAME, IDENTITY, ACCOUNT, SYNC, COMMIT, KIND, NFIELDS
};

/* The message under construction. */
typedef struct JetstreamReader
{
	const char *start;			/* start of the payload */
	AtpReposMessage *msg;
	AtpJetstream *more;
	AtpJsonItem field[NFIELDS];
	size_t		at;				/* offset of the fault */
} JetstreamReader;

static bool
take_text(JetstreamReader *m, const AtpJsonItem *item, AtpSpan *out)
{
	m->at = item->kind == ATP_JSON_TEXT ? (size_t) (item->raw.ptr - m->start) : 0;
	return atp_json_take_text(&m->more->texts, item, out);
}

static AtpErr
take_did(JetstreamReader *m)
{
	AtpSpan		did;
	size_t		at;

	if (!take_text(m, &m->field[DID], &did))
		return m->field[DID].kind == ATP_JSON_NULL ? ATP_E_MSG_FIELD : ATP_E_MSG_TYPE;
	if (atp_did_check(did.ptr, did.len, &at) != ATP_OK)
		return ATP_E_MSG_DID;
	m->msg->did = did;
	return ATP_OK;
}

static AtpErr
take_action(JetstreamReader *m, AtpAction *action)
{
	static const char *const names[] = {[ATP_CREATE] = "create", [ATP_UPDATE] = "update", [ATP_DELETE] = "delete"};
	AtpSpan		s;

	if (!take_text(m, &m->field[OPERATION], &s))
		return ATP_E_OP_FIELD;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
	{
		if (atp_span_is(s, names[i]))
		{
			*action = (AtpAction) i;
			return ATP_OK;
		}
	}
	return ATP_E_OP_ACTION;
}

/* J-25: a create or update has a record and its CID; a delete has neither. */
static AtpErr
take_record(JetstreamReader *m, AtpOp *op)
{
	const AtpJsonItem *record = &m->field[RECORD];
	const AtpJsonItem *cid = &m->field[CID];
	AtpSpan		text;
	size_t		n;
	size_t		at;

	if (op->action == ATP_DELETE)
		return record->kind == ATP_JSON_NULL && cid->kind == ATP_JSON_NULL ? ATP_OK : ATP_E_OP_CID;
	if (!take_text(m, cid, &text) || record->kind == ATP_JSON_NULL)
		return ATP_E_OP_CID;
	if (atp_cid_parse(text.ptr, text.len, m->more->cid, &n, &at) != ATP_OK)
		return ATP_E_LEX_CID;
	op->cid = (AtpBytes) {m->more->cid, n};
	if (record->kind != ATP_JSON_OBJECT)
		return ATP_E_RECORD_MAP;
	m->more->body = record->raw;
	return ATP_OK;
}

/* B-65 */
static bool
take_path(JetstreamReader *m, AtpOp *op)
{
	AtpJsonTexts *texts = &m->more->texts;
	AtpSpan		collection;
	AtpSpan		rkey;
	char	   *p;

	if (!take_text(m, &m->field[COLLECTION], &collection) || !take_text(m, &m->field[RKEY], &rkey) ||
		collection.len + 1 > sizeof(texts->buf) - texts->used ||
		rkey.len > sizeof(texts->buf) - texts->used - collection.len - 1)
		return false;
	p = texts->buf + texts->used;
	op->path = (AtpSpan) {p, collection.len + 1 + rkey.len};
	memcpy(p, collection.ptr, collection.len);
	p[collection.len] = '/';
	memcpy(p + collection.len + 1, rkey.ptr, rkey.len);
	texts->used += op->path.len;

	/*
	 * The first slash must be the one between the parts: with a slash in the collection, atp_path_split()
	 * would split at another place.  A slash in the record key is refused by atp_path_split().
	 */
	return memchr(p, '/', op->path.len) == p + collection.len && atp_path_split(op->path, &op->collection, &op->rkey) == ATP_OK;
}

static AtpErr
take_commit(JetstreamReader *m)
{
	AtpOp	   *op = &m->msg->ops[0];
	AtpSpan		rev;
	size_t		at;
	AtpErr		err;

	*op = (AtpOp) {0};
	if (!take_text(m, &m->field[REV], &rev))
		return ATP_E_MSG_FIELD;
	if (atp_tid_parse(rev.ptr, rev.len, &m->msg->rev, &at) != ATP_OK)
		return ATP_E_MSG_REV;
	if ((err = take_action(m, &op->action)) != ATP_OK)
		return err;
	if (!take_path(m, op))
		return ATP_E_PATH;
	m->msg->nops = 1;
	return take_record(m, op);
}

/* J-26: the event's time is the wrapped event's, not the time at which the Jetstream forwarded it. */
static AtpErr
take_wrapped(JetstreamReader *m, const AtpJsonItem *item)
{
	static const char *const names[] = {"time"};
	AtpJsonItem time;
	AtpErr		err;

	if (item->kind != ATP_JSON_OBJECT)
		return item->kind == ATP_JSON_NULL ? ATP_E_MSG_FIELD : ATP_E_MSG_TYPE;
	m->more->body = item->raw;
	m->more->time = 0;
	err = atp_json_read_object((AtpBytes) {(const uint8_t *) item->raw.ptr, item->raw.len}, names, 1, &time, &m->at);
	m->at += item->raw.ptr - m->start;
	if (err != ATP_OK)
		return err;
	return take_text(m, &time, &m->msg->time) ? ATP_OK : ATP_E_MSG_TYPE;
}

/* Reads the members that a message of this kind has. */
static AtpErr
take_kind(JetstreamReader *m)
{
	switch (m->msg->kind)
	{
		case ATP_REPOS_COMMIT:
			return take_commit(m);
		case ATP_REPOS_IDENTITY:
			return take_wrapped(m, &m->field[IDENTITY]);
		case ATP_REPOS_ACCOUNT:
			return take_wrapped(m, &m->field[ACCOUNT]);
		case ATP_REPOS_SYNC:
			return take_wrapped(m, &m->field[SYNC]);
		case ATP_REPOS_INFO:
			return take_text(m, &m->field[NAME], &m->msg->name) ? ATP_OK : ATP_E_MSG_TYPE;
		default:
			return ATP_OK;
	}
}

static AtpReposKind
repos_kind(AtpSpan name)
{
	static const struct
	{
		const char *name;
		AtpReposKind kind;
	}			kinds[] = {
		{"commit", ATP_REPOS_COMMIT}, {"identity", ATP_REPOS_IDENTITY}, {"account", ATP_REPOS_ACCOUNT},
		{"sync", ATP_REPOS_SYNC}, {"info", ATP_REPOS_INFO}
	};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (atp_span_is(name, kinds[i].name))
			return kinds[i].kind;
	return ATP_REPOS_UNKNOWN;
}

static JetstreamReader
begin_message(AtpBytes payload, AtpReposMessage *msg, AtpJetstream *more)
{
	memset(msg, 0, offsetof(AtpReposMessage, ops));
	msg->kind = ATP_REPOS_UNKNOWN;
	more->time = 0;
	more->body = (AtpSpan) {NULL, 0};
	more->texts.used = 0;
	return (JetstreamReader) {.start = (const char *) payload.ptr, .msg = msg, .more = more};
}

/*
 * seq is checked before a fault of the members is reported: with a valid seq, the fault concerns only this
 * message and becomes a dead letter.
 */
static AtpErr
read_fields(JetstreamReader *m, AtpErr members, bool has_seq)
{
	AtpErr		err;

	if (has_seq && (err = atp_json_seq(&m->field[SEQ], &m->msg->seq)) != ATP_OK)
		return err;
	if (members != ATP_OK)
		return members;
	if (m->msg->kind == ATP_REPOS_UNKNOWN)
	{
		/* An unknown message needs no DID; a valid one is kept. */
		(void) take_did(m);
		return ATP_OK;
	}
	if (has_seq && (err = take_did(m)) != ATP_OK)
		return err;
	return take_kind(m);
}

AtpErr
atp_jetstream_parse_v1(AtpBytes payload, AtpReposMessage *msg, AtpJetstream *more, size_t *at)
{
	static const char *const outer[] = {"did", "time_us", "kind", "commit", "identity", "account"};
	static const char *const inner[] = {"rev", "operation", "collection", "rkey", "cid", "record"};
	static const unsigned outer_fields[] = {DID, SEQ, KIND, COMMIT, IDENTITY, ACCOUNT};
	static const unsigned inner_fields[] = {REV, OPERATION, COLLECTION, RKEY, CID, RECORD};
	AtpJsonItem values[6];
	JetstreamReader m = begin_message(payload, msg, more);
	AtpSpan		kind;
	AtpErr		err;

	err = atp_json_read_known(payload, outer, 6, values, &more->others, &m.at);
	for (unsigned i = 0; i < 6; i++)
		m.field[outer_fields[i]] = values[i];
	if (err == ATP_OK && !take_text(&m, &m.field[KIND], &kind))
		err = ATP_E_MSG_TYPE;
	if (err == ATP_OK)
		msg->kind = repos_kind(kind);
	/* Version 1 has no messages of these kinds. */
	if (msg->kind == ATP_REPOS_SYNC || msg->kind == ATP_REPOS_INFO)
		msg->kind = ATP_REPOS_UNKNOWN;
	if (err == ATP_OK && msg->kind == ATP_REPOS_COMMIT)
	{
		const AtpSpan commit = m.field[COMMIT].raw;

		if (m.field[COMMIT].kind != ATP_JSON_OBJECT)
			err = ATP_E_MSG_FIELD;
		else
		{
			bool		others;

			err = atp_json_read_known((AtpBytes) {(const uint8_t *) commit.ptr, commit.len}, inner, 6, values, &others, &m.at);
			more->others |= others;
			m.at += commit.ptr - m.start;
			for (unsigned i = 0; i < 6; i++)
				m.field[inner_fields[i]] = values[i];
		}
	}
	err = read_fields(&m, err, true);
	if (msg->time.ptr == NULL)
		more->time = msg->seq;
	*at = m.at;
	return err;
}

AtpErr
atp_jetstream_parse_v2(AtpBytes payload, AtpReposMessage *msg, AtpJetstream *more, size_t *at)
{
	static const char *const names[] = {
		[DID] = "did", [SEQ] = "seq", [TIME] = "time", [REV] = "rev", [OPERATION] = "operation",
		[COLLECTION] = "collection", [RKEY] = "rkey", [CID] = "cid", [RECORD] = "record", [NAME] = "name",
		[IDENTITY] = "identity", [ACCOUNT] = "account", [SYNC] = "sync", [COMMIT] = "$type"
	};
	static const char prefix[] = ATP_NSID_JETSTREAM "#";
	JetstreamReader m = begin_message(payload, msg, more);
	AtpSpan		type;
	AtpErr		err = atp_json_read_known(payload, names, COMMIT + 1, m.field, &more->others, &m.at);
	bool		is_event;

	if (err == ATP_OK && !take_text(&m, &m.field[COMMIT], &type))
		err = ATP_E_JSON_TYPE;
	if (err == ATP_OK && type.len > strlen(prefix) && memcmp(type.ptr, prefix, strlen(prefix)) == 0)
		msg->kind = repos_kind((AtpSpan) {type.ptr + strlen(prefix), type.len - strlen(prefix)});
	is_event = err != ATP_OK || (msg->kind != ATP_REPOS_INFO && msg->kind != ATP_REPOS_UNKNOWN);
	if (err == ATP_OK && is_event && !take_text(&m, &m.field[TIME], &msg->time))
		err = ATP_E_MSG_TYPE;
	if (is_event || msg->kind == ATP_REPOS_INFO)
		err = read_fields(&m, err, is_event);
	else
		/* An unknown message need not have a sequence number. */
		(void) atp_json_seq(&m.field[SEQ], &msg->seq);
	*at = m.at;
	return err;
}

AtpErr
atp_jetstream_unwrap(AtpBytes body, AtpReposMessage *msg, size_t *at)
{
	static const char *const types[] = {
		[ATP_REPOS_SYNC] = "#sync", [ATP_REPOS_IDENTITY] = "#identity", [ATP_REPOS_ACCOUNT] = "#account"
	};
	const AtpReposKind kind = msg->kind;
	const AtpFrame frame = {.kind = ATP_FRAME_MESSAGE, .t = {types[kind], strlen(types[kind])}, .payload = body};
	const int64_t seq = msg->seq;
	const AtpSpan did = msg->did;
	AtpErr		err = atp_repos_parse_wrapped(&frame, msg, at);

	msg->seq = seq;
	if (err == ATP_E_SEQ_MISSING)
		return ATP_E_MSG_FIELD;
	if (err == ATP_OK && (did.len != msg->did.len || memcmp(did.ptr, msg->did.ptr, did.len) != 0))
		return ATP_E_MSG_DID_DIFFERS;
	return err;
}
