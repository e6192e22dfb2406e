/*
 * held.h
 *		Events that wait until they can be judged: atproto.held_event.
 *
 * An event that cannot be judged is written there in the transaction that moves the
 * cursor past it, in place of its effects; and taken from there in the transaction
 * that brings these.  A repository of which events are held says so in its row
 * (repo.hold): who has that row may add to them or take them, nobody else.
 *
 * All of it is done with the rights of the table's owner.  SPI is connected, in a
 * transaction with a snapshot.
 */
#ifndef ATP_HELD_H
#define ATP_HELD_H

#include "common/clock.h"
#include "tables/base/sink.h"

/*
 * The column kind: what events of this sink are.  Those of labels are held as those of a repository are,
 * beside them: did is the labeler, and seq stands for the revision.
 */
extern const char *atp_held_kind(const AtpSink *sink);

/* So long a stream stands still for the key of its only labeler whose labels wait; a setting, milliseconds. */
extern int	atp_label_wait_ms;

/* From _PG_init(). */
extern void atp_held_init(void);

/*
 * must this process read nothing from its stream, because there is no room for more labels of a labeler whose
 * key is unknown?  True for atproto.label_wait at most.
 */
extern bool atp_held_stalls(AtpTime now);

/* If there is room for held labels again, the stream goes on, and may stand still again. */
extern void atp_held_look_for_room(AtpApply *a);

/* No label is held: the stream goes on, and may stand still again. */
extern void atp_held_end_stall(void);

/* What is held of a repository. */
typedef struct AtpHeldCount
{
	int64		n;				/* which this subscription takes, and behind which its own wait (held_by.h) */
	uint64		first_rev;		/* n > 0: of the first of them */
	bool		only_gap;		/* each of them waits for a missing commit, or behind another one */
	int64		own;			/* of these, events that this subscription received */
	int64		all;			/* events that any subscription of the target received */
	bool		any_gap;		/* one of these waits for a commit before it */
} AtpHeldCount;

/* Of n repositories of the target, whose DIDs are given in their order, each once. */
extern void atp_held_count(AtpApply *a, struct varlena *const *dids, int n, AtpHeldCount *counts);

/*
 * Keep these events of the batch, which come from the stream.  What has no room is dropped,
 * with all that the subscription holds of its repository.
 */
extern void atp_held_add(AtpApply *a, AtpEvent *const *events, int n);

/* All that this event's subscription holds of its repository waits for another look-up than the one of this time. */
extern void atp_held_wait_again(AtpApply *a, const AtpEvent *event, TimestampTz asked_at);

/* One that is held goes on waiting for something else than its row says. */
extern void atp_held_set_why(AtpApply *a, const AtpEvent *event);

/*
 * F-15: the account was deleted, as event index of the batch says.  Held events of its repository that the subscription
 * takes came before the deletion, as do those of this batch that were about to be held: they are counted as inactive, and
 * do not come into the tables of the account that may begin in its place.  The repository's row has been written.
 */
extern void atp_held_erase(AtpApply *a, int index);

/* The same, when the account's server has confirmed the deletion: of all subscriptions of the target. */
extern void atp_held_erase_all(const char *target, struct varlena *did);

/*
 * The events of these repositories that are held, wherever they are to go, are to be
 * judged again: in the transaction that makes that possible.
 */
extern void atp_held_release(struct varlena *const *dids, int n);

/* By its name in the table. */
extern AtpWhyHeld atp_held_why(const char *name);

#endif							/* ATP_HELD_H */
