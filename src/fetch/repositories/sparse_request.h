/*
 * sparse_request.h
 *		One request of a sparse fetch at a time (sparse_fetch.c): getRecord or getBlocks, whose answer is a CAR
 *		file.
 *
 * The answer comes from strangers: its size is limited, each block is hashed as it comes, and nothing of the
 * answer is believed but blocks.
 */
#ifndef ATP_SPARSE_REQUEST_H
#define ATP_SPARSE_REQUEST_H

#include "postgres.h"

#include "core/repo/car_push.h"
#include "core/repo/get_blocks.h"
#include "fetch/engine/fetch.h"
#include "fetch/repositories/sparse_fetch.h"

typedef enum AtpSparseRequestState
{
	ATP_SPARSE_IDLE,
	ATP_SPARSE_FILLED,			/* to be sent */
	ATP_SPARSE_RUNNING,
	ATP_SPARSE_ANSWERED,		/* a proof has come, with root; or RecordNotFound */
	ATP_SPARSE_LACKING			/* P-04: the answer lacks a block, or was an error that may mean this */
} AtpSparseRequestState;

/* Receives a block that the request takes; false: the fetch ends. */
typedef bool (*AtpSparseTake) (void *ctx, AtpBytes cid, AtpBytes block);

typedef struct AtpSparseRequest
{
	AtpSparseRequestState state;
	bool		is_proof;		/* getRecord */
	AtpHttp    *http;
	bool		ended;			/* the HTTP request has ended */
	AtpGetBlocks ask;			/* getBlocks: all blocks that this request is for */
	unsigned	missing;		/* blocks that were missing when the request was sent ... */
	unsigned	asked;			/* ... of which it asks for so many */
	bool		has_root;		/* the proof's commit */
	uint8_t		root[ATP_CID_BLESSED_LEN];
	AtpCarPush	push;
	uint8_t    *section;		/* buffer of a block that comes in pieces */
	Size		section_room;
	MemoryContext cxt;
	AtpSparseTake take;
	void	   *take_ctx;
	bool		stopped;		/* take has said that the fetch ends */
	bool		wrong;			/* the CAR file is wrong: why, and where */
	AtpErr		err;
	size_t		err_at;
} AtpSparseRequest;

extern void atp_sparse_request_init(AtpSparseRequest *r, MemoryContext cxt, AtpSparseTake take, void *ctx);

/* The end of the URL of getBlocks: CIDs of at most window missing blocks. */
extern void atp_sparse_request_blocks(AtpSparseRequest *r, StringInfo url, unsigned window);

/* Send the request, if the host's limits allow a request now. */
extern bool atp_sparse_request_send(AtpSparseRequest *r, const void *owner, const char *url, int64 body_max, int whole_ms, long *wait_ms);

/* Read some of the answer's bytes.  Returns their number; 0: no more now, or the answer has ended. */
extern Size atp_sparse_request_read(AtpSparseRequest *r);

/* Is the answer a whole and right CAR file?  Called at its end; false: see wrong, or the HTTP answer. */
extern bool atp_sparse_request_is_good(AtpSparseRequest *r);

/* Free the answer and its memory; the root and the blocks that are missing stay. */
extern void atp_sparse_request_finish(AtpSparseRequest *r);

/* End the request, if it runs, and forget it. */
extern void atp_sparse_request_clear(AtpSparseRequest *r);

#endif							/* ATP_SPARSE_REQUEST_H */
