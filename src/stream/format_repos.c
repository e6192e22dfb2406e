/*
 * format_repos.c
 *		Messages of com.atproto.sync.subscribeRepos into events and rows.
 */
#include "postgres.h"

#include "core/codec/cid.h"
#include "core/wire/commit_check.h"
#include "core/wire/repos_message.h"
#include "core/syntax/tid.h"
#include "data/block_index.h"
#include "data/commit_keep.h"
#include "common/sha256.h"
#include "stream/format.h"
#include "stream/rev_cache.h"
#include "stream/stream_time.h"
#include "stream/unknown.h"
#include "types/types.h"
#include "utils/builtins.h"

/* The block of a record, checked and converted. */
typedef struct DecodedRecord
{
	const AtpCarBlock *block;
	AtpErr		err;
	size_t		at;
	struct varlena *value;
	bytea	   *raw;
} DecodedRecord;

/* The records of a commit: a block is converted once, however many operations refer to it. */
typedef struct Records
{
	Size		bytes;			/* total size of the rows so far, counting a shared block for each row */
	int			n;
	DecodedRecord list[ATP_OPS_MAX];
} Records;

/*
 * Limit of a commit's rows in memory.  A byte of DAG-CBOR becomes at most 24 bytes of jsonb, so a commit
 * without repeated records stays below.  With repetitions, one megabyte of message could otherwise keep the
 * database busy for a minute.
 */
#define ROWS_MAX	(64 * 1024 * 1024)

static const DecodedRecord *
convert_block(AtpDecoder *decoder, Records *records, const AtpCarBlock *block)
{
	DecodedRecord *r;

	for (int i = 0; i < records->n; i++)
		if (records->list[i].block == block)
			return &records->list[i];
	r = &records->list[records->n++];
	*r = (DecodedRecord) {.block = block};
	r->err = atp_make_record(block->data, decoder->settings, &r->value, &r->raw, &r->at);
	return r;
}

bool
atp_repos_wants(AtpDecoder *decoder, AtpBatch *batch, const AtpOp *op)
{
	if (decoder->settings->actions[op->action] && atp_wants_collection(decoder->settings, op->collection))
		return true;
	batch->skips[ATP_SKIP_FILTERED]++;
	return false;
}

/* B-29: the commit's other operations are applied. */
void
atp_repos_refuse(AtpBatch *batch, AtpEvent *event, const AtpOp *op, AtpErr err, size_t at)
{
	atp_dead_letter(batch, "record", event, err, at)->path = op->path;
	event->lacking = true;
}

void
atp_repos_row(AtpBatch *batch, AtpEvent *event, const AtpOp *op, struct varlena *value, bytea *raw)
{
	AtpRow	   *row = atp_batch_new_row(batch);

	row->path = op->path;
	row->record.action = op->action;
	row->record.did = event->did;
	row->record.collection = atp_nsid_make(op->collection.ptr, op->collection.len);
	row->record.rkey = atp_rkey_make(op->rkey.ptr, op->rkey.len);
	row->record.rev = event->rev;
	if (op->action != ATP_DELETE)
	{
		row->record.cid = atp_cidlink_make(op->cid.ptr, op->cid.len);
		row->record.value = value;
		row->record.raw = raw;
	}
	event->nrows++;
}

/* Make the row of one operation of a checked commit. */
static void
make_operation(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event, Records *records, const AtpOp *op)
{
	const DecodedRecord *record;
	AtpErr		err;

	if (!atp_repos_wants(decoder, batch, op))
		return;
	if (op->action == ATP_DELETE)
	{
		atp_repos_row(batch, event, op, NULL, NULL);
		return;
	}
	record = convert_block(decoder, records, op->block);
	if (record->value != NULL)
		records->bytes += VARSIZE(record->value);
	if (record->raw != NULL)
		records->bytes += VARSIZE(record->raw);
	err = records->bytes > ROWS_MAX ? ATP_E_COMMIT_ROWS : record->err;
	if (err != ATP_OK)
		atp_repos_refuse(batch, event, op, err, record->block->data.ptr - event->message.ptr + record->at);
	else
		atp_repos_row(batch, event, op, record->value, record->raw);
}

/* V-18: prepare memory for the tree before the commit; the memory is kept from commit to commit. */
static AtpInversion *
begin_inversion(AtpDecoder *decoder)
{
	const AtpReposMessage *msg = &decoder->msg.repos;
	size_t		room = atp_invert_room(msg->blocks.len, msg->nops);

	if (room > decoder->room)
	{
		if (decoder->nodes != NULL)
			pfree(decoder->nodes);
		decoder->nodes = NULL;
		decoder->room = 0;
		decoder->nodes = MemoryContextAlloc(decoder->cxt, room);
		decoder->room = room;
	}
	atp_invert_begin(&decoder->inversion, decoder->nodes, decoder->room, atp_sha256, NULL);
	return &decoder->inversion;
}

