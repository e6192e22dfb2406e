/*
 * block_index.h
 *		Memory for an index over the blocks of a CAR file.
 */
#ifndef ATP_BLOCK_INDEX_H
#define ATP_BLOCK_INDEX_H

#include "postgres.h"

#include "core/repo/car.h"

/*
 * Make an index empty, with room for so many blocks.  The first time it is all
 * zero; its memory, in cxt, is kept from one time to the next.
 */
extern void atp_block_index_clear(AtpCarIndex *index, MemoryContext cxt, size_t nblocks);

/*
 * The same, in the current memory context, for all blocks of a file: at most one
 * and a half times the file's size, whatever it holds.
 * Raises an error when the file is malformed, or has blocks that cannot be verified.
 */
extern void atp_block_index_init(AtpCarIndex *index, const uint8_t *buf, size_t len);

#endif							/* ATP_BLOCK_INDEX_H */
