/*
 * block_store.h
 *		Stores blocks of an export by CID: the first blocks in memory, the rest in a temporary file
 *		(R-46).
 */
#ifndef ATP_BLOCK_STORE_H
#define ATP_BLOCK_STORE_H

#include "postgres.h"

#include "core/atp.h"

typedef struct AtpBlockStore AtpBlockStore;

/* Buffer for blocks that are read from the file; all zero at the start. */
typedef struct AtpBlockBuffer
{
	uint8_t    *bytes;
	Size		room;
} AtpBlockBuffer;

/*
 * Create a store with this many bytes of blocks in memory.  across: the file outlives transactions,
 * and the caller must call atp_blocks_free() in any case.
 */
extern AtpBlockStore *atp_blocks_create(MemoryContext parent, Size memory, bool across);
extern void atp_blocks_free(AtpBlockStore *store);

/*
 * Add a block under its CID, which must be blessed (sha256) and correct.  A block that is stored
 * already is not stored twice.  May raise an ERROR: temp_file_limit.
 */
extern void atp_blocks_add(AtpBlockStore *store, AtpBytes cid, AtpBytes block);

extern uint64 atp_blocks_count(const AtpBlockStore *store);

/* Bytes of memory in use, without the index; and bytes of the index. */
extern Size atp_blocks_memory(const AtpBlockStore *store);
extern Size atp_blocks_index(const AtpBlockStore *store);

/*
 * Is the block stored?  A wrong "yes" is possible, but very improbable; atp_blocks_read() is exact.
 */
extern bool atp_blocks_has(const AtpBlockStore *store, AtpBytes cid);

/* False: no such block.  The block is valid until the buffer is used again, or a block is added. */
extern bool atp_blocks_read(AtpBlockStore *store, AtpBytes cid, AtpBlockBuffer *buffer, AtpBytes *block);

#endif							/* ATP_BLOCK_STORE_H */
