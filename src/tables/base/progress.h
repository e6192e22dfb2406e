/*
 * progress.h
 *		What a transaction moves besides rows.
 *
 * Rows and progress are committed together: that is what makes each event count
 * exactly once.  apply.c knows when what is called, and nothing of what it is.
 */
#ifndef ATP_PROGRESS_H
#define ATP_PROGRESS_H

#include "postgres.h"

#include "tables/base/sink.h"
#include "tables/base/skips.h"

typedef enum AtpLocked
{
	ATP_LOCKED,
	ATP_LOCKED_BY_OTHERS,		/* nothing may be committed; done again after await() */
	ATP_LOCKED_NOTHING			/* it is not there any more */
} AtpLocked;

typedef struct AtpProgress
{
	/*
	 * How far the transaction comes, which ends before event a->hi: the sequence
	 * number up to which letters belong to it.
	 */
	int64		(*reach) (struct AtpProgress *progress, const AtpApply *a);

	/*
	 * Lock what comes after the rows, without waiting: who has it may want the
	 * tables next that this transaction has written to (BEGIN; unsubscribe();
	 * DROP SCHEMA), and would be the one whom the deadlock ends.  With letters,
	 * what they refer to, too.
	 */
	AtpLocked	(*lock) (struct AtpProgress *progress, const AtpApply *a, bool letters);

	/* Wait, in a transaction of its own that has no other lock, for who has it.  False: it is gone. */
	bool		(*await) (struct AtpProgress *progress, const AtpApply *a);

	/* As far as reach() said.  False: it is not where it was left. */
	bool		(*move) (struct AtpProgress *progress, const AtpApply *a);

	/* That was committed. */
	void		(*moved) (struct AtpProgress *progress);
} AtpProgress;

/* A stream's cursor, of one shard. */
typedef struct AtpStreamProgress
{
	AtpProgress base;
	const AtpSubscription *sub;
	int			shard;
	int			layout;			/* of the cursor: see AtpCursor */
	int64		position;		/* committed; -1: none */
	int64		last;			/* the position after the batch */
	int64		next;			/* after this transaction */
	AtpSkipsWritten skips;
} AtpStreamProgress;

extern AtpStreamProgress atp_stream_progress(const AtpSubscription *sub, int shard, int layout,
											 int64 position, int64 last);

#endif							/* ATP_PROGRESS_H */
