/*
 * fuzz_archive_block.c
 *		Blocks of an archive (H-22, H-25): the rows of an accepted block, written again, give the same bytes; sequence
 *		numbers rise within the bounds; and an accepted row has a valid DID, path and rev.
 *
 * Input: a byte with the sequence number before the block, a byte with the greatest sequence number, and the columns.
 */
#include <stdlib.h>

#include "core/archive/archive_block.h"
#include "core/repo/path.h"
#include "core/syntax/did.h"
#include "core/syntax/tid.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A block under construction, column by column. */
typedef struct Written
{
	uint8_t    *buf;
	size_t		len;
} Written;

static void
put_le(Written *w, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		w->buf[w->len++] = (uint8_t) (value >> 8 * i);
}

static void
put_text(Written *w, const void *text, size_t n)
{
	memcpy(w->buf + w->len, text, n);
	w->len += n;
}

static void
check_message(const AtpArchiveRow *row, const AtpReposMessage *msg)
{
	size_t		at;
	uint64_t	rev;

	CHECK(atp_did_check(row->did.ptr, row->did.len, &at) == ATP_OK && msg->did.ptr == row->did.ptr && msg->did.len == row->did.len);
	if (msg->kind == ATP_REPOS_COMMIT || msg->kind == ATP_REPOS_SYNC)
		CHECK(atp_tid_parse(row->rev.ptr, row->rev.len, &rev, &at) == ATP_OK && rev == msg->rev);
	if (msg->kind != ATP_REPOS_COMMIT)
		return;
	CHECK(msg->nops == 1 && atp_path_check(msg->ops[0].collection, msg->ops[0].rkey) == ATP_OK);
	CHECK((msg->ops[0].action == ATP_DELETE) == (row->kind == ATP_ARCHIVE_DELETE));
	CHECK(msg->ops[0].action != ATP_DELETE || row->payload.len == 0);
}

#define EACH_ROW(block, row)	for (AtpArchiveBlock again_ = (block); atp_archive_block_next(&again_, &(row));)

static void
check_written(const AtpArchiveBlock *block)
{
	Written		w = {malloc(block->bytes.len), 0};
	AtpArchiveRow row;

	put_le(&w, block->nrows, 4);
	EACH_ROW(*block, row)
		put_le(&w, row.seq, 8);
	EACH_ROW(*block, row)
		put_le(&w, (uint64_t) row.witnessed_at, 8);
	EACH_ROW(*block, row)
		put_le(&w, (uint64_t) row.indexed_at, 8);
	EACH_ROW(*block, row)
		put_le(&w, row.kind, 1);
	EACH_ROW(*block, row)
		put_le(&w, row.collection.len, 1);
	EACH_ROW(*block, row)
		put_le(&w, row.did.len, 2);
	EACH_ROW(*block, row)
		put_le(&w, row.rkey.len, 1);
	EACH_ROW(*block, row)
		put_le(&w, row.rev.len, 1);
	EACH_ROW(*block, row)
		put_le(&w, row.payload.len, 4);
	EACH_ROW(*block, row)
		put_text(&w, row.collection.ptr, row.collection.len);
	EACH_ROW(*block, row)
		put_text(&w, row.did.ptr, row.did.len);
	EACH_ROW(*block, row)
		put_text(&w, row.rkey.ptr, row.rkey.len);
	EACH_ROW(*block, row)
		put_text(&w, row.rev.ptr, row.rev.len);
	EACH_ROW(*block, row)
		put_text(&w, row.payload.ptr, row.payload.len);
	CHECK(w.len == block->bytes.len && memcmp(w.buf, block->bytes.ptr, w.len) == 0);
	free(w.buf);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static AtpReposMessage msg;
	AtpArchiveBlock block;
	AtpArchiveRow row;
	uint64_t	last;
	uint64_t	max_seq;
	uint32_t	rows = 0;
	size_t		at;
	AtpErr		err;

	if (size < 2)
		return 0;
	last = data[0];
	/* 255: no bound */
	max_seq = data[1] < 255 ? data[1] : ATP_ARCHIVE_SEQ_LIMIT - 1;
	err = atp_archive_block_open(&block, (AtpBytes) {data + 2, size - 2}, last, 1, max_seq, &at);
	CHECK(at <= size - 2);
	if (err != ATP_OK)
		return 0;
	check_written(&block);
	for (; atp_archive_block_next(&block, &row); rows++)
	{
		CHECK(row.seq > last && row.seq <= max_seq && row.kind >= ATP_ARCHIVE_CREATE && row.kind <= ATP_ARCHIVE_CREATE_RESYNC);
		last = row.seq;
		err = atp_archive_row_check(&block, &row, &msg, &at);
		CHECK(at <= size - 2 && msg.seq == (int64_t) row.seq);
		if (err == ATP_OK)
			check_message(&row, &msg);
	}
	CHECK(rows == block.nrows && rows <= ATP_ARCHIVE_ROWS_MAX);
	return 0;
}
