/*
 * progress.h
 *		What a transaction moves besides rows, for example a stream's cursor.
 *
 * Rows and progress are committed together; this makes each event count exactly once.  apply.c
 * decides when each function is called, and does not know what the progress is.
 */
#ifndef ATP_PROGRESS_H
#define ATP_PROGRESS_H

#include "postgres.h"

#include "tables/base/sink.h"
#include "tables/base/skips.h"

typedef enum AtpLocked
{
	ATP_LOCKED,
	ATP_LOCKED_BY_OTHERS,		/* roll back, call await(), and apply the batch again */
	ATP_LOCKED_NOTHING			/* the row of the progress no longer exists */
} AtpLocked;

typedef struct AtpProgress
{
	/*
	 * The sequence number up to which dead letters belong to this transaction, which applies the events before a->hi.
	 */
	int64		(*reach) (struct AtpProgress *progress, const AtpApply *a);

	/*
	 * Lock the rows of the progress without waiting, after the rows of the tables.  Their holder may go on to lock
	 * tables that this transaction has written to (BEGIN; unsubscribe(); DROP SCHEMA): waiting would be a deadlock,
	 * with the user's session as victim.  With letters, the subscription's row, which dead letters refer to, is
	 * locked, too.
	 */
	AtpLocked	(*lock) (struct AtpProgress *progress, const AtpApply *a, bool letters);

	/* Wait for the holder of the lock, in a separate transaction without any other lock.  False: the row is gone. */
	bool		(*await) (struct AtpProgress *progress, const AtpApply *a);

	/* Move the progress to where reach() said.  False: another session has moved the progress meanwhile. */
	bool		(*move) (struct AtpProgress *progress, const AtpApply *a);

	/* Called after the commit of a transaction with a successful move(). */
	void		(*moved) (struct AtpProgress *progress);
} AtpProgress;

/* A stream's cursor, for one shard. */
typedef struct AtpStreamProgress
{
	AtpProgress base;
	const AtpSubscription *sub;
	int			shard;
	int			layout;			/* number of the cursor's division into shards: see AtpCursor */
	int64		position;		/* committed position, or -1 */
	int64		last;			/* position after the whole batch */
	int64		next;			/* position after this transaction */
	bool		noted;			/* the batch's gaps were noted before */
	struct AtpDecoder *decoder; /* of a stream whose server has an archive: makes digests of rows (history.h); NULL: no such stream */
	int64		last_row;		/* digest of the row at last; 0: not known */
	AtpSkipsWritten skips;
} AtpStreamProgress;

extern AtpStreamProgress atp_stream_progress(const AtpSubscription *sub, int shard, int layout,
											 int64 position, int64 last);

#endif							/* ATP_PROGRESS_H */
