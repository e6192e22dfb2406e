/*
 * block_store.h
 *		Blocks by their CIDs: the first ones in memory, the others in a temporary
 *		file.
 */
#ifndef ATP_BLOCK_STORE_H
#define ATP_BLOCK_STORE_H

#include "postgres.h"

#include "core/atp.h"

typedef struct AtpBlockStore AtpBlockStore;

/* Where a block is read to that is not in memory; all zero at the start. */
typedef struct AtpBlockBuffer
{
	uint8_t    *bytes;
	Size		room;
} AtpBlockBuffer;

/*
 * With so many bytes of blocks in memory.  across: the file outlives transactions,
 * and its user sees to it that atp_blocks_free() is called.
 */
extern AtpBlockStore *atp_blocks_create(MemoryContext parent, Size memory, bool across);
extern void atp_blocks_free(AtpBlockStore *store);

/* A blessed CID, which is right; a block that is there is not kept twice.  May raise an ERROR: temp_file_limit. */
extern void atp_blocks_add(AtpBlockStore *store, AtpBytes cid, AtpBytes block);

extern uint64 atp_blocks_count(const AtpBlockStore *store);

/* Bytes of memory that it has now, and those of its index. */
extern Size atp_blocks_memory(const AtpBlockStore *store);
extern Size atp_blocks_index(const AtpBlockStore *store);

/* Very probably: who reads it will see. */
extern bool atp_blocks_has(const AtpBlockStore *store, AtpBytes cid);

/* False: it is not there.  The block stays until the buffer is used again, or one is added. */
extern bool atp_blocks_read(AtpBlockStore *store, AtpBytes cid, AtpBlockBuffer *buffer, AtpBytes *block);

#endif							/* ATP_BLOCK_STORE_H */
