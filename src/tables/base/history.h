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
	int			cycles;
} AtpHistory;

/* What was read since the last note. */
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

/* False: there is no row. */
extern bool atp_history_get(const char *name, AtpHistory *history);

/* The tip of the cycle is known, and the rows up to it are read next. */
extern void atp_history_planned(const char *name, int64 tip);

/* Add to the counts; error NULL: nothing hinders the reading. */
extern void atp_history_note(const char *name, const AtpHistoryCounts *counts, const char *error, TimestampTz next_try);

/* The rows up to the tip were read, and the stream begins. */
extern void atp_history_end_cycle(const char *name);

#endif							/* ATP_HISTORY_H */
