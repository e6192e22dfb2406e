/*
 * repo_transfer.h
 *		A repository on its way from its server into the tables.
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
	bool		spoilt;			/* ... which an ERROR may be due to */
	AtpHttp    *http;
	bool		ended;			/* the request has */
	int64		bytes;			/* of the export, so far */
	AtpExport  *export;
	AtpMerge   *merge;			/* NULL: not begun */
	bool		touched;		/* some of it may be in the tables */
	int			tries;			/* of a chunk, that have failed */
	int			rows;			/* of a chunk that is written at once */
	AtpTime		rests_until;
	bool		began;			/* the repository's events are kept back */
	bool		waited_for;		/* others wait for the memory of its index: since then, at so many bytes */
	AtpTime		waited_since;
	int64		waited_bytes;
	AtpTransferPhase phase;
} AtpTransfer;

/*
 * One short step of it; what goes wrong, an ERROR too, is written down and is its end.
 * True: there is more to do at once.
 */
extern bool atp_transfer_move_on(AtpTransfer *t);

/* Its job is not ours any more. */
extern void atp_transfer_cancel(AtpTransfer *t);

/* It is to be tried again another time. */
extern void atp_transfer_give_up(AtpTransfer *t, const char *why);

/*
 * Work in the owner's tables (bounded.h), where it may take seconds; for what comes to
 * nothing for that, he rests (patience.h).
 */
extern AtpBounded atp_transfer_act(AtpTransfer *t, const char *activity, void (*work) (void *), void *arg, char **why);

/* In ms: until it can go on; 0: now. */
extern long atp_transfer_rests(const AtpTransfer *t, AtpTime now);

/* It leaves its list, and its memory, temporary file and request go. */
extern void atp_transfer_free(AtpTransfer *t);

/* How many there are. */
extern int	atp_transfers;

#endif							/* ATP_REPO_TRANSFER_H */
