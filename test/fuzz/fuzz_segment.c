/*
 * fuzz_segment.c
 *		Segments of an archive in pieces (H-23): however the file is cut, the blocks and the verdict are the same, and
 *		the blocks fill the file from the header to the footer.
 *
 * Input: a byte that chooses the pieces, and the file.
 */
#include <stdlib.h>

#include "core/archive/segment_blocks.h"

#define CHECK(cond)	do { if (!(cond)) abort(); } while (0)

extern int	LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct Seen
{
	uint64_t	taken;			/* bytes of frames */
	uint32_t	blocks;
	uint64_t	sum;			/* checksum of the bytes and places */
	AtpErr		err;
	size_t		at;
	bool		is_whole;
	AtpSegmentHeader header;
} Seen;

/* Random pieces; with give, pieces of so many bytes. */
static Seen
read_segment(const uint8_t *file, size_t n, unsigned state, size_t give)
{
	Seen		seen = {0};
	AtpSegmentBlocks segment;

	atp_segment_blocks_begin(&segment, n);
	for (size_t at = 0; at < n && seen.err == ATP_OK;)
	{
		size_t		len = give > 0 ? give : 1 + (state >> 16) % (state & 15 ? 50 : 3);
		uint8_t    *copy;
		const uint8_t *in;
		AtpSegmentPart part;

		if (len > n - at)
			len = n - at;
		copy = malloc(len);
		memcpy(copy, file + at, len);
		in = copy;
		at += len;
		state = state * 1103515245 + 12345;
		while ((seen.err = atp_segment_blocks_next(&segment, &in, &len, &part, &seen.at)) == ATP_OK && part.bytes.len > 0)
		{
			CHECK(part.block == seen.blocks && part.bytes.ptr + part.bytes.len == in);
			for (size_t i = 0; i < part.bytes.len; i++)
				seen.sum += (++seen.taken) * part.bytes.ptr[i];
			seen.blocks += part.ends;
		}
		CHECK(seen.err != ATP_OK || len == 0 || atp_segment_blocks_is_whole(&segment));
		free(copy);
	}
	CHECK(seen.at <= n);
	seen.is_whole = atp_segment_blocks_is_whole(&segment);
	CHECK(!seen.is_whole || seen.err == ATP_OK);
	if (segment.has_header)
		seen.header = segment.header;
	return seen;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Seen		a;
	Seen		b;

	if (size == 0)
		return 0;
	a = read_segment(data + 1, size - 1, 0, size);
	b = read_segment(data + 1, size - 1, data[0] * 40503u, 0);
	CHECK(a.err == b.err && a.at == b.at && a.blocks == b.blocks && a.is_whole == b.is_whole);
	/* parts of a block whose end is a fault have been handed on already */
	CHECK(a.err != ATP_OK || (a.taken == b.taken && a.sum == b.sum));
	if (a.is_whole)
		CHECK(a.blocks == a.header.block_count && a.taken + 8 * (uint64_t) a.blocks + ATP_SEGMENT_HEADER_LEN == a.header.footer_offset);
	return 0;
}
