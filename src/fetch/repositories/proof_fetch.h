/*
 * proof_fetch.h
 *		Fetches what a proof compares with the rows: the tree of some collections (sparse_fetch.h), or the whole repository,
 *		where the account's host does not give the tree alone, or not of this account (P-50, P-61).
 *
 * Touches no table, and opens no transaction.  A whole repository takes more memory and time than the tree, so only a few
 * are fetched at a time, and only one large index of blocks is in memory.
 */
#ifndef ATP_PROOF_FETCH_H
#define ATP_PROOF_FETCH_H

#include "fetch/repositories/sparse_fetch.h"

typedef struct AtpProofFetch AtpProofFetch;

/* ask: of the collections' parts.  only_parts: P-32: the subscription forbids the whole.  The memory is a child of parent. */
extern AtpProofFetch *atp_proof_fetch_create(MemoryContext parent, const AtpSparseAsk *ask, bool only_parts);

/* Ends running requests, too; frees the export. */
extern void atp_proof_fetch_free(AtpProofFetch *fetch);

/* A request of the owner has ended: atp_fetch_next().  False: the request is not of this fetch. */
extern bool atp_proof_fetch_ended(AtpProofFetch *fetch, const AtpHttp *http);

/* As atp_sparse_fetch_step(); NODES: the export has been checked, and is complete. */
extern AtpSparseState atp_proof_fetch_step(AtpProofFetch *fetch, long *wait_ms);

extern const AtpSparseFault *atp_proof_fetch_fault(const AtpProofFetch *fetch);
extern AtpExport *atp_proof_fetch_export(const AtpProofFetch *fetch);

/* End a fetch whose host may not be asked for longer.  FAILED: the fault is that of the parts, if they have failed before. */
extern AtpSparseState atp_proof_fetch_give_up(AtpProofFetch *fetch);

/* P-52: atp_sparse_fault_reason() of the fault. */
extern const char *atp_proof_fetch_reason(const AtpProofFetch *fetch);

/* False: the whole repository is fetched. */
extern bool atp_proof_fetch_is_of_parts(const AtpProofFetch *fetch);

/* Does a request run now? */
extern bool atp_proof_fetch_is_running(const AtpProofFetch *fetch);

/* Bytes received. */
extern int64 atp_proof_fetch_bytes(const AtpProofFetch *fetch);

/* Does the fetch, or any fetch, wait until the whole repository of another account has come? */
extern bool atp_proof_fetch_waits(const AtpProofFetch *fetch);
extern bool atp_proof_fetch_any_waits(void);

#endif							/* ATP_PROOF_FETCH_H */
