/*
 * apply.h
 *		A batch into the tables, with its progress, in one transaction.
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
	ATP_APPLY_GONE,				/* the extension was dropped, or is another version */
	ATP_APPLY_CURSOR_MOVED,		/* somebody set the cursor: nothing more was applied */
	ATP_APPLY_STOP				/* nothing more can be applied until an operator mends it */
} AtpApplied;

/*
 * Apply the batch: rows, repository states, dead letters, and the progress.  When
 * something is refused it may take several transactions; the progress is always
 * what is committed.
 *
 * What the database refuses for a reason that lies in a row (a trigger's
 * exception, say) becomes a dead letter and the rest is committed.  What lies in
 * the schema, in privileges, in every row, or no room for a letter is
 * ATP_APPLY_STOP, with its reason in the batch's memory.  Any other error is
 * raised: the process ends, to be started again.  See fault.c.
 */
extern AtpApplied atp_apply(const AtpSubscription *sub, const AtpSink *sink, AtpStatements *statements,
							AtpBatch *batch, AtpProgress *progress, const char **reason);

/* More of what events left to be removed (records of deleted accounts) away; false when none are left. */
extern bool atp_purge(const AtpSubscription *sub, const AtpSink *sink, AtpStatements *statements, MemoryContext cxt);

#endif							/* ATP_APPLY_H */
