/*
 * repo_transfer.h
 *		A transfer: fetches the export of a repository and writes the export's records into the
 *		tables.
 */
#ifndef ATP_REPO_TRANSFER_H
#define ATP_REPO_TRANSFER_H

#include "fetch/engine/run_as_owner.h"
#include "fetch/engine/fetch.h"
#include "fetch/repositories/repo_rows.h"
#include "fetch/repositories/repo_signer.h"
#include "fetch/repositories/sparse_fetch.h"
#include "lib/ilist.h"
#include "tables/export/merge_compare.h"

typedef enum AtpTransferPhase
{
	ATP_TRANSFER_READING,		/* of the export; or of parts, with their records (repo_parts.h) */
	ATP_TRANSFER_CHECKING,
	ATP_TRANSFER_MERGING
} AtpTransferPhase;

typedef struct AtpTransfer
{
	dlist_node	node;
	MemoryContext cxt;
	const void *owner;			/* of the requests: fetch.h */
	AtpRepoJob	job;
	AtpSubscription *sub;
	AtpStatements *statements;
	bool		spoilt;			/* an ERROR occurred, maybe because of these statements */
	AtpHttp    *http;			/* getRepo; NULL: not started, or parts are fetched */
	bool		ended;			/* the HTTP request has ended */
	int64		bytes;			/* bytes of the export received so far */
	AtpExport  *export;			/* belongs to parts, if there are any */
	AtpSparseFetch *parts;		/* NULL: the whole repository is fetched */
	AtpMergeCompare *naming;	/* P-22: which records of the parts are needed; NULL: not begun */
	MemoryContext naming_cxt;
	bool		named;			/* all of them are named */
	long		wait_ms;		/* until a request for parts may start; -1: unknown */
	char	   *parts_failed;	/* why parts were given up; NULL: they were not */
	bool		host_failed;	/* P-61: ... by the host: if the whole is good, the host is remembered */
	AtpTime		whole_since;	/* since when the request for the whole is to start */
	AtpMerge   *merge;			/* NULL: not begun */
	bool		touched;		/* some rows of the export may be in the tables */
	int			tries;			/* failed tries of the current chunk */
	int			rows;			/* rows of a chunk */
	AtpTime		backoff_until;
	bool		began;			/* the repository's events are held */
	AtpRepoSigner signer;
	bool		waited_for;		/* transfers wait for the memory of this transfer's index, since
								 * waited_since, when waited_bytes had come */
	AtpTime		waited_since;
	int64		waited_bytes;
	AtpTime		slow_since;		/* fewer bytes than are enough have come since; 0: not looked at yet */
	int64		slow_bytes;		/* bytes that had come then */
	AtpTransferPhase phase;
} AtpTransfer;

/*
 * Do a short step.  An error (an ERROR, too) is written into the job, and ends the transfer.  True:
 * call again at once.
 */
extern bool atp_transfer_move_on(AtpTransfer *t);

/* End a transfer that has failed; as the answer of the server says that is no export. */
extern void atp_transfer_fail(AtpTransfer *t, const char *why, AtpRepoFault fault);
extern void atp_transfer_fail_answer(AtpTransfer *t, const AtpHttpAnswer *answer, const char *why);

/* At level full: is the export's commit signed by the account?  False: the transfer has ended. */
extern bool atp_transfer_is_signed(AtpTransfer *t);

/*
 * May the export still be written: is the fetch still ours, and the export new enough?  Called as the owner; *why: the
 * reason against it, in this context, or unchanged.
 */
extern AtpRefusal atp_transfer_look(AtpTransfer *t, MemoryContext cxt, char **why);

/*
 * How the job goes on whose export was refused, before the first row or (before: false) with the
 * last rows.
 */
extern AtpRepoFault atp_transfer_fault_of(const AtpTransfer *t, AtpRefusal refusal, bool before);

/* End a transfer whose job was suspended or removed. */
extern void atp_transfer_cancel(AtpTransfer *t);

/* End a transfer; its job is tried again later. */
extern void atp_transfer_give_up(AtpTransfer *t, const char *why);

/*
 * Run work in the owner's tables (run_as_owner.h), for at most some seconds.  If the time limit
 * passes, the owner gets a backoff (owner_backoff.h).
 */
extern AtpRunResult atp_transfer_act(AtpTransfer *t, const char *activity, void (*work) (void *), void *arg, char **why);

/* Milliseconds until the transfer can go on; 0: now. */
extern long atp_transfer_backoff_ms(const AtpTransfer *t, AtpTime now);

/* Remove the transfer from its list, and free its memory, temporary file and request. */
extern void atp_transfer_free(AtpTransfer *t);

/* Number of transfers. */
extern int	atp_transfers;


#endif							/* ATP_REPO_TRANSFER_H */
