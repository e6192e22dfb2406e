/*
 * skips.h
 *		Counts of what was passed over, committed with a stream's cursor.
 *
 * Shared memory has the same counts, but forgets them when the server restarts.
 */
#ifndef ATP_SKIPS_H
#define ATP_SKIPS_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"
#include "tables/base/statements.h"

/* How much of a batch's counts its transactions have written. */
typedef struct AtpSkipsWritten
{
	int64	   *uncounted;		/* counts of the process that no transaction has written yet; NULL: none */
	int64		before[ATP_SKIP_COUNT]; /* the batch's counts when the transaction before this one ended */
	int64		now[ATP_SKIP_COUNT];	/* the batch's counts, with those of this transaction */
} AtpSkipsWritten;

/*
 * What this transaction has to write, into more: false when that is nothing.  The batch's own counts
 * are those of its decoding and of the transactions before this one.
 */
extern bool atp_skips_due(AtpSkipsWritten *w, const int64 *of_batch, const int64 *of_transaction, int64 *more);

/* The transaction was committed, and has written them; or could not, and the next one does. */
extern void atp_skips_written(AtpSkipsWritten *w, bool written);

/* The counts that are not zero, by name: an argument for a statement that adds them. */
extern Datum atp_skips_arg(const int64 *skips);

/*
 * The SQL expression for the sum of the jsonb objects was and more.  numeric takes every
 * number of jsonb, also one that somebody has written by hand.
 */
#define ATP_SKIPS_SUM(was, more) \
	"(SELECT COALESCE(jsonb_object_agg(key, n), jsonb_build_object()) FROM (SELECT key, sum(value::numeric) AS n" \
	" FROM (SELECT * FROM jsonb_each_text(" was ") UNION ALL SELECT * FROM jsonb_each_text(" more ")) e GROUP BY key) s)"

/*
 * Add to the row of this shard, in the transaction that is open.  False, and nothing is
 * added: another session has locked the row, or there is none.
 */
extern bool atp_skips_add(AtpStatements *set, const AtpSubscription *sub, int shard, const int64 *skips);

/* The same in a transaction of its own; the counts that were added become zero. */
extern void atp_skips_flush(AtpStatements *set, const AtpSubscription *sub, int shard, int64 *skips);

#endif							/* ATP_SKIPS_H */
