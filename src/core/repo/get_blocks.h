/*
 * get_blocks.h
 *		A request com.atproto.sync.getBlocks in a fetch of some collections: the blocks that the request asks
 *		for (P-03), and which blocks of the answer the fetch takes (P-10).
 */
#ifndef ATP_GET_BLOCKS_H
#define ATP_GET_BLOCKS_H

#include "core/repo/car.h"

#define ATP_GET_BLOCKS_MAX		100
#define ATP_GET_BLOCKS_URL_MAX	8000	/* bytes */
#define ATP_GET_BLOCKS_NODE_MAX	1000000 /* bytes of a node */
#define ATP_GET_BLOCKS_RECORD_MAX	2000000 /* bytes of a record's block */

/* "&cids=" and the CID, for each block */
#define ATP_GET_BLOCKS_PARAM	(6 + 1 + (ATP_CID_BLESSED_LEN * 8 + 4) / 5)
#define ATP_GET_BLOCKS_QUERY_MAX	(ATP_GET_BLOCKS_MAX * ATP_GET_BLOCKS_PARAM)

typedef struct AtpGetBlocks
{
	size_t		block_max;		/* bytes of a block */
	unsigned	max;			/* number of blocks that the URL has room for */
	unsigned	n;
	unsigned	missing;		/* number of blocks still to come */
	bool		came[ATP_GET_BLOCKS_MAX];
	uint8_t		cid[ATP_GET_BLOCKS_MAX][ATP_CID_BLESSED_LEN];
} AtpGetBlocks;

/* url_len: bytes of the URL before the CIDs.  block_max: one of the two sizes above. */
extern void atp_get_blocks_begin(AtpGetBlocks *request, size_t url_len, size_t block_max);

/*
 * Asks for a block, unless the request asks for the block already.  ATP_E_FETCH_FULL: the block needs another
 * request.  ATP_E_FETCH_CODEC: a fetch takes no such block (P-10).
 */
extern AtpErr atp_get_blocks_add(AtpGetBlocks *request, AtpBytes cid);

/* Writes the end of the URL, without a terminator; returns its length. */
extern size_t atp_get_blocks_query(const AtpGetBlocks *request, char out[ATP_GET_BLOCKS_QUERY_MAX]);

/*
 * P-10: does the fetch take this block of the answer, whose hash is right (atp_car_push())?  Only blocks that
 * the request has asked for are taken, each once.  An error ends the fetch.
 */
extern AtpErr atp_get_blocks_take(AtpGetBlocks *request, const AtpCarBlock *block, bool *taken);

#endif							/* ATP_GET_BLOCKS_H */
