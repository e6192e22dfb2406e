/*
 * segment_blocks.c
 *		Blocks of a segment that comes in pieces: one piece, from any state that a segment can lead to.  So by induction,
 *		any segment in any pieces.
 *
 * proves: atp_segment_blocks_next atp_segment_blocks_is_whole atp_segment_blocks_begin take_head take_frame check_frame_length check_block_count
 * sources: core/errors.c
 * short: -DN=1 --unwind 9
 * long: -DN=9 --unwind 12
 * by hand: 25 s
 * assumes: a header is as the harness segment_header proves
 */
#include "core/archive/segment_blocks.c"
#include "lib/proof.h"

AtpErr
atp_segment_header_parse(const uint8_t bytes[ATP_SEGMENT_HEADER_LEN], uint64_t file_size, AtpSegmentHeader *header, size_t *at)
{
	*at = any_size(ATP_SEGMENT_HEADER_LEN - 1);
	if (any_bool())
		return ATP_E_SEGMENT_MAGIC;
	header->block_count = (uint32_t) any_size(ATP_ARCHIVE_BLOCKS_MAX);
	header->footer_offset = any_u64();
	ASSUME(header->footer_offset >= ATP_SEGMENT_HEADER_LEN && header->footer_offset <= file_size);
	return ATP_OK;
}

/* What holds of each state without an error. */
static bool
is_state(const AtpSegmentBlocks *s)
{
	if (!s->has_header)
		return s->nhead < ATP_SEGMENT_HEADER_LEN && s->at == s->nhead && s->left == 0 && s->blocks == 0;
	return s->header.footer_offset >= ATP_SEGMENT_HEADER_LEN && s->header.footer_offset <= s->file_size &&
		s->header.block_count <= ATP_ARCHIVE_BLOCKS_MAX && s->at >= ATP_SEGMENT_HEADER_LEN + s->nhead && s->nhead < LENGTH_LEN &&
		(s->left == 0 || s->nhead == 0) && s->left <= ATP_ARCHIVE_FRAME_MAX && s->at <= s->header.footer_offset &&
		s->left <= s->header.footer_offset - s->at &&
		/* within a block, or its length, there is a block to come, and a byte of its frame */
		((s->left == 0 && s->nhead == 0) || s->blocks < s->header.block_count) &&
		(s->nhead == 0 || s->header.footer_offset - (s->at - s->nhead) > LENGTH_LEN) &&
		(s->left > 0 || s->nhead > 0 || (s->at == s->header.footer_offset) == (s->blocks == s->header.block_count)) &&
		s->blocks <= s->header.block_count;
}

int
main(void)
{
	static AtpSegmentBlocks s;
	static AtpSegmentBlocks zero;
	AtpSegmentBlocks before;
	AtpSegmentPart part;
	const uint8_t *in;
	size_t		left;
	size_t		at;
	AtpErr		err;

	ANY_BUFFER(piece, n, N);
	atp_segment_blocks_begin(&zero, any_u64());
	LAW(is_state(&zero) && !atp_segment_blocks_is_whole(&zero));
	s.file_size = any_u64();
	s.at = any_u64();
	s.nhead = (unsigned) any_size(ATP_SEGMENT_HEADER_LEN);
	s.has_header = any_bool();
	s.header.block_count = (uint32_t) any_u64();
	s.header.footer_offset = any_u64();
	s.blocks = (uint32_t) any_u64();
	s.left = any_u64();
	for (int i = 0; i < LENGTH_LEN; i++)
		s.head[i] = any_byte();
	ASSUME(is_state(&s));
	before = s;
	in = piece;
	left = n;
	err = atp_segment_blocks_next(&s, &in, &left, &part, &at);
	LAW(err >= ATP_OK && err < ATP_ERR_COUNT && s.err == err);
	LAW(in + left == piece + n && left <= n);
	LAW(part.bytes.len == 0 || (part.bytes.ptr >= piece && part.bytes.ptr + part.bytes.len == in));
	LAW(s.at == before.at + (n - left) && at <= s.at);
	if (err != ATP_OK)
	{
		LAW(!atp_segment_blocks_is_whole(&s));
		return 0;
	}
	LAW(is_state(&s));
	LAW(left == 0 || part.bytes.len > 0 || atp_segment_blocks_is_whole(&s));
	LAW(!atp_segment_blocks_is_whole(&s) || s.blocks == s.header.block_count);
	LAW(part.bytes.len == 0 || (part.block == before.blocks && s.blocks == before.blocks + part.ends));
	if (part.ends && n == N)
		REACHED("the end of a block");
	if (s.left > 0 && before.left == 0)
		REACHED("the begin of a block");
	return 0;
}
