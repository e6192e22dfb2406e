/*
 * release_batch.h
 *		A batch of held events.  Private to the files release*.c.
 *
 * release_find.c reads the events that are due into the batch, release.c applies the batch, and release_progress.c
 * removes the rows of the events that were applied or dropped.
 */
#ifndef ATP_RELEASE_BATCH_H
#define ATP_RELEASE_BATCH_H

#include "tables/apply/release.h"
#include "tables/base/progress.h"
#include "tables/repos/held.h"
#include "tables/repos/held_by.h"

/* The batch, and its progress (progress.h). */
typedef struct AtpHeldBatch
{
	AtpProgress base;
	AtpHeldBy	by;
	AtpBatch   *batch;
	AtpHeldRow *rows;			/* rows of atproto.held_event, in the order of the batch's events */
	struct varlena **dids;		/* the accounts to release, sorted, without duplicates */
	int			ndids;
	Datum	   *named;			/* ids of the rows of atproto.held_release; 0: found by repo.hold or by a time limit */
	struct varlena **named_dids;
	int			nnamed;
	bool		all;			/* the batch has all held events of all these accounts */
	int			shard;			/* the shard whose cursor counts the skips ... */
	int			layout;			/* ... and has this layout, unless the target or its name has changed */
	AtpSkipsWritten skips;
	bool		written;		/* skips of the present transaction are written */
} AtpHeldBatch;

/* The order of the events in a batch.  Rows are locked in this order, too, so that two processes do not wait for each other. */
#define ATP_ORDER_OF_HELD	" ORDER BY h.did, h.rev, h.subscription, h.seq, h.endpoint"

/* The progress of a batch of held events: lock its rows, and remove the rows of events that do not wait on. */
extern const AtpProgress atp_release_progress;

/*
 * Does the batch finish this repository?  A batch that is not complete ends within a repository, which may have more
 * held events.  If the batch's last event waits on, the repository's later events must wait as well, so the repository
 * is finished.
 */
extern bool atp_release_finishes(const AtpHeldBatch *held, struct varlena *did);

/* Delete the rows of atproto.held_release of the repositories that the batch finishes. */
extern void atp_release_forget_named(const AtpHeldBatch *held, AtpStatements *set);

/*
 * Queue all held events of this shard for release; stuck: only accounts of which each held event that this subscription
 * may take waits behind an earlier event, so the first waits behind an event that this subscription does not have.  With
 * repositories, this is an event of a taker (held_by.h), which may have been paused.  With labels, it is an event that no
 * longer exists: a labeler has no row to lock, so this subscription may hold a label behind held labels which a second
 * subscription is just applying.  Returns whether the queue has rows.
 */
extern bool atp_release_queue_all(const AtpReleaser *r, AtpApply *a, bool stuck);

/* Find the accounts whose held events are due, and read these events into the batch until it is full. */
extern void atp_release_find(const AtpReleaser *r, AtpApply *a, AtpHeldBatch *held);

/*
 * Clear hold in the rows of repositories without held events: of the batch that is a's progress; without progress, of
 * all repositories.
 */
extern void atp_release_unhold(AtpApply *a);

#endif							/* ATP_RELEASE_BATCH_H */
