/*
 * sparse_fetch.h
 *		Fetches some collections of an account's repository with proof: the commit, the tree nodes of the
 *		collections' ranges, and the records that the caller names (P-02 to P-05, P-10 to P-16).
 *
 * The blocks go into an AtpExport with ranges (export.h).  When the nodes are complete, the caller reads the
 * records of the ranges from this export, as from an export of the whole repository.  A sparse fetch touches
 * no table, and opens no transaction: the caller is a transfer that writes the records, or an audit that
 * compares them.
 *
 *	fetch = atp_sparse_fetch_create(cxt, &ask);
 *	call atp_sparse_fetch_step(fetch) until NODES or FAILED;
 *	atp_export_is_signed(export, key), if the caller wants the signature;
 *	atp_export_rewind(export), then atp_export_fetch(export, &record) until DONE: path and CID of each record;
 *	atp_sparse_fetch_want(fetch, cid) for records whose values are needed, and atp_sparse_fetch_step() until RECORDS;
 *	atp_sparse_fetch_free(fetch).
 */
#ifndef ATP_SPARSE_FETCH_H
#define ATP_SPARSE_FETCH_H

#include "postgres.h"

#include "common/clock.h"
#include "fetch/repositories/sparse_fault.h"
#include "net/http.h"
#include "tables/export/export.h"

typedef struct AtpSparseFetch AtpSparseFetch;

typedef struct AtpSparseAsk
{
	const void *owner;			/* owner of the requests: see fetch.h */
	const char *server;			/* scheme and host of the account's server */
	const char *did;
	int			ncollections;	/* filter, of valid patterns (I-06); at least 1 */
	char	  **collections;
	bool		expects_none;	/* P-02: the ranges are probably empty: begin with one proof instead of two */
	bool		judges;			/* P-30: end with ATP_SPARSE_CHEAPER_WHOLE where the whole repository is cheaper */
} AtpSparseAsk;

typedef enum AtpSparseState
{
	ATP_SPARSE_WAITS,			/* for an answer, or for the limits of the host: *wait_ms of step() */
	ATP_SPARSE_MORE,			/* call again at once */
	ATP_SPARSE_NODES,			/* all nodes of the ranges are there, and the tree is right (P-12, P-15) */
	ATP_SPARSE_RECORDS,			/* ... and all records that were named */
	ATP_SPARSE_FAILED			/* see atp_sparse_fetch_fault() */
} AtpSparseState;

/* Nothing is sent before the first step.  The memory is a child of parent. */
extern AtpSparseFetch *atp_sparse_fetch_create(MemoryContext parent, const AtpSparseAsk *ask);

/* Ends running requests, too; frees the export. */
extern void atp_sparse_fetch_free(AtpSparseFetch *fetch);

/* A request of the owner has ended: atp_fetch_next().  False: the request is not of this fetch. */
extern bool atp_sparse_fetch_ended(AtpSparseFetch *fetch, const AtpHttp *http);

/*
 * Does a short step: sends requests as far as the host's limits allow, and takes answers.  May raise an ERROR:
 * memory, temporary files.
 */
extern AtpSparseState atp_sparse_fetch_step(AtpSparseFetch *fetch, long *wait_ms);

/*
 * After NODES: the value of this record is needed (P-22); false: no more now, step until RECORDS first.  NODES instead of
 * RECORDS: the repository has moved on (P-04), and the caller begins again with the records of the new commit.
 */
extern bool atp_sparse_fetch_want(AtpSparseFetch *fetch, AtpBytes cid);

extern const AtpSparseFault *atp_sparse_fetch_fault(const AtpSparseFetch *fetch);

/* The commit (atp_export_head()), the records and the blocks. */
extern AtpExport *atp_sparse_fetch_export(const AtpSparseFetch *fetch);

/* Is a commit known?  Before, the fetch has learned nothing. */
extern bool atp_sparse_fetch_has_head(const AtpSparseFetch *fetch);

/* Bytes received, and number of requests. */
extern int64 atp_sparse_fetch_bytes(const AtpSparseFetch *fetch);
extern int	atp_sparse_fetch_requests(const AtpSparseFetch *fetch);

/* Number of requests that run now: a fetch without one waits for the limits of the host. */
extern int	atp_sparse_fetch_running(const AtpSparseFetch *fetch);

#endif							/* ATP_SPARSE_FETCH_H */
