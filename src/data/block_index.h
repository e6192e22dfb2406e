/*
 * block_index.h
 *		Memory for an index over the blocks of a CAR file.
 */
#ifndef ATP_BLOCK_INDEX_H
#define ATP_BLOCK_INDEX_H

#include "core/car.h"

/*
 * An empty index with room for all blocks of the file, in the current memory
 * context: at most one and a half times the file's size, whatever it holds.
 * Raises an error when the file is malformed, or has blocks that cannot be verified.
 */
extern void atp_block_index_init(AtpCarIndex *index, const uint8_t *buf, size_t len);

#endif							/* ATP_BLOCK_INDEX_H */
