/*
 * archive.h
 *		Limits and integers of the archive in which a Jetstream keeps all events: for segments, blocks and plans.
 *
 * A segment is a file of blocks, a block a list of events (rows), and a plan names the blocks that may have the rows of
 * a client's filter.  The files of an archive are hostile input.
 */
#ifndef ATP_ARCHIVE_H
#define ATP_ARCHIVE_H

#include "core/atp.h"

#define ATP_ARCHIVE_SEQ_LIMIT	UINT64_C(1000000000000000)	/* exclusive: greater cursors are times */
#define ATP_ARCHIVE_BLOCKS_MAX	(UINT32_C(1) << 20) /* blocks of a segment */
#define ATP_ARCHIVE_ROWS_MAX	(UINT32_C(1) << 18) /* rows of a block */
#define ATP_ARCHIVE_FRAME_MAX	(UINT64_C(64) << 20)	/* bytes of a block before decompression (H-21) */

/* Integers are little-endian. */
static inline uint64_t
atp_get_le(const uint8_t *p, unsigned bytes)
{
	uint64_t	value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t) p[i] << 8 * i;
	return value;
}

#endif							/* ATP_ARCHIVE_H */
