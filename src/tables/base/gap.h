/*
 * gap.h
 *		Gaps of a stream (atproto.gap) whose events are read again.
 *
 * A cursor moves over one event after the other, but where somebody sets it and where
 * a gap is noted; its row says from where on it has done so, with the same settings (read_from).  So a gap is closed
 * when the cursor was set before its begin, and has come to its end since, one after the other.  Of repositories, events are passed over that are older than the
 * newest that was processed: there, all of them have to be refilled, too (refill.c).
 */
#ifndef ATP_GAP_H
#define ATP_GAP_H

#include "postgres.h"

#include "tables/base/sink.h"

/* With SPI, as whoever may write the table; the cursors' rows are locked.  Its cursor is about to be set: to seq, -1: to NULL. */
extern void atp_gap_cursor_set(const char *name, int64 seq);

/* Its cursor was set to seq, in this transaction, and no event that comes after it is passed over as an old one. */
extern void atp_gap_read_again(const char *name, int64 seq);

/* The following as the table's owner, in a transaction. */

/* It refills repositories: what it has not come to yet is passed over by others that fill its tables. */
extern void atp_gap_read_by_another(const char *name);

typedef struct AtpGapWatch
{
	bool		open;			/* there are gaps of this stream */
	int64		next;			/* where the first that is read again will end; -1: none */
} AtpGapWatch;

/* What a consumer whose cursor is here has to look for. */
extern AtpGapWatch atp_gap_watch(const char *name, const char *endpoint, int64 cursor);

/* From the oldest event that the server has: it was this one. */
extern void atp_gap_begins(const char *name, const char *endpoint, int64 first);

/* Held events that were dropped, and of which no mark on a repository tells. */
typedef struct AtpLost
{
	int64		events;
	int64		first;			/* their numbers in the stream: the lowest ... */
	int64		last;			/* ... and the highest */
} AtpLost;

/*
 * A row says so, of this labeler (NULL: of repositories), one row as long as it is open: what was
 * lost before is counted there, too.  In the transaction that drops the events.
 */
extern void atp_gap_lost(AtpApply *a, struct varlena *did, const AtpLost *lost);

/* Close those that have been read again. */
extern void atp_gap_close(const char *name);

#endif							/* ATP_GAP_H */
