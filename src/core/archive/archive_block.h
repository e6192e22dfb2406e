/*
 * archive_block.h
 *		A decompressed block of an archive: its columns, and the rows in them.
 *
 * A fault of the columns refuses the whole block (H-22), because a row that the reader passed over would be a silent gap.
 * A bad value in a row concerns only this row, and becomes a dead letter (H-25).
 */
#ifndef ATP_ARCHIVE_BLOCK_H
#define ATP_ARCHIVE_BLOCK_H

#include "core/archive/archive.h"
#include "core/wire/repos_message.h"

typedef enum AtpArchiveKind
{
	ATP_ARCHIVE_CREATE = 1,
	ATP_ARCHIVE_UPDATE,
	ATP_ARCHIVE_DELETE,
	ATP_ARCHIVE_IDENTITY,
	ATP_ARCHIVE_ACCOUNT,
	ATP_ARCHIVE_SYNC,
	ATP_ARCHIVE_CREATE_RESYNC	/* a record of the new tree, after an ATP_ARCHIVE_SYNC of the account */
} AtpArchiveKind;

/* An event.  Texts and payload lie in the block, and have not been checked. */
typedef struct AtpArchiveRow
{
	uint64_t	seq;
	int64_t		witnessed_at;	/* microseconds since the Unix epoch: when the server saw the event */
	int64_t		indexed_at;		/* the same, as an operator has set it; 0: not set.  May be any time: no order */
	AtpArchiveKind kind;
	AtpSpan		did;
	AtpSpan		collection;		/* of kinds with a record, and of deletions, as is rkey */
	AtpSpan		rkey;
	AtpSpan		rev;			/* of these kinds, and of ATP_ARCHIVE_SYNC */
	AtpBytes	payload;		/* a record's DAG-CBOR, or the payload of a message of subscribeRepos */
} AtpArchiveRow;

#define ATP_ARCHIVE_TEXTS	5	/* did, collection, rkey, rev, payload */

typedef struct AtpArchiveBlock
{
	AtpBytes	bytes;
	uint32_t	nrows;
	uint32_t	next;			/* number of the next row */
	size_t		text_at[ATP_ARCHIVE_TEXTS]; /* where the next row's texts begin */
} AtpArchiveBlock;

/*
 * Checks the columns (H-22): they fill the bytes exactly, there are at most ATP_ARCHIVE_ROWS_MAX rows, kinds are known,
 * and sequence numbers rise, lie above "after", and from min_seq to max_seq.  "after" is the last sequence number of the
 * block before, or 0.  bytes must stay in place while rows are read.
 */
extern AtpErr atp_archive_block_open(AtpArchiveBlock *block, AtpBytes bytes, uint64_t after, uint64_t min_seq, uint64_t max_seq, size_t *at);

/* The next row; false after the last. */
extern bool atp_archive_block_next(AtpArchiveBlock *block, AtpArchiveRow *row);

/*
 * Checks a row (H-25), and describes it as a message of subscribeRepos: DID, and for kinds with a record, and deletions,
 * rev and one operation, whose path and cid are not set.  A deletion has no payload.  Whether any other payload is a
 * record is found while its jsonb is made (record_check.h), and whether rev lies in the future by whoever has a clock.
 *
 * Of the other kinds, the payload is read as the message that it must be, of the row's account.  H-31: the rev of
 * ATP_ARCHIVE_SYNC is the row's; "blocks" may be empty, as servers leave it in messages of their own.
 *
 * msg->kind and msg->seq are always set.  *at counts from the block's start.
 */
extern AtpErr atp_archive_row_check(const AtpArchiveBlock *block, const AtpArchiveRow *row, AtpReposMessage *msg, size_t *at);

#endif							/* ATP_ARCHIVE_BLOCK_H */