static AtpProven
proven_by(const AtpReposMessage *msg, const AtpInversion *inversion)
{
	if (inversion == NULL)
		return ATP_NOT_ASKED;
	if (msg->kind == ATP_REPOS_SYNC)
		return ATP_OPS_PROVEN;
	/* V-26 */
	if (inversion->verdict == ATP_MISMATCH)
		return ATP_OPS_REFUTED;
	/* V-28: the repository was empty before; true with prevData and without */
	if (inversion->known && inversion->first && !msg->has_since)
		return ATP_OPS_PROVEN_FIRST;
	return inversion->verdict == ATP_PROVEN ? ATP_OPS_PROVEN : ATP_OPS_INCOMPLETE;
}

/* The index of the blocks in a commit: its size comes from the bytes received, which are limited, never from a count inside of them. */
static void
clear_index(AtpDecoder *decoder)
{
	AtpReposMessage *msg = &decoder->msg.repos;

	atp_block_index_clear(&decoder->index, decoder->cxt, msg->blocks.len / ATP_CAR_SECTION_MIN + 1);
	msg->data = msg->block = (AtpBytes) {NULL, 0};
}

/* At level full: the signature of the commit in msg->block. */
static void
take_signature(AtpDecoder *decoder, AtpEvent *event)
{
	const AtpReposMessage *msg = &decoder->msg.repos;

	if (decoder->settings->verify != ATP_VERIFY_FULL || msg->block.ptr == NULL)
		return;
	event->signature = atp_make_signed(msg->block, false);
	if (event->signature == NULL)
		/* the block is a valid commit, so it has a signature of the right length */
		elog(ERROR, "a commit has no signature");
}

/*
 * At level full only a commit that the account has signed can mark a repository, or a stranger could cause fetches by
 * messages that name any account.  Without a mark, the account's next commit shows the hole.
 */
bool
atp_repos_mark(AtpDecoder *decoder, AtpEvent *event)
{
	AtpReposMessage *msg = &decoder->msg.repos;
	size_t		at;

	event->kind = msg->kind;
	event->rev = msg->rev;
	if ((msg->kind != ATP_REPOS_COMMIT && msg->kind != ATP_REPOS_SYNC) || msg->rev == 0 || atp_is_ahead(atp_tid_micros(msg->rev)))
		return false;
	if (decoder->settings->verify != ATP_VERIFY_FULL || event->partial)
		return true;
	if (msg->block.ptr == NULL)
	{
		clear_index(decoder);
		(void) atp_commit_check(msg, &decoder->index, atp_sha256, NULL, &at);
	}
	take_signature(decoder, event);
	return event->signature != NULL;
}

/* Check the blocks of a #commit or #sync, and make the rows. */
static bool
make_commit(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	AtpReposMessage *msg = &decoder->msg.repos;
	AtpInversion *inversion = NULL;
	Records		records;
	size_t		at = 0;
	AtpErr		err;

	clear_index(decoder);
	if (decoder->settings->verify != ATP_VERIFY_HASH)
		inversion = begin_inversion(decoder);
	err = atp_commit_invert(msg, &decoder->index, inversion, atp_sha256, NULL, &at);
	if (msg->block.ptr != NULL && atp_unknown_in_commit(msg->block))
	{
		batch->skips[ATP_SKIP_UNKNOWN]++;
		event->qualifies = true;
		return atp_repos_mark(decoder, event);
	}
	event->proven = proven_by(msg, inversion);
	/* V-17: the commit is valid, but the trees do not agree with the list of operations */
	if (err != ATP_OK && inversion != NULL && msg->kind == ATP_REPOS_COMMIT && msg->data.ptr != NULL)
		event->proven = ATP_OPS_REFUTED;
	else if (err == ATP_OK && event->proven == ATP_OPS_REFUTED)
	{
		err = ATP_E_COMMIT_MISMATCH;
		event->mismatch = true;
	}
	event->rev = msg->rev;
	take_signature(decoder, event);
	/*
	 * V-14: a commit with a rev in the future has no effect, whatever other faults it has; at level full,
	 * unless the commit is unsigned (V-12)
	 */
	if (atp_is_ahead(atp_tid_micros(msg->rev)) && (err == ATP_OK || event->proven == ATP_OPS_REFUTED))
	{
		err = ATP_E_REV_FUTURE;
		event->proven = event->signature != NULL ? ATP_REV_AHEAD : ATP_NOT_ASKED;
		event->mismatch = false;
	}
	if (err != ATP_OK)
	{
		(void) atp_dead_letter(batch, "commit", event, err, decoder->frame.payload_at + msg->blocks.ptr - decoder->frame.payload.ptr + at);
		return event->proven == ATP_OPS_REFUTED || event->proven == ATP_REV_AHEAD;
	}
	event->has_since = msg->has_since;
	event->since = msg->since;
	if (msg->prev_data.ptr != NULL)
		event->prev_data = atp_cidlink_make(msg->prev_data.ptr, msg->prev_data.len);
	event->commit = atp_cidlink_make(msg->commit.ptr, msg->commit.len);
	event->data = atp_cidlink_make(msg->data.ptr, msg->data.len);
	event->sig = atp_commit_keep(msg->sig, msg->block, msg->plain, &event->commit_block);
	records.n = 0;
	records.bytes = 0;
	for (unsigned i = 0; i < msg->nops; i++)
		make_operation(decoder, batch, event, &records, &msg->ops[i]);
	return true;
}

