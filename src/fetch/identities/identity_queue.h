/*
 * identity_queue.h
 *		The queue of look-ups, atproto.identity_request, as the fetcher sees the queue: which rows are
 *		due, and what became of them.  Each function is called in a transaction.
 */
#ifndef ATP_IDENTITY_QUEUE_H
#define ATP_IDENTITY_QUEUE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

/*
 * If a time lies this far in the future, the clock was set back; smaller differences come from
 * processes that read the clock at slightly different moments.
 */
#define ATP_CLOCK_BACK_US	(5 * USECS_PER_SEC)

/* Which rows atp_identity_look() reads. */
typedef struct AtpIdentityWork
{
	bool		web;			/* did:web or did:plc */
	int			limit;			/* rows of each class at most */
	int			retried;		/* rows of each class at most, among rows whose look-up failed
								 * before */
	bool		(*is_taken) (struct varlena *did);	/* does the process already have a look-up of
													 * this DID? */
} AtpIdentityWork;

/* Is any look-up queued? */
extern bool atp_identity_is_wanted(void);

/*
 * Returns the DIDs to look up now, palloc'd, most urgent first.  Deletes rows that need no look-up
 * any more, and sets next_try of rows that must wait.  Sets *more if the queue may have more rows
 * that are due.
 */
extern List *atp_identity_look(const AtpIdentityWork *work, TimestampTz now, bool *more);

/* The earliest next_try after "now"; DT_NOEND: no row has a later time. */
extern TimestampTz atp_identity_next(TimestampTz now);

/* The rows of n DIDs (sorted) are not due before until[i]. */
extern void atp_identity_put_off(struct varlena *const *dids, int n, TimestampTz *until, bool failed);

/* Delete the rows of n DIDs (sorted), unless an event has made the identity stale again. */
extern void atp_identity_granted(struct varlena *const *dids, int n);

/* The clock was set back: rows with a time in the future are due now. */
extern void atp_identity_wake_all(TimestampTz now);

/*
 * Delete some old identities and queue rows, of DIDs after this DID; returns the DID to continue
 * after, or NULL at the end.
 */
extern struct varlena *atp_identity_clean(struct varlena *after, TimestampTz now);

#endif							/* ATP_IDENTITY_QUEUE_H */
