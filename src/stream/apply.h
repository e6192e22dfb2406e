/*
 * apply.h
 *		A batch into the tables, with its cursor, in one transaction.
 */
#ifndef ATP_APPLY_H
#define ATP_APPLY_H

#include "postgres.h"

#include "stream/batch.h"
#include "stream/subscription.h"

typedef enum AtpApplied
{
	ATP_APPLIED,
	ATP_APPLY_GONE,				/* the extension was dropped, or is another version */
	ATP_APPLY_CURSOR_MOVED		/* somebody set the cursor: nothing was applied */
} AtpApplied;

/*
 * Apply the batch: rows, repository states, dead letters, gaps, and the cursor
 * from *cursor to seq (-1: no position), which becomes the new *cursor.
 *
 * What the database refuses for a reason that lies in the data (a trigger's
 * exception, say) becomes a dead letter and the rest is committed.  Any other
 * error is raised: nothing is committed and the process ends, to be started
 * again.
 */
extern AtpApplied atp_apply(const AtpSubscription *sub, AtpBatch *batch,
							int64 *cursor, int64 seq);

/* More records of deleted accounts away; false when none are left. */
extern bool atp_purge(const AtpSubscription *sub, MemoryContext cxt);

/*
 * A dead letter once more: batch holds its one decoded message; path as in the
 * letter.  Inside the caller's transaction, SPI open.  NULL: applied;
 * otherwise why not, in one word or sentence ("obsolete": what is in the tables
 * is newer, or the filters do not want it).
 */
extern const char *atp_apply_again(const AtpSubscription *sub, AtpBatch *batch, AtpSpan path);

#endif							/* ATP_APPLY_H */
