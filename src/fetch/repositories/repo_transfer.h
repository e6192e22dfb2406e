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
#include "lib/ilist.h"

typedef enum AtpTransferPhase
{
	ATP_TRANSFER_READING,
	ATP_TRANSFER_CHECKING,
	ATP_TRANSFER_MERGING
} AtpTransferPhase;

typedef struct AtpTransfer
{
	dlist_node	node;
	MemoryContext cxt;
	AtpRepoJob	job;
	AtpSubscription *sub;
	AtpStatements *statements;
	bool		spoilt;			/* an ERROR occurred, maybe because of these statements */
	AtpHttp    *http;
	bool		ended;			/* the HTTP request has ended */
	int64		bytes;			/* bytes of the export received so far */
	AtpExport  *export;
	AtpMerge   *merge;			/* NULL: not begun */
	bool		touched;		/* some rows of the export may be in the tables */
	int			tries;			/* failed tries of the current chunk */
	int			rows;			/* rows of a chunk */
	AtpTime		backoff_until;
	bool		began;			/* the repository's events are held */
	bool		waited_for;		/* transfers wait for the memory of this transfer's index, since
								 * waited_since, when waited_bytes had come */
	AtpTime		waited_since;
	int64		waited_bytes;
	AtpTransferPhase phase;
} AtpTransfer;

/*
 * Do a short step.  An error (an ERROR, too) is written into the job, and ends the transfer.  True:
 * call again at once.
 */
extern bool atp_transfer_move_on(AtpTransfer *t);

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
