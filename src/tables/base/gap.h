/*
 * gap.h
 *		Gaps of a stream (rows of atproto.gap) whose events are read again.
 *
 * A cursor moves over one event after the other, except where a user sets the cursor and where a
 * gap is noted.  cursor.read_from says from which event on the cursor has moved without such a
 * jump, with the same settings.  A gap is closed when a cursor that was set before the gap's begin
 * has come to the gap's end without a jump.
 *
 * For a stream of repositories that is not enough: events older than the newest processed one of a
 * repository are passed over, so all repositories have to be refilled, too (refill.c).
 */
#ifndef ATP_GAP_H
#define ATP_GAP_H

#include "postgres.h"

#include "tables/base/sink.h"

/*
 * Call before the subscription's cursor is set to seq; -1: to NULL.  This function and the next one run with SPI
 * connected, as a role that may write the table, with the cursor's rows locked.
 */
extern void atp_gap_cursor_set(const char *name, int64 seq);

/*
 * Call after the cursor was set to seq in this transaction, if from seq on no event is passed over as an old one:
 * marks the gaps that begin at seq or later as being read again.  With seq 0 (the server's oldest event), all open
 * gaps wait for this event: again_since is infinity.
 */
extern void atp_gap_read_again(const char *name, int64 seq);

/* The following functions switch to the table's owner by themselves, in a transaction. */

/*
 * Call when the subscription refills repositories.  Until the refill has come to an event, the other subscriptions of
 * the target pass the event over; so the gaps of these subscriptions are no longer being read again.
 */
extern void atp_gap_read_by_another(const char *name);

typedef struct AtpGapWatch
{
	bool		open;			/* the stream has open gaps */
	int64		next;			/* end of the first gap being read again ahead of the cursor, or -1 */
	int64		left;			/* the position before the cursor was set to the oldest event, which has not come yet; or -1 */
} AtpGapWatch;

/* State that a consumer with its cursor at this position has to watch. */
extern AtpGapWatch atp_gap_watch(const char *name, const char *endpoint, int64 cursor);

/*
 * Call at the first event after the cursor was set to the server's oldest event: first is the event's number, which
 * decides what gaps begin to be read again.
 */
extern void atp_gap_begins(const char *name, const char *endpoint, int64 first);

/*
 * If the subscription has very many open gaps of this stream, the newest gap grows by the events between these two.  False: the caller
 * adds a row.
 */
extern bool atp_gap_grow(const char *name, const char *endpoint, int64 after, int64 before);

/*
 * The server no longer has the events between these two: a gap, unless it is noted and open already.
 */
extern void atp_gap_missed(const char *name, const char *endpoint, int64 after, int64 before);

/* Held events that were dropped without a mark on a repository's row. */
typedef struct AtpLost
{
	int64		events;
	int64		first;			/* lowest sequence number of the dropped events */
	int64		last;			/* highest sequence number of the dropped events */
} AtpLost;

/*
 * Record dropped events of a labeler (did), or of repositories (did NULL), as a gap.  While the gap is open, later
 * losses of the same kind are added to the same row.  Runs in the transaction that drops the events.
 */
extern void atp_gap_lost(AtpApply *a, struct varlena *did, const AtpLost *lost);

/*
 * Record the held events of an account, of the subscriptions in takes (an array of names), as gaps of these subscriptions,
 * in the same rows as atp_gap_lost().  Runs in the transaction that drops the events.
 */
extern void atp_gap_erased(const AtpApply *a, struct varlena *did, Datum takes);

/*
 * Record all events that the subscription holds, and that are about to be dropped, as gaps: a row for each stream, and for
 * labels for each labeler.  removed: the subscription is being deleted, so no row may refer to its name.
 */
extern void atp_gap_left(const AtpSubscription *sub, bool removed);

/* Record the dead letters of the subscription as a gap: marking their repositories failed. */
extern void atp_gap_letters(const AtpSubscription *sub, bool removed);

/*
 * the subscription is being deleted.  Rows about events that a limit has dropped stay, because the tables go on
 * lacking these events.
 */
extern void atp_gap_keep(const AtpSubscription *sub);

/* Close the subscription's gaps whose events have been read again. */
extern void atp_gap_close(const char *name);

#endif							/* ATP_GAP_H */
