/*
 * held.h
 *		Held events: rows of atproto.held_event, for events that cannot be judged yet.
 *
 * The transaction that moves the cursor past an event either applies the event or writes the event to
 * atproto.held_event.  The transaction that applies a held event deletes its row.  A repository with held
 * events has a reason in the column hold of its row (hold.h): a consumer adds or removes held events of the
 * repository only in a transaction that has locked or written this row (held_leave.c is the exception).
 *
 * All statements run with the rights of the table's owner.  The caller has SPI connected, in a transaction
 * with a snapshot.
 */
#ifndef ATP_HELD_H
#define ATP_HELD_H

#include "common/clock.h"
#include "tables/base/sink.h"

/*
 * The value of the column kind for events of this sink.  Held labels share the table with held events of
 * repositories: did is then the labeler, and rev holds the sequence number.
 */
extern const char *atp_held_kind(const AtpSink *sink);

/* Run a statement (atp_execute()) with the rights of the table's owner. */
extern uint64 atp_held_execute(AtpStatements *set, const AtpStatement *statement, Datum *args, const char *nulls);

/* Setting atproto.label_wait: how long a stream pauses for the key of a labeler whose labels are held, if no second labeler has held labels. */
extern int	atp_label_wait_ms;

/* From _PG_init(): the setting. */
extern void atp_held_init(void);

/*
 * is the stream of this process paused, because there is no room for more labels of a labeler whose key is
 * unknown?  True for atproto.label_wait at most; the caller goes on calling atp_release() meanwhile.
 */
extern bool atp_held_stalls(AtpTime now);

/* End the pause if there is room for held labels again; a later pause gets the full time again. */
extern void atp_held_look_for_room(AtpApply *a);

/* End the pause, since no label is held; a later pause gets the full time again. */
extern void atp_held_end_stall(void);

/*
 * SQL, an aggregate over held events of a repository: does the first of them wait for a missing commit?  An event behind
 * the first may still have a reason from before, for example from a fetch that has ended.  If each event waits behind an
 * earlier one, or for a missing commit, the event in front has gone; the first event is taken to wait for a commit.
 */
#define ATP_HELD_WAITS_FOR_COMMIT(rev, why, filter) \
	"(array_agg(" why " ORDER BY " rev ", " why ")" filter ")[1] = 'gap' OR bool_and(" why " IN ('gap', 'order'))" filter

/* The held events of a repository. */
typedef struct AtpHeldCount
{
	int64		n;				/* held events that this subscription may take, and behind which its own events wait (held_by.h) */
	uint64		first_rev;		/* the lowest revision among the n events; 0 if n is 0 */
	bool		awaits_commit;	/* the first of the n waits for a missing commit (ATP_HELD_WAITS_FOR_COMMIT) */
	int64		own;			/* held events received by this subscription itself */
	int64		all;			/* held events of all subscriptions of the target */
	bool		any_gap;		/* at least one event waits for a missing commit */
} AtpHeldCount;

/* The order of an account's events in a release: the held events first, by their revisions. */
typedef struct AtpHeldOrder
{
	bool		follows;		/* the release batch has held events of the account ... */
	bool		stays;			/* ... but from here on the batch's events and the stream's events wait on */
} AtpHeldOrder;

/*
 * The next event of the release batch is this held event of the account.  nheld and first_rev: the held events of the
 * account as counted after the batch was read.  If an earlier event was held meanwhile, the batch's events wait on.
 */
extern void atp_held_order_follow(AtpHeldOrder *order, const AtpHeldRow *row, int64 nheld, uint64 first_rev);

/* Count the held events of n repositories of the target.  The DIDs are sorted, without duplicates. */
extern void atp_held_count(AtpApply *a, struct varlena *const *dids, int n, AtpHeldCount *counts);

/*
 * write events of the batch that were received from the stream to atproto.held_event, in the transaction that
 * moves the cursor past them; release_progress.c removes a row in the transaction that applies its event.  If a limit is exceeded, the
 * events are dropped together with all events that the subscription holds of the same repository.
 */
extern void atp_held_add(AtpApply *a, AtpEvent *const *events, int n);

/*
 * Let this held event, and all held events of its repository and subscription that were judged before, wait for a look-up
 * of the identity newer than the look-up of asked_at.
 */
extern void atp_held_wait_again(AtpApply *a, const AtpEvent *event, TimestampTz asked_at);

/* Update the column why of a held event to event->verdict.why_held. */
extern void atp_held_set_why(AtpApply *a, const AtpEvent *event);

/*
 * F-15: event index of the batch deletes the account.  Remove the held events of the account's repository that this
 * subscription may take, and ignore the batch's earlier events of the repository that were about to be held; both
 * are counted as inactive.  All of these events precede the deletion.  Kept, they would add old records to the
 * repository of an account that begins again under this DID.  If no server has confirmed the deletion (drops_held), rows
 * of atproto.gap count the events.  The caller has written the repository's row.
 */
extern void atp_held_erase(AtpApply *a, int index);

/*
 * F-15: the event deletes the account, but another stream has told a later status (drops_older).  Remove the held events of
 * the repository that this stream sent before the event.  The caller has written the batch's held events and the
 * repository's row.
 */
extern void atp_held_erase_older(AtpApply *a, const AtpEvent *event);

/* Remove the held events of the account's repository for all subscriptions of the target: the account's server has confirmed the deletion. */
extern void atp_held_erase_all(const char *target, struct varlena *did);

/*
 * Queue the held events of these accounts, of every target, for release (atproto.held_release).  The caller calls
 * this in the transaction that makes a new verdict possible: a crash between two transactions would leave the
 * events waiting.
 */
extern void atp_held_release(struct varlena *const *dids, int n);

/* Call in the transaction in which the cursor of the subscription jumps over events: ends its refills that have written records. */
extern void atp_refills_jump(const AtpSubscription *sub);

/* The reason with this name in the column why. */
extern AtpWhyHeld atp_held_why(const char *name);

#endif							/* ATP_HELD_H */
