/*
 * test_segment.c
 *		Names, headers and blocks of segments of an archive: rules H-20, H-23.
 */
#include "core/archive/segment_blocks.h"
#include "core/archive/segment_name.h"
#include "hex.h"
#include "unit.h"

#define FILE_ROOM	65536

static uint8_t segment[FILE_ROOM];
static size_t segment_len;

/* ------------------------------------------------------------------------
 * Names
 * ------------------------------------------------------------------------
 */
static void
test_names(void)
{
	static const struct
	{
		const char *name;
		uint64_t	index;
	}			good[] = {
		{"seg_0000000000.jss", 0}, {"seg_0000000009.jss", 9}, {"seg_000000000a.jss", 10}, {"seg_000000000z.jss", 35}, {"seg_0000000010.jss", 36},
		{"seg_00000000rs.jss", 1000}, {"seg_zzzzzzzzzz.jss", ATP_SEGMENT_INDEX_LIMIT - 1}
	};
	static const char *const bad[] = {
		"", "seg_", "seg_000000000.jss", "seg_00000000000.jss", "seg_000000000A.jss", "seg_000000000-.jss", "Seg_0000000000.jss", "seg_0000000000.jsS",
		"seg-0000000000.jss", "seg_0000000000.js", "seg_0000000000.jss ", "seg_000000/000.jss", "../_0000000000.jss"
	};
	uint64_t	index;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
	{
		AtpSpan		name = {(char *) copy_of(good[i].name, ATP_SEGMENT_NAME_LEN), ATP_SEGMENT_NAME_LEN};
		char		again[ATP_SEGMENT_NAME_LEN];

		ok(atp_segment_name_parse(name, &index) == ATP_OK && index == good[i].index, "H-20: %s", good[i].name);
		atp_segment_name_format(index, again);
		ok(memcmp(again, name.ptr, sizeof(again)) == 0, "and back");
		free((char *) name.ptr);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
	{
		size_t		n = strlen(bad[i]);
		char	   *copy = (char *) copy_of(bad[i], n);

		ok(atp_segment_name_parse((AtpSpan) {copy, n}, &index) == ATP_E_SEGMENT_NAME, "H-20: not \"%s\"", bad[i]);
		free(copy);
	}
	ok(atp_segment_name_parse((AtpSpan) {"seg_000000000\0.jss", 18}, &index) == ATP_E_SEGMENT_NAME, "H-20: nor one with a NUL");
}

/* ------------------------------------------------------------------------
 * Headers
 * ------------------------------------------------------------------------
 */
static void
put_le(uint8_t *p, unsigned bytes, uint64_t value)
{
	for (unsigned i = 0; i < bytes; i++)
		p[i] = (uint8_t) (value >> 8 * i);
}

/* The header with a field changed. */
static AtpErr
parse_header(unsigned field, unsigned bytes, uint64_t value, uint64_t file_size)
{
	uint8_t    *head = copy_of(segment, ATP_SEGMENT_HEADER_LEN);
	AtpSegmentHeader header;
	size_t		at = SIZE_MAX;
	AtpErr		err;

	put_le(head + field, bytes, value);
	err = atp_segment_header_parse(head, file_size, &header, &at);
	free(head);
	return at < ATP_SEGMENT_HEADER_LEN ? err : ATP_ERR_COUNT;
}

static void
test_headers(void)
{
	static const unsigned order[] = {58, 90, 66, 74, 82};	/* offsets of the parts, in the order of the parts */
	AtpSegmentHeader header;
	size_t		at;
	uint64_t	last = ATP_SEGMENT_HEADER_LEN;

	ok(atp_segment_header_parse(segment, segment_len, &header, &at) == ATP_OK && header.block_count == 3 && header.event_count == 31 &&
	   header.min_seq == 3 && header.max_seq == 2093 && header.footer_offset > ATP_SEGMENT_HEADER_LEN, "H-23: a header");
	ok(parse_header(0, 1, 'J', segment_len) == ATP_E_SEGMENT_MAGIC, "H-23: another file");
	ok(parse_header(3, 1, '1', segment_len) == ATP_E_SEGMENT_MAGIC, "H-23: jss1");
	ok(parse_header(4, 8, 0, segment_len) == ATP_E_SEGMENT_ACTIVE, "H-23: an active segment");
	ok(parse_header(4, 8, 1, segment_len) == ATP_OK, "H-23: the checksum is not computed");
	ok(parse_header(12, 2, 0, segment_len) == ATP_E_SEGMENT_VERSION && parse_header(12, 2, 2, segment_len) == ATP_E_SEGMENT_VERSION &&
	   parse_header(12, 2, 257, segment_len) == ATP_E_SEGMENT_VERSION, "H-23: another version");
	ok(parse_header(14, 4, ATP_ARCHIVE_BLOCKS_MAX, segment_len) == ATP_OK &&
	   parse_header(14, 4, ATP_ARCHIVE_BLOCKS_MAX + 1, segment_len) == ATP_E_SEGMENT_BLOCKS, "more blocks than there may be");
	ok(parse_header(34, 8, ATP_ARCHIVE_SEQ_LIMIT - 1, segment_len) == ATP_OK &&
	   parse_header(34, 8, ATP_ARCHIVE_SEQ_LIMIT, segment_len) == ATP_E_SEGMENT_SEQ, "a number that is too great");
	ok(parse_header(34, 8, 3, segment_len) == ATP_OK && parse_header(34, 8, 2, segment_len) == ATP_E_SEGMENT_SEQ, "numbers that fall");
	for (unsigned i = 0; i < 5; i++)
	{
		uint64_t	own = atp_get_le(segment + order[i], 8);

		ok(parse_header(order[i], 8, last - 1, segment_len) == ATP_E_SEGMENT_OFFSETS &&
		   parse_header(order[i], 8, segment_len + 1, UINT64_MAX) == (i < 4 ? ATP_E_SEGMENT_OFFSETS : ATP_OK) &&
		   parse_header(order[i], 8, UINT64_MAX, segment_len) == ATP_E_SEGMENT_OFFSETS &&
		   parse_header(order[i], 8, own, own - 1) == ATP_E_SEGMENT_OFFSETS, "H-23: part %u before the part before it, behind the next, behind the end", i);
		last = own;
	}
	ok(parse_header(90, 8, atp_get_le(segment + 58, 8) + 1, segment_len) == ATP_E_SEGMENT_OFFSETS, "H-23: a gap before the block index");
}

/* ------------------------------------------------------------------------
 * Blocks
 * ------------------------------------------------------------------------
 */
typedef struct Cut
{
	uint8_t		bytes[FILE_ROOM];
	size_t		len;
	uint32_t	blocks;
	size_t		ends[8];		/* of each block, in bytes */
	bool		is_whole;
	size_t		at;
} Cut;

/* Reads the file in pieces of so many bytes. */
static AtpErr
cut_file(const uint8_t *file, size_t n, size_t give, Cut *cut)
{
	AtpSegmentBlocks blocks;
	AtpErr		err = ATP_OK;

	memset(cut, 0, sizeof(*cut));
	atp_segment_blocks_begin(&blocks, segment_len);
	for (size_t at = 0; at < n && err == ATP_OK; at += give)
	{
		size_t		given = give < n - at ? give : n - at;
		uint8_t    *copy = copy_of(file + at, given);
		const uint8_t *in = copy;
		AtpSegmentPart part;

		while ((err = atp_segment_blocks_next(&blocks, &in, &given, &part, &cut->at)) == ATP_OK && part.bytes.len > 0)
		{
			if (part.bytes.ptr < copy || part.bytes.ptr + part.bytes.len != in || part.block != cut->blocks)
				err = ATP_ERR_COUNT;
			memcpy(cut->bytes + cut->len, part.bytes.ptr, part.bytes.len);
			cut->len += part.bytes.len;
			if (part.ends && cut->blocks < 8)
				cut->ends[cut->blocks++] = cut->len;
		}
		free(copy);
	}
	if (err != ATP_OK && (atp_segment_blocks_is_whole(&blocks) || blocks.err != err))
		err = ATP_ERR_COUNT;
	cut->is_whole = atp_segment_blocks_is_whole(&blocks);
	return err;
}

static void
test_blocks(void)
{
	static Cut	whole;
	static Cut	cut;
	size_t		footer = (size_t) atp_get_le(segment + 58, 8);
	size_t		at = ATP_SEGMENT_HEADER_LEN;
	int			differ = 0;

	ok(cut_file(segment, segment_len, segment_len, &whole) == ATP_OK && whole.is_whole && whole.blocks == 3, "H-23: three blocks");
	for (uint32_t i = 0; i < whole.blocks; i++)
	{
		size_t		begin = i == 0 ? 0 : whole.ends[i - 1];

		differ += atp_get_le(segment + at, 8) != whole.ends[i] - begin ||
			memcmp(segment + at + 8, whole.bytes + begin, whole.ends[i] - begin) != 0;
		at += 8 + whole.ends[i] - begin;
	}
	ok(differ == 0 && at == footer, "each as it stands in the file");
	for (size_t give = 1; give < 600; give++)
		differ += cut_file(segment, segment_len, give, &cut) != ATP_OK || !cut.is_whole || cut.len != whole.len ||
			memcmp(cut.bytes, whole.bytes, whole.len) != 0 || memcmp(cut.ends, whole.ends, sizeof(cut.ends)) != 0;
	ok(differ == 0, "however the file comes");
	ok(cut_file(segment, footer, 1000, &cut) == ATP_OK && cut.is_whole, "H-23: the footer need not come");
	memset(segment + footer, 0xff, segment_len - footer);
	ok(cut_file(segment, segment_len, 1000, &cut) == ATP_OK && cut.len == whole.len, "H-24: nothing in the footer counts");
	for (size_t n = 0; n < footer; n++)
		differ += cut_file(segment, n, 1000, &cut) != ATP_OK || cut.is_whole;
	ok(differ == 0, "H-13: what is cut short is not whole");
}

/* The file with a field changed: the error, and where. */
static void
fault_of(const char *what, size_t field, unsigned bytes, uint64_t value, AtpErr expected, size_t expected_at)
{
	static Cut	cut;
	uint8_t    *copy = copy_of(segment, segment_len);
	int			differ = 0;

	put_le(copy + field, bytes, value);
	for (size_t give = 1; give < segment_len; give += 1 + give / 7)
		differ += cut_file(copy, segment_len, give, &cut) != expected || cut.at != expected_at;
	ok(differ == 0, "%s: %s, at %zu", what, atp_err_text(expected), cut.at);
	free(copy);
}

static void
test_faults(void)
{
	size_t		first = ATP_SEGMENT_HEADER_LEN;
	uint64_t	len = atp_get_le(segment + first, 8);
	size_t		second = first + 8 + (size_t) len;
	size_t		footer = (size_t) atp_get_le(segment + 58, 8);

	fault_of("H-23: another file", 0, 1, 0, ATP_E_SEGMENT_MAGIC, 0);
	fault_of("H-23: another version", 12, 2, 2, ATP_E_SEGMENT_VERSION, 12);
	fault_of("a block without bytes", first, 8, 0, ATP_E_SEGMENT_BLOCK_LENGTH, first);
	fault_of("a block to behind the footer's begin", first, 8, footer - first - 7, ATP_E_SEGMENT_BLOCK_LENGTH, first);
	fault_of("a block of 2^64 - 1 bytes", second, 8, UINT64_MAX, ATP_E_SEGMENT_BLOCK_LENGTH, second);
	fault_of("a block to the footer, but others should follow", first, 8, footer - first - 8, ATP_E_SEGMENT_BLOCKS, footer);
	fault_of("a block longer by a byte", first, 8, len + 1, ATP_E_SEGMENT_BLOCK_LENGTH, second + 1);
	fault_of("fewer blocks than there are", 14, 4, 2, ATP_E_SEGMENT_BLOCKS, second + 8 + (size_t) atp_get_le(segment + second, 8));
	fault_of("more blocks than there are", 14, 4, 4, ATP_E_SEGMENT_BLOCKS, footer);
	fault_of("no blocks", 14, 4, 0, ATP_E_SEGMENT_BLOCKS, first);
}

static void
test_large(void)
{
	AtpSegmentBlocks blocks;
	AtpSegmentPart part;
	uint8_t		file[ATP_SEGMENT_HEADER_LEN + 16];
	const uint64_t size = UINT64_C(1) << 40;
	size_t		at;

	for (int more = 0; more < 2; more++)
	{
		const uint8_t *in = file;
		size_t		n = sizeof(file);
		AtpErr		err;

		memcpy(file, segment, ATP_SEGMENT_HEADER_LEN);
		for (unsigned field = 58; field < 98; field += 8)
			put_le(file + field, 8, size);
		put_le(file + ATP_SEGMENT_HEADER_LEN, 8, ATP_ARCHIVE_FRAME_MAX + (uint64_t) more);
		atp_segment_blocks_begin(&blocks, size);
		err = atp_segment_blocks_next(&blocks, &in, &n, &part, &at);
		ok(more ? err == ATP_E_SEGMENT_BLOCK_LARGE && at == ATP_SEGMENT_HEADER_LEN : err == ATP_OK && part.bytes.len == 8,
		   "H-21: a frame of 64 MB and %d bytes", more);
	}
	/* a block count of 0 and a footer at once: nothing to read */
	memcpy(file, segment, ATP_SEGMENT_HEADER_LEN);
	put_le(file + 14, 4, 0);
	for (unsigned field = 58; field < 98; field += 8)
		put_le(file + field, 8, ATP_SEGMENT_HEADER_LEN);
	{
		const uint8_t *in = file;
		size_t		n = sizeof(file);

		atp_segment_blocks_begin(&blocks, sizeof(file));
		ok(atp_segment_blocks_next(&blocks, &in, &n, &part, &at) == ATP_OK && part.bytes.len == 0 && n == 16 && atp_segment_blocks_is_whole(&blocks),
		   "a segment without blocks");
	}
}

int
main(void)
{
	FILE	   *f = fopen("data/vectors/archive/segment.jss", "rb");

	if (f == NULL || (segment_len = fread(segment, 1, sizeof(segment), f)) < ATP_SEGMENT_HEADER_LEN)
		return 2;
	(void) fclose(f);
	test_names();
	test_headers();
	test_blocks();
	test_faults();
	test_large();
	return done_testing();
}