void
atp_repos_head(const AtpReposMessage *msg, AtpHead *head)
{
	head->what = msg->kind == ATP_REPOS_INFO ? atp_head_of_info(msg->name)
		: msg->kind == ATP_REPOS_UNKNOWN ? ATP_HEAD_UNKNOWN : ATP_HEAD_EVENT;
	head->seq = msg->seq;
	head->time = msg->time;
	head->rev = msg->rev;
	head->repo = msg->did;
}

/* Cut the message.  A #commit of the usual form is read together with its fields in one pass. */
static AtpErr
cut_message(AtpDecoder *decoder, AtpBytes message, size_t *at)
{
	bool		read = atp_repos_read_commit(message.ptr, message.len, &decoder->frame, &decoder->msg.repos);

	decoder->framed = false;
	decoder->read = read ? decoder->frame.payload.ptr : NULL;
	return read ? ATP_OK : atp_cut_frame(decoder, message, at);
}

static const struct
{
	const char *name;
	AtpMemberOf of;
}			kinds[] = {
	[ATP_REPOS_COMMIT] = {"#commit", ATP_OF_COMMIT},
	[ATP_REPOS_SYNC] = {"#sync", ATP_OF_SYNC},
	[ATP_REPOS_IDENTITY] = {"#identity", ATP_OF_IDENTITY},
	[ATP_REPOS_ACCOUNT] = {"#account", ATP_OF_ACCOUNT},
	[ATP_REPOS_INFO] = {"#info", ATP_OF_INFO},
};

bool
atp_repos_qualify(AtpBytes payload, AtpReposKind kind)
{
	return kind != ATP_REPOS_UNKNOWN && atp_unknown_in_cbor(payload, kinds[kind].of);
}

bool
atp_repos_kind_is_listed(AtpReposKind kind)
{
	return kind != ATP_REPOS_UNKNOWN && atp_unknown_is_listed(kinds[kind].name);
}

static AtpErr
parse_repo_head(AtpDecoder *decoder, AtpHead *head, size_t *at)
{
	AtpErr		err = ATP_OK;

	/* stream_time.c may have cut other messages since, so msg.repos may be of another message */
	if (decoder->read != decoder->frame.payload.ptr)
	{
		decoder->read = NULL;
		err = atp_repos_parse(&decoder->frame, &decoder->msg.repos, at);
		/* a #commit of the usual form has no member that is not known */
		head->qualifies = atp_repos_qualify(decoder->frame.payload, decoder->msg.repos.kind);
		if (decoder->msg.repos.kind == ATP_REPOS_UNKNOWN)
			atp_unknown_kind(atp_frame_type(&decoder->frame));
	}
	head->qualifies |= atp_repos_kind_is_listed(decoder->msg.repos.kind);
	atp_repos_head(&decoder->msg.repos, head);
	return err;
}

static bool
is_of_repo(const AtpReposMessage *msg)
{
	return msg->kind == ATP_REPOS_COMMIT || msg->kind == ATP_REPOS_SYNC;
}

static bool
is_known(AtpDecoder *decoder)
{
	const AtpReposMessage *msg = &decoder->msg.repos;

	return OidIsValid(decoder->table) && is_of_repo(msg) &&
		atp_rev_cache_is_old(decoder->table, atp_did_make(msg->did.ptr, msg->did.len), msg);
}

bool
atp_repos_begin(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	const AtpReposMessage *msg = &decoder->msg.repos;

	event->kind = msg->kind;
	event->did = atp_did_make(msg->did.ptr, msg->did.len);
	if (atp_wants_did(decoder->settings, event->did))
		return true;
	batch->skips[ATP_SKIP_FILTERED]++;
	return false;
}

bool
atp_repos_make(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	const AtpReposMessage *msg = &decoder->msg.repos;

	if (is_of_repo(msg))
	{
		if (OidIsValid(decoder->table) && atp_rev_cache_is_old(decoder->table, event->did, msg))
		{
			batch->skips[ATP_SKIP_OLD]++;
			return false;
		}
		return make_commit(decoder, batch, event);
	}
	if (msg->handle.ptr != NULL)
		event->handle = atp_handle_make(msg->handle.ptr, msg->handle.len);
	event->active = msg->active;
	if (msg->status.ptr != NULL)
		event->status = cstring_to_text_with_len(msg->status.ptr, msg->status.len);
	return true;
}

static bool
make_repo_event(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	return atp_repos_begin(decoder, batch, event) && atp_repos_make(decoder, batch, event);
}

static bool
mark_repo(AtpDecoder *decoder, AtpBatch *batch, AtpEvent *event)
{
	/* of this message no block was read yet */
	decoder->msg.repos.block = (AtpBytes) {NULL, 0};
	return atp_repos_mark(decoder, event);
}

const AtpFormat atp_repos_format = {
	.cut = cut_message, .parse = parse_repo_head, .make = make_repo_event, .mark = mark_repo, .is_known = is_known
};
