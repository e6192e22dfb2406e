/*
 * block_index.h
 *		Memory for an index over the blocks of a CAR file (core/repo/car.h).
 */
#ifndef ATP_BLOCK_INDEX_H
#define ATP_BLOCK_INDEX_H

#include "postgres.h"

#include "core/repo/car.h"

/*
 * Makes an index empty, with room for nblocks.  Before the first call the index must be all zero.  Memory is
 * allocated in cxt, and kept from call to call.
 */
extern void atp_block_index_clear(AtpCarIndex *index, MemoryContext cxt, size_t nblocks);

/*
 * Allocates an empty index, in the current memory context, for all blocks of a file.  The memory is at most
 * one and a half times the file's size, whatever its contents.  Raises an error when the file is malformed,
 * or has blocks that cannot be verified.
 */
extern void atp_block_index_init(AtpCarIndex *index, const uint8_t *buf, size_t len);

#endif							/* ATP_BLOCK_INDEX_H */
