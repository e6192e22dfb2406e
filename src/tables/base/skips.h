/*
 * skips.h
 *		Counts of events and rows that were passed over, committed with a stream's cursor.
 *
 * Shared memory has the same counts, but forgets them when the server restarts.
 */
#ifndef ATP_SKIPS_H
#define ATP_SKIPS_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"
#include "tables/base/statements.h"

/* The part of a batch's counts that the batch's transactions have written. */
typedef struct AtpSkipsWritten
{
	int64	   *uncounted;		/* the process's counts not yet written by any transaction, or NULL */
	int64		before[ATP_SKIP_COUNT]; /* the batch's counts at the end of the previous transaction */
	int64		now[ATP_SKIP_COUNT];	/* the batch's counts including this transaction */
} AtpSkipsWritten;

/*
 * Puts into more the counts that this transaction has to write; false: nothing to write.  of_batch counts the
 * decoding and the previous transactions of the batch.
 */
extern bool atp_skips_due(AtpSkipsWritten *w, const int64 *of_batch, const int64 *of_transaction, int64 *more);

/*
 * Call after the commit.  written: the transaction has written the counts; false: the next transaction writes them.
 */
extern void atp_skips_written(AtpSkipsWritten *w, bool written);

/* The nonzero counts by name: an argument for a statement that adds counts. */
extern Datum atp_skips_arg(const int64 *skips);

/*
 * SQL expression: the sum of two jsonb objects of counts.  numeric takes every number of jsonb, also a huge number
 * that a user has written by hand; bigint would raise an error.
 */
#define ATP_SKIPS_SUM(was, more) \
	"(SELECT COALESCE(jsonb_object_agg(key, n), jsonb_build_object()) FROM (SELECT key, sum(value::numeric) AS n" \
	" FROM (SELECT * FROM jsonb_each_text(" was ") UNION ALL SELECT * FROM jsonb_each_text(" more ")) e GROUP BY key) s)"

/*
 * Add the counts to the cursor's row of this shard, in the transaction that is open.  False: nothing was added,
 * because another session has locked the row, or the row does not exist.
 */
extern bool atp_skips_add(AtpStatements *set, const AtpSubscription *sub, int shard, const int64 *skips);

/* Add the counts in a separate transaction; added counts become zero. */
extern void atp_skips_flush(AtpStatements *set, const AtpSubscription *sub, int shard, int64 *skips);

#endif							/* ATP_SKIPS_H */
