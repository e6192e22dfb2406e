/*
 * segment_blocks.c
 *		The blocks of a segment that comes in pieces: see segment_blocks.h.
 */
#include "core/archive/segment_blocks.h"
#include "core/syntax/chars.h"

#define LENGTH_LEN	8			/* bytes of the length before a block's frame */

void
atp_segment_blocks_begin(AtpSegmentBlocks *segment, uint64_t file_size)
{
	*segment = (AtpSegmentBlocks) {.file_size = file_size};
}

bool
atp_segment_blocks_is_whole(const AtpSegmentBlocks *segment)
{
	return segment->err == ATP_OK && segment->has_header && segment->at == segment->header.footer_offset;
}

/* Refuses a block's length as soon as the length is known. */
static AtpErr
check_frame_length(const AtpSegmentBlocks *segment, uint64_t len)
{
	if (len == 0 || len > segment->header.footer_offset - segment->at)
		return ATP_E_SEGMENT_BLOCK_LENGTH;
	return len > ATP_ARCHIVE_FRAME_MAX ? ATP_E_SEGMENT_BLOCK_LARGE : ATP_OK;
}

/* Between two blocks: are there as many as the header says? */
static AtpErr
check_block_count(const AtpSegmentBlocks *segment)
{
	bool		at_end = segment->at == segment->header.footer_offset;

	return at_end == (segment->blocks == segment->header.block_count) ? ATP_OK : ATP_E_SEGMENT_BLOCKS;
}

/* Takes bytes of the header, or of a block's length, into head. */
static AtpErr
take_head(AtpSegmentBlocks *segment, const uint8_t **in, size_t *n, size_t *at)
{
	size_t		want = segment->has_header ? LENGTH_LEN : ATP_SEGMENT_HEADER_LEN;
	size_t		taken = want - segment->nhead < *n ? want - segment->nhead : *n;
	AtpErr		err;

	/* the footer's bytes are no length */
	if (segment->has_header && segment->nhead == 0 && segment->header.footer_offset - segment->at <= LENGTH_LEN)
		return atp_fail(ATP_E_SEGMENT_BLOCK_LENGTH, (size_t) segment->at, at);
	memcpy(segment->head + segment->nhead, *in, taken);
	segment->nhead += (unsigned) taken;
	segment->at += taken;
	*in += taken;
	*n -= taken;
	*at = (size_t) segment->at;
	if (segment->nhead < want)
		return ATP_OK;
	segment->nhead = 0;
	if (segment->has_header)
	{
		segment->left = atp_get_le(segment->head, LENGTH_LEN);
		*at -= LENGTH_LEN;
		return check_frame_length(segment, segment->left);
	}
	if ((err = atp_segment_header_parse(segment->head, segment->file_size, &segment->header, at)) != ATP_OK)
		return err;
	segment->has_header = true;
	*at = (size_t) segment->at;
	return check_block_count(segment);
}

static AtpErr
take_frame(AtpSegmentBlocks *segment, const uint8_t **in, size_t *n, AtpSegmentPart *part, size_t *at)
{
	size_t		taken = segment->left < *n ? (size_t) segment->left : *n;

	part->block = segment->blocks;
	part->bytes = (AtpBytes) {*in, taken};
	segment->left -= taken;
	segment->at += taken;
	*in += taken;
	*n -= taken;
	*at = (size_t) segment->at;
	part->ends = segment->left == 0;
	if (!part->ends)
		return ATP_OK;
	segment->blocks++;
	return check_block_count(segment);
}

AtpErr
atp_segment_blocks_next(AtpSegmentBlocks *segment, const uint8_t **in, size_t *n, AtpSegmentPart *part, size_t *at)
{
	*part = (AtpSegmentPart) {.block = segment->blocks};
	*at = (size_t) segment->at;
	while (segment->err == ATP_OK && *n > 0 && part->bytes.len == 0 && !atp_segment_blocks_is_whole(segment))
	{
		if (segment->left > 0)
			segment->err = take_frame(segment, in, n, part, at);
		else
			segment->err = take_head(segment, in, n, at);
	}
	return segment->err;
}
