/*
 * identity_queue.h
 *		Wishes as the fetcher sees them: which are due, what becomes of them.  Each
 *		function is called in a transaction.
 */
#ifndef ATP_IDENTITY_QUEUE_H
#define ATP_IDENTITY_QUEUE_H

#include "postgres.h"

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

/* By so much the time of day is set back, not only looked at by one process sooner than by another. */
#define ATP_CLOCK_BACK_US	(5 * USECS_PER_SEC)

/* What is looked for. */
typedef struct AtpIdentityWork
{
	bool		web;			/* which kind of DIDs */
	int			limit;			/* how many at most */
	int			retried;		/* ... of them such as have failed */
	bool		(*is_taken) (struct varlena *did);	/* being asked, or about to be */
} AtpIdentityWork;

/* Is anything wished for? */
extern bool atp_identity_is_wanted(void);

/*
 * The DIDs that are to be asked now, palloc'd, most urgent first.  What needs no look-up any
 * more is removed, what may not be asked yet is put off.  *more is set when there may be others.
 */
extern List *atp_identity_look(const AtpIdentityWork *work, TimestampTz now, bool *more);

/* When the next one of those that are put off is due; DT_NOEND: there is none. */
extern TimestampTz atp_identity_next(TimestampTz now);

/* n DIDs in their order: no look-up before a time each. */
extern void atp_identity_put_off(struct varlena *const *dids, int n, TimestampTz *until, bool failed);

/* n DIDs in their order: their wishes are granted, unless something new was heard of them. */
extern void atp_identity_granted(struct varlena *const *dids, int n);

/* The clock was set back: what was put off is looked at again. */
extern void atp_identity_wake_all(TimestampTz now);

/* Rows and wishes that nobody has needed for long go, some at each call; after this DID. */
extern struct varlena *atp_identity_clean(struct varlena *after, TimestampTz now);

#endif							/* ATP_IDENTITY_QUEUE_H */
