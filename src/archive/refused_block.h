/*
 * refused_block.h
 *		The block of an archive that was refused last, and how often (H-22).
 *
 * A block may be wrong because of the transfer, so the reader requests the block again.  When the block is refused for the third time, the
 * operator has to ask the server's operator: the error then names the SHA-256 of the block's bytes, which says what was received.  So
 * from the second time on, the bytes of this block are hashed while they come.  Nothing is kept of blocks that are right.
 */
#ifndef ATP_REFUSED_BLOCK_H
#define ATP_REFUSED_BLOCK_H

#include "postgres.h"

#include "common/sha256.h"
#include "core/atp.h"

#define ATP_REFUSED_MAX	3		/* refusals of a block, after which the reader waits */

typedef struct AtpRefusedBlock
{
	int			times;			/* 0: no block was refused */
	uint64		segment;
	uint32		block;
	AtpSha256	sha256;			/* of the block's bytes since atp_refused_begin() ... */
	uint64		nbytes;			/* ... and the number of these bytes */
} AtpRefusedBlock;

/* Is this the block that was refused last? */
extern bool atp_refused_is(const AtpRefusedBlock *refused, uint64 segment, uint32 block);

/* The bytes of a block begin. */
extern void atp_refused_begin(AtpRefusedBlock *refused);

/* Bytes of the block that was refused last. */
extern void atp_refused_add(AtpRefusedBlock *refused, AtpBytes bytes);

/* A block is refused.  Returns text that follows the reason: "", or how often the block was refused, and its hash; palloc'd. */
extern const char *atp_refused_again(AtpRefusedBlock *refused, uint64 segment, uint32 block);

/* A block is right. */
extern void atp_refused_end(AtpRefusedBlock *refused, uint64 segment, uint32 block);

#endif							/* ATP_REFUSED_BLOCK_H */
