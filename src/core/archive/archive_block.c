/*
 * archive_block.c
 *		The rows of a block: see archive_block.h.
 */
#include "core/archive/archive_block.h"
#include "core/codec/dagcbor.h"
#include "core/repo/path.h"
#include "core/syntax/chars.h"
#include "core/syntax/did.h"
#include "core/syntax/tid.h"
#include "core/wire/jetstream_message.h"

/* The columns of fixed width, in their order: those with lengths come last. */
enum
{
	SEQ, WITNESSED_AT, INDEXED_AT, KIND, COLLECTION_LEN, DID_LEN, RKEY_LEN, REV_LEN, PAYLOAD_LEN, COLUMNS
};

#define LENGTHS		COLLECTION_LEN
#define COUNT_LEN	4			/* bytes of the number of rows */

/* Bytes of a value, and bytes of the columns before it for each row. */
static const struct
{
	uint8_t		width;
	uint8_t		before;
}			columns[COLUMNS] = {
	[SEQ] = {8, 0}, [WITNESSED_AT] = {8, 8}, [INDEXED_AT] = {8, 16}, [KIND] = {1, 24}, [COLLECTION_LEN] = {1, 25}, [DID_LEN] = {2, 26},
	[RKEY_LEN] = {1, 28}, [REV_LEN] = {1, 29}, [PAYLOAD_LEN] = {4, 30}
};

#define ROW_WIDTH	34

_Static_assert(ATP_ARCHIVE_TEXTS == COLUMNS - LENGTHS, "each text has a length");

static inline size_t
value_at(const AtpArchiveBlock *block, unsigned column, size_t row)
{
	return COUNT_LEN + (size_t) block->nrows * columns[column].before + row * columns[column].width;
}

static inline uint64_t
get_value(const AtpArchiveBlock *block, unsigned column, size_t row)
{
	return atp_get_le(block->bytes.ptr + value_at(block, column, row), columns[column].width);
}

/* The texts of a column stand in the order of the rows, and the last column ends with the block. */
static AtpErr
place_texts(AtpArchiveBlock *block, size_t *at)
{
	uint64_t	end = COUNT_LEN + (uint64_t) block->nrows * ROW_WIDTH;

	for (unsigned text = 0; text < ATP_ARCHIVE_TEXTS; text++)
	{
		block->text_at[text] = (size_t) end;
		for (size_t row = 0; row < block->nrows; row++)
			end += get_value(block, LENGTHS + text, row);
		if (end > block->bytes.len)
			return atp_fail(ATP_E_BLOCK_COLUMNS, value_at(block, LENGTHS + text, 0), at);
	}
	return end == block->bytes.len ? ATP_OK : atp_fail(ATP_E_BLOCK_COLUMNS, (size_t) end, at);
}

static AtpErr
check_rows(const AtpArchiveBlock *block, uint64_t after, uint64_t min_seq, uint64_t max_seq, size_t *at)
{
	for (size_t row = 0; row < block->nrows; row++)
	{
		uint64_t	seq = get_value(block, SEQ, row);
		uint64_t	kind = get_value(block, KIND, row);

		*at = value_at(block, SEQ, row);
		if (seq <= after)
			return ATP_E_BLOCK_SEQ_ORDER;
		if (seq < min_seq || seq > max_seq || seq >= ATP_ARCHIVE_SEQ_LIMIT)
			return ATP_E_BLOCK_SEQ_BOUNDS;
		after = seq;
		if (kind < ATP_ARCHIVE_CREATE || kind > ATP_ARCHIVE_CREATE_RESYNC)
			return atp_fail(ATP_E_BLOCK_KIND, value_at(block, KIND, row), at);
	}
	return ATP_OK;
}

AtpErr
atp_archive_block_open(AtpArchiveBlock *block, AtpBytes bytes, uint64_t after, uint64_t min_seq, uint64_t max_seq, size_t *at)
{
	AtpErr		err;

	*block = (AtpArchiveBlock) {.bytes = bytes};
	if (bytes.len < COUNT_LEN)
		return atp_fail(ATP_E_BLOCK_COLUMNS, bytes.len, at);
	block->nrows = (uint32_t) atp_get_le(bytes.ptr, COUNT_LEN);
	if (block->nrows > ATP_ARCHIVE_ROWS_MAX)
		return atp_fail(ATP_E_BLOCK_ROWS, 0, at);
	if ((bytes.len - COUNT_LEN) / ROW_WIDTH < block->nrows)
		return atp_fail(ATP_E_BLOCK_COLUMNS, 0, at);
	*at = 0;
	if ((err = place_texts(block, at)) != ATP_OK)
		return err;
	return check_rows(block, after, min_seq, max_seq, at);
}

static AtpBytes
take_text(AtpArchiveBlock *block, unsigned column)
{
	size_t	   *at = &block->text_at[column - LENGTHS];
	AtpBytes	text = {block->bytes.ptr + *at, (size_t) get_value(block, column, block->next)};

	*at += text.len;
	return text;
}

