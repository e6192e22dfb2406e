/*
 * segment_header.c
 *		Headers of segments: any header of a file of any size.
 *
 * proves: atp_segment_header_parse check_offsets atp_get_le
 * sources: core/errors.c
 * short: --unwind 9
 * long: --unwind 9
 */
#include "core/archive/segment_header.c"
#include "lib/proof.h"

int
main(void)
{
	uint8_t		bytes[ATP_SEGMENT_HEADER_LEN];
	uint64_t	file_size = any_u64();
	AtpSegmentHeader header;
	size_t		at;
	AtpErr		err = atp_segment_header_parse(bytes, file_size, &header, &at);

	LAW_OF_ERRORS(err, at, ATP_SEGMENT_HEADER_LEN);
	if (err != ATP_OK)
		return 0;
	REACHED("a header");
	LAW(bytes[0] == 'j' && bytes[3] == '0' && bytes[12] == 1 && bytes[13] == 0);
	LAW(header.block_count <= ATP_ARCHIVE_BLOCKS_MAX);
	LAW(header.min_seq <= header.max_seq && header.max_seq < ATP_ARCHIVE_SEQ_LIMIT);
	LAW(header.footer_offset >= ATP_SEGMENT_HEADER_LEN && header.footer_offset <= file_size);
	/* the block index is the first part of the footer, the collections are the last */
	LAW(atp_get_le(bytes + 90, 8) == header.footer_offset);
	LAW(atp_get_le(bytes + 66, 8) >= header.footer_offset && atp_get_le(bytes + 82, 8) >= atp_get_le(bytes + 74, 8));
	return 0;
}
