/*
 * archive.c
 *		How many rows of an archive a second does one core take from compressed blocks to checked records with CIDs?
 *
 *	archive CAPTURE
 *
 * Makes blocks of 4,096 rows, as a Jetstream's archive has them, of the records in a capture ([u32 big-endian length]
 * [message] repeated), and goes over them many times, one stage further each time: frames decompressed in pieces of
 * 64 kB, as a download brings them; the columns and the rows checked; the CIDs computed; the records checked.  The floor,
 * in the same run, is what nobody can save: libzstd decompresses each frame in one go, and each record, whose place
 * is known beforehand, is hashed and checked.  What a stage takes is the difference between two medians of RUNS runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <zstd.h>

#include "cpu_time.h"
#include "common/sha256.h"
#include "core/archive/archive_block.h"
#include "core/syntax/tid.h"
#include "core/wire/commit_check.h"
#include "core/wire/frame.h"
#include "core/wire/repos_message.h"
#include "made_block.h"
#include "net/unzstd.h"
#include "protocol/record.h"

#define RUNS		7
#define ROUNDS		20
#define BLOCK_ROWS	4096
#define BLOCKS_CAP	4096
#define ROOM		(64 * 1024 * 1024)
#define PIECE		65536

typedef struct Block
{
	uint8_t    *frame;
	size_t		frame_len;
	uint8_t    *content;		/* decompressed */
	size_t		len;
	AtpBytes	payloads[BLOCK_ROWS];	/* in content */
	size_t		nrows;
} Block;

typedef enum Stage
{
	FLOOR,
	FRAMES,
	ROWS,
	CIDS,
	RECORDS,
	NSTAGES
} Stage;

/* The rows of the block that is being made. */
static AtpArchiveRow rows[BLOCK_ROWS];
static char revs[BLOCK_ROWS][ATP_TID_TEXT];
static size_t nrows;
static uint64_t seq;
static Block *blocks;
static size_t nblocks;
static uint8_t *room;
static size_t total_rows;
static size_t total_frames;		/* bytes */
static size_t total_content;
static AtpReposMessage msg;
static AtpUnzstd *unzstd;
static ZSTD_DCtx *dctx;
static unsigned sum;			/* of the CIDs, so that the compiler keeps them */

static void
die(const char *what)
{
	fprintf(stderr, "archive: %s\n", what);
	exit(1);
}

/* The columns of a block, then the frame. */
static void
make_block(void)
{
	Block	   *block;
	uint8_t    *at;

	if (nrows == 0)
		return;
	blocks = realloc(blocks, (nblocks + 1) * sizeof(Block));
	if (blocks == NULL)
		die("out of memory");
	block = &blocks[nblocks++];
	block->len = made_block_columns(rows, nrows, room);
	block->content = malloc(block->len);
	block->frame = malloc(ZSTD_compressBound(block->len));
	if (block->content == NULL || block->frame == NULL)
		die("out of memory");
	memcpy(block->content, room, block->len);
	at = block->content + block->len;
	for (size_t i = nrows; i-- > 0;)
	{
		at -= rows[i].payload.len;
		block->payloads[i] = (AtpBytes) {at, rows[i].payload.len};
	}
	block->nrows = nrows;
	block->frame_len = made_block_frame(block->content, block->len, block->frame);
	total_rows += nrows;
	total_frames += block->frame_len;
	total_content += block->len;
	nrows = 0;
}

/* The records of a frame become rows; the frame must stay in memory. */
static void
add_rows(const uint8_t *data, size_t len)
{
	static AtpCarBlock car_blocks[BLOCKS_CAP];
	static uint32_t slots[2 * BLOCKS_CAP];
	AtpCarIndex index = {.blocks = car_blocks, .cap = BLOCKS_CAP, .slots = slots, .nslots = 2 * BLOCKS_CAP};
	AtpFrame	frame;
	size_t		at;

	if (atp_frame_parse(data, len, &frame, &at) != ATP_OK || atp_repos_parse(&frame, &msg, &at) != ATP_OK || msg.kind != ATP_REPOS_COMMIT)
		return;
	memset(slots, 0, sizeof(slots));
	if (atp_commit_invert(&msg, &index, NULL, atp_sha256, NULL, &at) != ATP_OK)
		die("invalid commit");
	for (unsigned i = 0; i < msg.nops; i++)
	{
		AtpArchiveRow *row = &rows[nrows];

		if (msg.ops[i].block == NULL || msg.ops[i].rkey.len > UINT8_MAX || msg.ops[i].collection.len > UINT8_MAX)
			continue;
		seq++;
		*row = (AtpArchiveRow) {
			.seq = seq, .witnessed_at = INT64_C(1767225600000000) + (int64_t) seq * 2000, .kind = ATP_ARCHIVE_CREATE, .did = msg.did,
			.collection = msg.ops[i].collection, .rkey = msg.ops[i].rkey, .rev = {revs[nrows], ATP_TID_TEXT}, .payload = msg.ops[i].block->data
		};
		atp_tid_format(msg.rev, revs[nrows]);
		if (++nrows == BLOCK_ROWS)
			make_block();
	}
}

