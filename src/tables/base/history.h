/*
 * history.h
 *		Rows of atproto.history: how far the reading of an archive is.
 *
 * The position is in atproto.cursor, and moves in the transaction of the rows.  All that a process needs to go on with is in
 * the two rows (H-03).  All functions need a transaction with SPI, and act as the table's owner.
 */
#ifndef ATP_HISTORY_H
#define ATP_HISTORY_H

#include "postgres.h"

#include "config/spi.h"
#include "datatype/timestamp.h"

typedef enum AtpHistoryPhase
{
	ATP_HISTORY_PLAN,			/* the tip of the archive is to be asked for */
	ATP_HISTORY_ROWS,			/* rows up to the tip are read */
	ATP_HISTORY_MARKERS,		/* changes of accounts are read, if they are read apart */
	ATP_HISTORY_SEAM,			/* the stream has begun; its beginning is to be compared with the archive */
	ATP_HISTORY_LIVE			/* all is done */
} AtpHistoryPhase;

typedef struct AtpHistory
{
	AtpHistoryPhase phase;
	int64		tip;			/* 0: not known yet */
	int			passes;			/* 2: commits first, and then all rows of the accounts that have records; 0: not decided yet; in phase plan 2: changes of accounts are still to be read */
	int64		began_after;	/* the position at which the cycle began */
	int64		settled;		/* up to this number, the rows were read from the archive, or compared with the archive */
	int64		seam_from;		/* the first seam: rows from here on ... */
	int64		seam_to;		/* ... to this number, exclusive; 0: no seam */
	int64		again_until;	/* events up to here are read again */
	int64		anchor;			/* the archive must have this row, which is never compacted; 0: no row is known ... */
	int64		anchor_row;		/* ... and its digest */
} AtpHistory;

/* SQL: the running subscriptions s that read an archive into the target $1 at this moment. */
#define ATP_SQL_READS_ARCHIVE \
	"FROM atproto.subscription s JOIN atproto.history h ON h.subscription = s.name WHERE s.target = $1::name AND s.history = 'archive'" \
	" AND s.enabled AND s.stopped IS NULL AND h.phase NOT IN ('seam', 'live')"

/* Counts since the last note. */
typedef struct AtpHistoryCounts
{
	int64		planned_blocks;
	int64		blocks;
	int64		bytes;
	int64		rows;
} AtpHistoryCounts;

/*
 * If the archive of this subscription's server is to be read, and no row says how far the reading is, begin a row.  A row
 * of another stream begins anew.
 */
extern void atp_history_begin(const char *name);

/*
 * For a process that writes to the row: lock the subscription's name until the end of the transaction.  False: the name is of another
 * subscription now (races.md 46), whose row must stay as it is.
 */
extern bool atp_history_lock(const char *name, const char *id);

/* Read the row; false: the subscription has no row. */
extern bool atp_history_get(const char *name, AtpHistory *history);

/* The tip of the cycle is known, and the rows up to it are read next. */
extern void atp_history_planned(const char *name, int64 tip, int passes, int64 began_after);

/* H-27: filters that the server is not asked to apply, separated by commas; "": none. */
extern void atp_history_filtered(const char *name, const char *filters);

/*
 * H-26, H-27: begin the pass of the accounts after this DID (stored form; NULL: from the first one on), in phase markers or in phase
 * rows.  The cursors are set back from the tip to the begin of the cycle.  False: a session has set the cursor meanwhile, and
 * nothing was changed.
 */
extern bool atp_history_next_pass(const char *name, const char *endpoint, int64 tip, AtpHistoryPhase phase, const struct varlena *did);

/* The DID up to which the accounts were read, in the current memory context; NULL: none was. */
extern struct varlena *atp_history_read_up_to(const char *name);

/*
 * At most max DIDs of the target's repositories, in their order, after this one (NULL: from the first one on); returns their
 * number.  Runs as the current user.
 */
extern int	atp_history_accounts(const char *target, const struct varlena *after, struct varlena **dids, int max);

/* Add to the counts; error NULL: nothing hinders the reading. */
extern void atp_history_note(const char *name, const AtpHistoryCounts *counts, const char *error, TimestampTz next_try);

/*
 * The rows up to the tip, at this position, were read, and the stream begins.  anchor: a row of the archive that is never compacted, and
 * its digest; 0: the cycle has seen none.
 */
extern void atp_history_end_cycle(const char *name, int64 position, int64 anchor, int64 anchor_row);

/* H-53: the stream has brought no row from "from" on to "to", exclusive; the archive is to be asked.  audited: it was asked. */
extern void atp_history_seam(const char *name, int64 from, int64 to, bool audited);

/* The archive has the same row at this number. */
extern void atp_history_settle(const char *name, int64 seq);

/* H-51: begin a cycle at the position. */
extern void atp_history_replan(const char *name);

/* No seam waits: all is done. */
extern void atp_history_live(const char *name);

/*
 * Read the rows after seq again, because rows are missing or have changed.  The cursors are set back, and the consumer has to
 * restart.  missing: number of missing rows.
 */
extern void atp_history_again(const char *name, const char *endpoint, int64 seq, int64 missing);

/*
 * A session sets the cursor to seq, or to NULL.  Call before the cursor changes.  Between two passes, the changes of accounts after the
 * begin of the cycle are still to be read; in the second pass a later position goes on in the pass.
 */
extern void atp_history_cursor_set(const char *name, AtpArg seq);

#endif							/* ATP_HISTORY_H */
