/*
 * sparse_private.h
 *		A sparse fetch (sparse_fetch.h), for the files that move it on: sparse_fetch.c (its phases), sparse_send.c (requests and
 *		answers), sparse_head.c (which commit), sparse_levels.c (which nodes).
 */
#ifndef ATP_SPARSE_PRIVATE_H
#define ATP_SPARSE_PRIVATE_H

#include "postgres.h"

#include "core/repo/sparse_walk.h"
#include "fetch/repositories/sparse_request.h"

#define ATP_SPARSE_REQUESTS	4	/* P-03: requests at a time */

typedef enum AtpSparsePhase
{
	ATP_SPARSE_PROOFS,				/* getRecord of both ends */
	ATP_SPARSE_LATEST,				/* a server without proofs: getLatestCommit ... */
	ATP_SPARSE_COMMIT,				/* ... and the commit's block */
	ATP_SPARSE_LEVELS,
	ATP_SPARSE_CHECK,				/* the records' nodes are walked once more (P-15) */
	ATP_SPARSE_COMPLETE				/* the nodes are there; the caller names records */
} AtpSparsePhase;

struct AtpSparseFetch
{
	MemoryContext cxt;
	AtpSparseAsk ask;
	size_t		nranges;
	AtpKeyRange *ranges;
	size_t		url_len;		/* of a request for blocks, without their CIDs */
	AtpExport  *export;
	AtpSparsePhase phase;
	AtpSparseRequest requests[ATP_SPARSE_REQUESTS];
	AtpSparseRequest *reading;	/* the request whose answer is read: one at a time, because each needs a buffer */
	AtpHttp    *latest;			/* getLatestCommit */
	bool		latest_ended;
	bool		without_proofs; /* the server has answered RecordNotFound */
	bool		has_head;
	uint8_t		head[ATP_CID_BLESSED_LEN];
	AtpSparseWalk walk;
	bool		in_round;
	bool		walking;		/* the round has not named all absent nodes */
	bool		named;			/* the round has named at least one absent node */
	bool		judged;
	bool		left;			/* a node that was named, and no request had room for */
	uint8_t		left_cid[ATP_CID_BLESSED_LEN];
	bool		told;			/* the caller knows that the nodes are complete */
	AtpSparseRequest *paused;	/* half filled with absent nodes, in the middle of a walk; NULL: none */
	AtpSparseRequest *filling;	/* half filled with records that the caller names; NULL: none */
	unsigned	window;			/* P-04: blocks of a request: halved while the server refuses */
	int			moves;
	AtpTime		until;
	int64		bytes;
	int			count;			/* requests */
	bool		failed;
	AtpSparseFault fault;
};

/* End the fetch with this fault, unless it has a fault already; of the export; of an answer. */
extern void atp_sparse_fail(AtpSparseFetch *f, AtpSparseFaultKind kind, const char *text, const AtpHttpAnswer *answer);
extern void atp_sparse_fail_export(AtpSparseFetch *f);
extern void atp_sparse_fail_answer(AtpSparseFetch *f, const AtpHttpAnswer *answer);

/* Requests: an idle one, or NULL; how many are in this state; whether all are idle; make one a request for blocks. */
extern AtpSparseRequest *atp_sparse_find_idle(AtpSparseFetch *f);
extern int	atp_sparse_count(const AtpSparseFetch *f, AtpSparseRequestState state);
extern bool atp_sparse_is_idle(const AtpSparseFetch *f);
extern void atp_sparse_begin_blocks(AtpSparseFetch *f, AtpSparseRequest *r, size_t block_max);

/* The beginning of a request's URL: com.atproto.sync.WHAT of the account. */
extern StringInfoData atp_sparse_url(const AtpSparseFetch *f, const char *what);

/* Send requests as far as the limits of the host allow; read some bytes of the answers: true: there are more. */
extern void atp_sparse_send(AtpSparseFetch *f, long *wait_ms);
extern bool atp_sparse_take(AtpSparseFetch *f);

/* Begin anew, with proofs of either end; choose the commit that they show, or ask for it; the answer of getLatestCommit has come. */
extern void atp_sparse_begin_proofs(AtpSparseFetch *f);
extern void atp_sparse_choose_head(AtpSparseFetch *f);
extern void atp_sparse_set_head(AtpSparseFetch *f, const uint8_t *cid);
extern void atp_sparse_take_latest(AtpSparseFetch *f);

/* Ask for the next nodes; when they are there, walk over the records once more. */
extern void atp_sparse_move_levels(AtpSparseFetch *f);
extern void atp_sparse_check_nodes(AtpSparseFetch *f);

#endif							/* ATP_SPARSE_PRIVATE_H */
