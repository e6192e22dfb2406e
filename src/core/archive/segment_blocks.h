/*
 * segment_blocks.h
 *		Takes the blocks out of a segment whose bytes come in pieces, as a download brings them (H-23).
 *
 * A block is handed on in parts that lie in the piece, so that no memory is taken for the block, and the caller, who
 * passes the parts to a decompressor, can stop at any part.  The footer need not come.
 */
#ifndef ATP_SEGMENT_BLOCKS_H
#define ATP_SEGMENT_BLOCKS_H

#include "core/archive/segment_header.h"

typedef struct AtpSegmentBlocks
{
	AtpErr		err;			/* the first error; nothing is read after it */
	uint64_t	file_size;
	uint64_t	at;				/* offset in the file of the next byte */
	unsigned	nhead;			/* bytes in head */
	uint8_t		head[ATP_SEGMENT_HEADER_LEN];	/* the header, then the length of a block */
	bool		has_header;
	AtpSegmentHeader header;
	uint32_t	blocks;			/* blocks that have been handed on whole */
	uint64_t	left;			/* bytes of the present block's frame still to come */
} AtpSegmentBlocks;

/* A part of a block's frame. */
typedef struct AtpSegmentPart
{
	uint32_t	block;			/* number of the block in the segment, from 0 */
	AtpBytes	bytes;			/* lies in the piece */
	bool		ends;			/* the last part of this block */
} AtpSegmentPart;

/* Begins a file of file_size bytes. */
extern void atp_segment_blocks_begin(AtpSegmentBlocks *segment, uint64_t file_size);

/*
 * The next part of a block; *in and *n move behind it.  Without bytes: the input is used up, or all blocks have
 * been handed on.  Bytes behind the blocks are not read.  *at is the offset of a fault, counted in the file.
 */
extern AtpErr atp_segment_blocks_next(AtpSegmentBlocks *segment, const uint8_t **in, size_t *n, AtpSegmentPart *part, size_t *at);

/* Have all blocks been handed on?  (H-13: a segment that ends before is not whole.) */
extern bool atp_segment_blocks_is_whole(const AtpSegmentBlocks *segment);

#endif							/* ATP_SEGMENT_BLOCKS_H */
