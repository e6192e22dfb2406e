/*
 * apply.h
 *		Apply a batch to the tables, and move its progress in the same transaction.
 *
 * What an event does to the tables is the sink's task (sink.h).  Invariant: rows and progress are committed
 * together, so each event counts exactly once.
 */
#ifndef ATP_APPLY_H
#define ATP_APPLY_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"
#include "tables/base/progress.h"

typedef enum AtpApplied
{
	ATP_APPLIED,
	ATP_APPLY_GONE,				/* the extension was dropped, or has a different version */
	ATP_APPLY_CURSOR_MOVED,		/* the cursor was changed elsewhere: the last transaction was rolled back */
	ATP_APPLY_STOP				/* nothing can be applied until an operator removes the cause */
} AtpApplied;

/*
 * Apply the batch: rows, repository states, dead letters, and the progress.  If the database refuses a row, the batch
 * may take several transactions; each moves the progress as far as its events reach.
 *
 * error_class.c decides what an error means.  An error with its cause in a row (a trigger's exception, say) becomes a
 * dead letter, and the rest is committed.  An error with its cause in the schema or in privileges, or that meets every
 * row, or a lack of room for dead letters returns ATP_APPLY_STOP, with the reason in the batch's memory.  Any other
 * error is raised: the process ends, and is started again.
 */
extern AtpApplied atp_apply(const AtpSubscription *sub, const AtpSink *sink, AtpStatements *statements,
							AtpBatch *batch, AtpProgress *progress, const char **reason);

/* Log the error, after which nothing can be applied: ATP_APPLY_STOP, with the reason in cxt. */
extern AtpApplied atp_apply_stop(const AtpSubscription *sub, MemoryContext cxt, const ErrorData *error, const char **reason);

/* From _PG_init(): a setting for tests. */
#ifdef ATP_INJECTION_POINTS
extern void atp_apply_init(void);
#else
#define atp_apply_init()	((void) 0)
#endif

/* Delete a limited number of records of deleted accounts, which events have left to be purged; false: no more records are left. */
extern bool atp_purge(const AtpSubscription *sub, const AtpSink *sink, AtpStatements *statements, MemoryContext cxt);

#endif							/* ATP_APPLY_H */
