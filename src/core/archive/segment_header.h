/*
 * segment_header.h
 *		The first 256 bytes of a segment (H-23): where the blocks end, how many there are, and between which
 *		sequence numbers the rows lie.
 *
 * The checksum is not computed, because it covers no block.  Footer, filters and bitmaps are not read, because a
 * plan has used them already: a filter of the file could only hide rows (H-24).
 */
#ifndef ATP_SEGMENT_HEADER_H
#define ATP_SEGMENT_HEADER_H

#include "core/archive/archive.h"

#define ATP_SEGMENT_HEADER_LEN	256

typedef struct AtpSegmentHeader
{
	uint32_t	block_count;	/* at most ATP_ARCHIVE_BLOCKS_MAX */
	uint32_t	event_count;	/* rows of the segment after compaction */
	uint64_t	min_seq;		/* as of the sealing: compaction keeps the bounds */
	uint64_t	max_seq;
	uint64_t	footer_offset;	/* offset of the first byte behind the blocks */
} AtpSegmentHeader;

/*
 * Reads the header of a sealed segment of file_size bytes.  ATP_E_SEGMENT_ACTIVE: the server still appends to the
 * file, so that nothing in the header is true yet.
 */
extern AtpErr atp_segment_header_parse(const uint8_t bytes[ATP_SEGMENT_HEADER_LEN], uint64_t file_size,
									   AtpSegmentHeader *header, size_t *at);

#endif							/* ATP_SEGMENT_HEADER_H */