static inline AtpSpan
as_span(AtpBytes text)
{
	return (AtpSpan) {(const char *) text.ptr, text.len};
}

bool
atp_archive_block_next(AtpArchiveBlock *block, AtpArchiveRow *row)
{
	if (block->next == block->nrows)
		return false;
	row->seq = get_value(block, SEQ, block->next);
	row->witnessed_at = (int64_t) get_value(block, WITNESSED_AT, block->next);
	row->indexed_at = (int64_t) get_value(block, INDEXED_AT, block->next);
	row->kind = (AtpArchiveKind) get_value(block, KIND, block->next);
	row->collection = as_span(take_text(block, COLLECTION_LEN));
	row->did = as_span(take_text(block, DID_LEN));
	row->rkey = as_span(take_text(block, RKEY_LEN));
	row->rev = as_span(take_text(block, REV_LEN));
	row->payload = take_text(block, PAYLOAD_LEN);
	block->next++;
	return true;
}

static AtpReposKind
message_kind(AtpArchiveKind kind)
{
	switch (kind)
	{
		case ATP_ARCHIVE_IDENTITY:
			return ATP_REPOS_IDENTITY;
		case ATP_ARCHIVE_ACCOUNT:
			return ATP_REPOS_ACCOUNT;
		case ATP_ARCHIVE_SYNC:
			return ATP_REPOS_SYNC;
		default:
			return ATP_REPOS_COMMIT;
	}
}

static AtpErr
check_operation(const AtpArchiveRow *row, AtpReposMessage *msg, const void **fault)
{
	AtpOp	   *op = &msg->ops[0];

	*op = (AtpOp) {.action = ATP_CREATE, .collection = row->collection, .rkey = row->rkey};
	if (row->kind == ATP_ARCHIVE_UPDATE)
		op->action = ATP_UPDATE;
	if (row->kind == ATP_ARCHIVE_DELETE)
		op->action = ATP_DELETE;
	msg->nops = 1;
	*fault = row->collection.ptr;
	if (atp_path_check(row->collection, row->rkey) != ATP_OK)
		return ATP_E_PATH;
	*fault = row->payload.ptr;
	return op->action == ATP_DELETE && row->payload.len > 0 ? ATP_E_ROW_PAYLOAD : ATP_OK;
}

/* Is the payload a single map of DAG-CBOR, without bytes behind the map? */
static AtpErr
check_map(AtpBytes payload, size_t *at)
{
	AtpCborReader r;
	AtpCborItem item;
	AtpErr		err;

	atp_cbor_init(&r, payload.ptr, payload.len, ATP_CBOR_DEPTH_DEFAULT);
	if ((err = atp_cbor_next(&r, &item, at)) != ATP_OK)
		return err == ATP_E_CBOR_END ? ATP_E_CBOR_TRUNCATED : err;
	if (item.kind != ATP_CBOR_MAP)
		return ATP_E_FRAME_PAYLOAD;
	if ((err = atp_cbor_finish(&r, 0, at)) != ATP_OK)
		return err;
	return r.pos == payload.len ? ATP_OK : atp_fail(ATP_E_CBOR_TRAILING, r.pos, at);
}

static AtpErr
read_payload(const AtpArchiveRow *row, AtpReposMessage *msg, size_t *at)
{
	uint64_t	rev = msg->rev;
	AtpErr		err;

	*at = 0;
	if (row->payload.len > ATP_FRAME_MAX)
		return ATP_E_FRAME_SIZE;
	if ((err = check_map(row->payload, at)) != ATP_OK)
		return err;
	err = atp_jetstream_unwrap(row->payload, msg, at);
	/* also after an error, so that the dead letter names the account */
	msg->did = row->did;
	if (row->kind == ATP_ARCHIVE_SYNC)
		msg->rev = rev;
	return err;
}

AtpErr
atp_archive_row_check(const AtpArchiveBlock *block, const AtpArchiveRow *row, AtpReposMessage *msg, size_t *at)
{
	const char *base = (const char *) block->bytes.ptr;
	const void *fault = row->did.ptr;
	size_t		within = 0;
	AtpErr		err;

	memset(msg, 0, offsetof(AtpReposMessage, ops));
	msg->kind = message_kind(row->kind);
	msg->seq = (int64_t) row->seq;
	err = atp_did_check(row->did.ptr, row->did.len, &within);
	if (err == ATP_OK)
		msg->did = row->did;
	if (err == ATP_OK && (msg->kind == ATP_REPOS_COMMIT || msg->kind == ATP_REPOS_SYNC))
	{
		fault = row->rev.ptr;
		err = atp_tid_parse(row->rev.ptr, row->rev.len, &msg->rev, &within);
	}
	if (err == ATP_OK)
	{
		within = 0;
		fault = row->payload.ptr;
		err = msg->kind == ATP_REPOS_COMMIT ? check_operation(row, msg, &fault) : read_payload(row, msg, &within);
	}
	*at = (size_t) ((const char *) fault - base) + within;
	return err;
}