static void
load(const char *path)
{
	FILE	   *f = fopen(path, "rb");
	uint8_t		head[4];

	if (f == NULL)
		die("cannot open the capture");
	while (fread(head, 1, 4, f) == 4)
	{
		size_t		len = (size_t) head[0] << 24 | (size_t) head[1] << 16 | head[2] << 8 | head[3];
		uint8_t    *data = malloc(len);

		if (data == NULL || fread(data, 1, len, f) != len)
			die("the capture is cut short");
		add_rows(data, len);
	}
	(void) fclose(f);
	make_block();
	if (nblocks == 0)
		die("no records");
}

static void
hash_record(AtpBytes record)
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];

	atp_cid_of(ATP_CID_CODEC_DAG_CBOR, record.ptr, record.len, atp_sha256, NULL, cid);
	sum += cid[4];
}

static void
check_record(AtpBytes record)
{
	size_t		at;

	if (atp_record_check(record.ptr, record.len, &at) != ATP_OK)
		die("an invalid record");
}

static void
run_floor(const Block *block)
{
	if (ZSTD_decompressDCtx(dctx, block->content, block->len, block->frame, block->frame_len) != block->len)
		die("a frame is broken");
	for (size_t i = 0; i < block->nrows; i++)
	{
		hash_record(block->payloads[i]);
		check_record(block->payloads[i]);
	}
}

static void
run_stages(const Block *block, Stage last)
{
	AtpEnd		end = {ATP_DROP_NONE};
	const uint8_t *content;
	AtpArchiveBlock columns;
	AtpArchiveRow row;
	size_t		len;
	size_t		at;

	atp_unzstd_begin(unzstd);
	for (size_t pos = 0; pos < block->frame_len; pos += PIECE)
		if (!atp_unzstd_push(unzstd, block->frame + pos, block->frame_len - pos < PIECE ? block->frame_len - pos : PIECE, &end))
			die(end.why);
	if ((content = atp_unzstd_end(unzstd, &len, &end)) == NULL)
		die(end.why);
	if (last == FRAMES)
		return;
	if (atp_archive_block_open(&columns, (AtpBytes) {content, len}, 0, 1, ATP_ARCHIVE_SEQ_LIMIT - 1, &at) != ATP_OK || columns.nrows != block->nrows)
		die("an invalid block");
	while (atp_archive_block_next(&columns, &row))
	{
		if (atp_archive_row_check(&columns, &row, &msg, &at) != ATP_OK)
			die("an invalid row");
		if (last >= CIDS)
			hash_record(row.payload);
		if (last >= RECORDS)
			check_record(row.payload);
	}
}

int
main(int argc, char **argv)
{
	double		times[NSTAGES][RUNS];
	double		us[NSTAGES];
	unsigned	rounds;

	if (argc != 2)
		die("usage: archive CAPTURE");
	room = malloc(ROOM);
	unzstd = atp_unzstd_new_for_blocks(ROOM);
	dctx = ZSTD_createDCtx();
	if (room == NULL || unzstd == NULL || dctx == NULL)
		die("out of memory");
	load(argv[1]);
	rounds = 1 + (unsigned) (ROUNDS * BLOCK_ROWS * 4 / total_rows);

	/* the stages in turn, so that another process on the machine slows all of them */
	for (int run = 0; run < RUNS; run++)
	{
		for (Stage stage = 0; stage < NSTAGES; stage++)
		{
			double		start = seconds();

			for (unsigned round = 0; round < rounds; round++)
			{
				for (size_t i = 0; i < nblocks; i++)
				{
					if (stage == FLOOR)
						run_floor(&blocks[i]);
					else
						run_stages(&blocks[i], stage);
				}
			}
			times[stage][run] = (seconds() - start) * 1e6 / ((double) rounds * (double) total_rows);
		}
	}
	for (Stage stage = 0; stage < NSTAGES; stage++)
	{
		qsort(times[stage], RUNS, sizeof(double), compare_doubles);
		us[stage] = times[stage][RUNS / 2];
	}
	printf("%zu rows in %zu blocks: %zu bytes a row, %zu compressed\n", total_rows, nblocks, total_content / total_rows, total_frames / total_rows);
	printf("frames to rows with CID and checked record: %.2f us a row, %.0f rows/s; of which\n", us[RECORDS], 1e6 / us[RECORDS]);
	printf("  frames decompressed in pieces  %6.2f us\n", us[FRAMES]);
	printf("  columns, rows, identifiers     %6.2f us\n", us[ROWS] - us[FRAMES]);
	printf("  SHA-256                        %6.2f us\n", us[CIDS] - us[ROWS]);
	printf("  the records                    %6.2f us\n", us[RECORDS] - us[CIDS]);
	printf("the floor: %.2f us a row, %.0f rows/s; ratio of the rates %.3f\n", us[FLOOR], 1e6 / us[FLOOR], us[FLOOR] / us[RECORDS]);
	return sum == 0;
}
