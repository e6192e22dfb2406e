/*
 * shapes_archive.c
 *		Segments, blocks and plans of an archive.
 */
#include "core/archive/archive_block.h"
#include "core/archive/archive_plan.h"
#include "core/archive/segment_blocks.h"
#include "measure.h"

static void
put_le(uint64_t value, unsigned bytes)
{
	for (; bytes > 0; bytes--, value >>= 8)
		atp_cbor_put_raw(&input, &(uint8_t) {(uint8_t) value}, 1);
}

/* ------------------------------------------------------------------------
 * Segments
 * ------------------------------------------------------------------------
 */

/* Blocks of one byte. */
static void
make_segment(size_t n)
{
	const uint64_t footer = ATP_SEGMENT_HEADER_LEN + 9 * (uint64_t) n;

	put("jss0");
	put_le(1, 8);
	put_le(1, 2);
	put_le(n, 4);
	put_le(n, 8);				/* events, accounts */
	put_le(1, 8);
	put_le(n + 1, 8);
	put_le(0, 16);				/* times */
	for (int i = 0; i < 5; i++)
		put_le(footer, 8);
	put_le(0, ATP_SEGMENT_HEADER_LEN - 98);
	for (size_t i = 0; i < n; i++)
	{
		put_le(1, 8);
		put_le(0, 1);
	}
}

static bool
read_segment(size_t give)
{
	AtpSegmentBlocks segment;
	AtpSegmentPart part;
	size_t		at;

	atp_segment_blocks_begin(&segment, input.len);
	for (size_t pos = 0; pos < input.len; pos += give)
	{
		const uint8_t *in = input.buf + pos;
		size_t		n = give < input.len - pos ? give : input.len - pos;

		while (atp_segment_blocks_next(&segment, &in, &n, &part, &at) == ATP_OK && part.bytes.len > 0)
			;
	}
	return atp_segment_blocks_is_whole(&segment) && segment.blocks == parts;
}

static bool
run_segment(void)
{
	return read_segment(input.len);
}

static bool
run_segment_trickle(void)
{
	return read_segment(1);
}

/* ------------------------------------------------------------------------
 * Blocks
 * ------------------------------------------------------------------------
 */

/* Deletions, with the shortest texts. */
static void
make_rows(size_t n)
{
	put_le(n, 4);
	for (size_t i = 0; i < n; i++)
		put_le(i + 1, 8);
	for (size_t i = 0; i < 2 * n; i++)
		put_le(0, 8);
	for (size_t i = 0; i < n; i++)
		put_le(ATP_ARCHIVE_DELETE, 1);
	for (size_t i = 0; i < n; i++)
		put_le(strlen("a.b.c"), 1);
	for (size_t i = 0; i < n; i++)
		put_le(strlen("did:a:b"), 2);
	for (size_t i = 0; i < n; i++)
		put_le(1, 1);
	for (size_t i = 0; i < n; i++)
		put_le(strlen("2222222222222"), 1);
	for (size_t i = 0; i < n; i++)
		put_le(0, 4);
	put_times(n, "a.b.c");
	put_times(n, "did:a:b");
	put_times(n, "x");
	put_times(n, "2222222222222");
}

/* A row whose message has n unknown fields. */
static void
make_message(size_t n)
{
	size_t		length_at = 4 + 30;
	size_t		begin;

	put_le(1, 4);
	put_le(1, 8);
	put_le(0, 16);
	put_le(ATP_ARCHIVE_IDENTITY, 1);
	put_le(0, 1);
	put_le(strlen(DID), 2);
	put_le(0, 6);
	put(DID);
	begin = input.len;
	atp_cbor_put_map(&input, 3 + n);
	put("\x63" "did\x78\x20" DID "\x63seq\x07\x64time\x60");
	for (size_t i = 0; i < n; i++)
	{
		putf("\x68%08zu", i);
		atp_cbor_put_null(&input);
	}
	for (int i = 0; i < 4; i++)
		input.buf[length_at + i] = (uint8_t) ((input.len - begin) >> 8 * i);
}

static bool
read_rows(size_t want)
{
	static AtpReposMessage msg;
	AtpArchiveBlock block;
	AtpArchiveRow row;
	size_t		good = 0;
	size_t		at;

	if (atp_archive_block_open(&block, (AtpBytes) {input.buf, input.len}, 0, 0, ATP_ARCHIVE_SEQ_LIMIT - 1, &at) != ATP_OK)
		return false;
	while (atp_archive_block_next(&block, &row))
		good += atp_archive_row_check(&block, &row, &msg, &at) == ATP_OK;
	return good == want;
}

static bool
run_rows(void)
{
	return read_rows(parts);
}

static bool
run_message(void)
{
	return read_rows(1);
}

/* ------------------------------------------------------------------------
 * Plans
 * ------------------------------------------------------------------------
 */
#define PLAN_BEGIN	"{\"sealedTipSeq\":9,\"plannedThroughSeq\":9,\"stats\":{\"blocksMatched\":0},\"segments\":["
#define SEGMENT		"{\"name\":\"seg_000000%c%c%c%c.jss\",\"index\":%zu,\"minSeq\":1,\"maxSeq\":9,\"mode\":"

static void
put_segment(size_t index, const char *rest)
{
	char		name[ATP_SEGMENT_NAME_LEN];

	atp_segment_name_format(index, name);
	putf(SEGMENT "%s", name[10], name[11], name[12], name[13], index, rest);
}

static void
make_ranges(size_t n)
{
	put(PLAN_BEGIN);
	put_segment(1, "\"blocks\",\"blocks\":[");
	for (size_t i = 0; i < n; i++)
		putf("%s{\"first\":%zu,\"last\":%zu}", i == 0 ? "" : ",", i, i);
	put("]}]}");
}

static void
make_segments(size_t n)
{
	put(PLAN_BEGIN);
	for (size_t i = 0; i < n; i++)
	{
		put(i == 0 ? "" : ",");
		put_segment(i, "\"segment\"}");
	}
	put("]}");
}

/* Members of a segment that nobody knows. */
static void
make_plan_members(size_t n)
{
	put(PLAN_BEGIN);
	put_segment(1, "\"segment\"");
	put_times(n, ",\"\":[]");
	put("}]}");
}

static bool
read_plan(size_t want)
{
	AtpPlan		plan;
	AtpPlanUnits units;
	size_t		found = 0;
	size_t		at;

	if (atp_plan_parse(INPUT_TEXT, input.len, &plan, &at) != ATP_OK)
		return false;
	atp_plan_units_begin(&units, &plan);
	while (atp_plan_units_next(&units, &at) == ATP_OK)
		found++;
	return found == want;
}

static bool
run_units(void)
{
	return read_plan(parts);
}

static bool
run_plan_members(void)
{
	return read_plan(1);
}

/* The input has less room than a block, a segment and a plan may have bytes. */
const Shape archive_shapes[] = {
	{"segment-blocks", INPUT_ROOM / 9 - 32, 16384, make_segment, run_segment},
	{"segment-trickle", INPUT_ROOM / 9 - 32, 2048, make_segment, run_segment_trickle},
	{"block-rows", INPUT_ROOM / 60 - 8, 2048, make_rows, run_rows},
	{"block-message", ATP_FRAME_MAX / 10 - 16, 16384, make_message, run_message},
	{"plan-ranges", ATP_PLAN_UNITS_MAX, 2048, make_ranges, run_units},
	{"plan-segments", INPUT_ROOM / 100, 1024, make_segments, run_units},
	{"plan-members", INPUT_ROOM / 6 - 64, 16384, make_plan_members, run_plan_members},
	{NULL}
};
