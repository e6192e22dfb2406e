/*
 * segment_header.c
 *		The header of a segment: see segment_header.h.
 */
#include "core/archive/segment_header.h"
#include "core/syntax/chars.h"

/* Where the fields stand, in bytes. */
enum
{
	CHECKSUM = 4, VERSION = 12, BLOCK_COUNT = 14, EVENT_COUNT = 18, MIN_SEQ = 26, MAX_SEQ = 34, FOOTER = 58, DID_BLOOM = 66, BLOCK_DID_BLOOM = 74,
	COLLECTION_INDEX = 82, BLOCK_INDEX = 90
};

/* The parts after the header stand in this order, and end with the file. */
static AtpErr
check_offsets(const uint8_t *bytes, uint64_t file_size, size_t *at)
{
	static const unsigned char order[] = {FOOTER, BLOCK_INDEX, DID_BLOOM, BLOCK_DID_BLOOM, COLLECTION_INDEX};
	uint64_t	last = ATP_SEGMENT_HEADER_LEN;

	for (size_t i = 0; i < sizeof(order); i++)
	{
		uint64_t	offset = atp_get_le(bytes + order[i], 8);

		if (offset < last || offset > file_size || (order[i] == BLOCK_INDEX && offset != last))
			return atp_fail(ATP_E_SEGMENT_OFFSETS, order[i], at);
		last = offset;
	}
	return ATP_OK;
}

AtpErr
atp_segment_header_parse(const uint8_t bytes[ATP_SEGMENT_HEADER_LEN], uint64_t file_size, AtpSegmentHeader *header, size_t *at)
{
	AtpErr		err;

	if (memcmp(bytes, "jss0", 4) != 0)
		return atp_fail(ATP_E_SEGMENT_MAGIC, 0, at);
	if (atp_get_le(bytes + CHECKSUM, 8) == 0)
		return atp_fail(ATP_E_SEGMENT_ACTIVE, CHECKSUM, at);
	if (atp_get_le(bytes + VERSION, 2) != 1)
		return atp_fail(ATP_E_SEGMENT_VERSION, VERSION, at);
	header->block_count = (uint32_t) atp_get_le(bytes + BLOCK_COUNT, 4);
	header->event_count = (uint32_t) atp_get_le(bytes + EVENT_COUNT, 4);
	header->min_seq = atp_get_le(bytes + MIN_SEQ, 8);
	header->max_seq = atp_get_le(bytes + MAX_SEQ, 8);
	header->footer_offset = atp_get_le(bytes + FOOTER, 8);
	if (header->block_count > ATP_ARCHIVE_BLOCKS_MAX)
		return atp_fail(ATP_E_SEGMENT_BLOCKS, BLOCK_COUNT, at);
	if (header->max_seq >= ATP_ARCHIVE_SEQ_LIMIT || header->min_seq > header->max_seq)
		return atp_fail(ATP_E_SEGMENT_SEQ, MIN_SEQ, at);
	if ((err = check_offsets(bytes, file_size, at)) != ATP_OK)
		return err;
	*at = 0;
	return ATP_OK;
}
