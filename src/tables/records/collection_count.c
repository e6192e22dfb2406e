/*
 * collection_count.c
 *		The table collection_count: what events did to the records of each collection, hour by hour.
 *
 * Each process has rows of its own, so that no process waits for another: two subscriptions may
 * fill the same tables, and each may have several workers.  The view collection_stat adds the rows
 * up.
 *
 * Strangers choose the names of collections.  So each process counts a bounded number of
 * collections in an hour, and all further ones under one name that no domain can have.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "tables/base/derived.h"
#include "tables/base/rows.h"
#include "tables/records/collection_count.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* Collections that a process counts in an hour. */
#define COLLECTIONS_MAX	1000

/* The hour in which the transaction began, as received_at of record_event has it. */
#define HOUR	"date_trunc('hour', now(), 'UTC')"

static const AtpColumn columns[] = {
	{"hour", ATP_TYPE_TIMESTAMP, ATP_COMMON, "NOT NULL", "hour in which this database received the events"},
	{"subscription", ATP_TYPE_TEXT, ATP_COMMON, "NOT NULL", "subscription that received the events"},
	{"worker", ATP_TYPE_INT4, ATP_COMMON, "NOT NULL", "number of the worker that counted; -1: a process that is no worker, for example a session in retry()"},
	{"collection", ATP_TYPE_NSID, ATP_VALUE, "NOT NULL",
	ATP_OTHER_COLLECTIONS ": all collections beyond the " CppAsString2(COLLECTIONS_MAX) " that each process counts in an hour"},
	{"creates", ATP_TYPE_INT8, ATP_VALUE, "NOT NULL", "number of records that were new"},
	{"updates", ATP_TYPE_INT8, ATP_VALUE, "NOT NULL", "number of records that got another value"},
	{"deletes", ATP_TYPE_INT8, ATP_VALUE, "NOT NULL", "number of records removed, including records removed with their account"},
	{"erased", ATP_TYPE_INT8, ATP_APART, "NOT NULL DEFAULT 0",
	"number of kept events of this hour and subscription, of any collection, that erase() has removed; the counts stay"},
};

enum
{
	ADD_COUNTS,
	NEW_COLLECTIONS,
	COUNT_COLLECTIONS
};

static const AtpStatement statements[] = {
	[ADD_COUNTS] = {
		"INSERT INTO #.collection_count AS c (hour, subscription, worker, {columns})"
		" SELECT " HOUR ", $1, $2, * FROM unnest({arrays})"
		" ON CONFLICT (hour, subscription, worker, collection) DO UPDATE SET creates = c.creates + excluded.creates,"
		" updates = c.updates + excluded.updates, deletes = c.deletes + excluded.deletes",
		SPI_OK_INSERT, {ATP_TYPE_TEXT, ATP_TYPE_INT4}, {0}, &atp_collection_count_table, ATP_ROWS_IN
	},
	/* subscription, worker, collection[] -> the n (from 1 on) of collections without a row */
	[NEW_COLLECTIONS] = {
		"SELECT u.n FROM unnest($3) WITH ORDINALITY u (collection, n)"
		/*
		 * a scalar subquery means one look into the index for each collection: EXISTS could be planned as a join with
		 * all rows
		 */
		" WHERE (SELECT true FROM #.collection_count c WHERE c.hour = " HOUR " AND c.subscription = $1 AND c.worker = $2"
		"  AND c.collection OPERATOR(@.=) u.collection) IS NULL",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_TYPE_INT4, ATP_ARRAY(ATP_TYPE_NSID)}, {ATP_TYPE_INT8},
		&atp_collection_count_table, ATP_BY_INDEX
	},
	[COUNT_COLLECTIONS] = {
		"SELECT count(*) FROM #.collection_count WHERE hour = " HOUR " AND subscription = $1 AND worker = $2"
		" AND collection OPERATOR(@.<>) '" ATP_OTHER_COLLECTIONS "'",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_TYPE_INT4}, {ATP_TYPE_INT8}, &atp_collection_count_table, ATP_BY_INDEX
	},
};

const AtpTable atp_collection_count_table = {
	.name = "collection_count",
	.use = ATP_USE_COUNTS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.key = "PRIMARY KEY (hour, subscription, worker, collection)",
	/* room for HOT updates: each transaction updates the rows of the present hour */
	.options = " WITH (fillfactor = 50)",
	.comment = "number of operations on records by hour and collection, one row for each process that counts",
	.view = "collection_stat",
	.view_query = "SELECT hour, collection, sum(creates)::bigint AS creates, sum(updates)::bigint AS updates,"
	" sum(deletes)::bigint AS deletes FROM #.collection_count GROUP BY hour, collection"
	/* a row that only has "erased" is no collection's */
	" HAVING sum(creates + updates + deletes) > 0",
	.view_comment = "number of operations on records by hour and collection, over all subscriptions with count_collections",
	.statements = statements,
	.nstatements = lengthof(statements),
};

typedef struct Count
{
	struct varlena *collection;
	int64		of[3];			/* indexed by AtpAction */
} Count;

static int
compare_changes(const void *a, const void *b)
{
	return atp_compare_nsids((*(const AtpChange *const *) a)->row->collection,
							 (*(const AtpChange *const *) b)->row->collection);
}

/*
 * Count the changes by collection, in the order of the collections.  A collection that an account has named like
 * ATP_OTHER_COLLECTIONS is counted there.
 */
static int
count_changes(const AtpChange *changes, int n, Count *counts, Count *others)
{
	const AtpChange **sorted = palloc(sizeof(AtpChange *) * n);
	int			nsorted = 0;
	int			ncounts = 0;

	for (int i = 0; i < n; i++)
		if (changes[i].seq != ATP_SEQ_NONE)
			sorted[nsorted++] = &changes[i];
	qsort(sorted, nsorted, sizeof(AtpChange *), compare_changes);
	for (int i = 0; i < nsorted; i++)
	{
		struct varlena *collection = sorted[i]->row->collection;
		Count	   *count = others;

		if (atp_compare_nsids(collection, others->collection) != 0)
		{
			if (ncounts == 0 || atp_compare_nsids(collection, counts[ncounts - 1].collection) != 0)
				counts[ncounts++] = (Count) {collection};
			count = &counts[ncounts - 1];
		}
		count->of[sorted[i]->row->action]++;
	}
	return ncounts;
}

/* How many more collections this process may count in this hour. */
static int64
find_room(AtpStatements *set, Datum *args)
{
	bool		isnull;
	int64		n;

	(void) atp_execute(set, &statements[COUNT_COLLECTIONS], args, NULL);
	n = DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	SPI_freetuptable(SPI_tuptable);
	return COLLECTIONS_MAX - n;
}

/* Add the counts of new collections beyond the limit to ATP_OTHER_COLLECTIONS, and set their collection to NULL. */
static void
limit_collections(AtpStatements *set, Count *counts, int n, Count *others, Datum *args)
{
	Datum	   *collections = palloc(sizeof(Datum) * Max(n, 1));
	SPITupleTable *new_ones;
	uint64		nnew;
	int64		room = 0;

	for (int i = 0; i < n; i++)
		collections[i] = PointerGetDatum(counts[i].collection);
	args[2] = atp_array(set, ATP_TYPE_NSID, collections, NULL, n);
	nnew = atp_execute(set, &statements[NEW_COLLECTIONS], args, NULL);
	new_ones = SPI_tuptable;
	if (nnew > 0)
		room = find_room(set, args);
	for (uint64 i = Max(room, 0); i < nnew; i++)
	{
		bool		isnull;
		Count	   *count = &counts[DatumGetInt64(SPI_getbinval(new_ones->vals[i], new_ones->tupdesc, 1, &isnull)) - 1];

		for (int a = 0; a < lengthof(others->of); a++)
			others->of[a] += count->of[a];
		count->collection = NULL;
	}
	SPI_freetuptable(new_ones);
}

static void
put_count(AtpRows *rows, const Count *count)
{
	atp_put_ref(rows, count->collection);
	for (int a = 0; a < lengthof(count->of); a++)
		atp_put(rows, Int64GetDatum(count->of[a]), false);
}

static void
add_counts(AtpApply *a, const AtpChange *changes, int n)
{
	AtpStatements *set = a->statements;
	Count	   *counts = palloc(sizeof(Count) * n);
	Count		others = {(struct varlena *) cstring_to_text(ATP_OTHER_COLLECTIONS)};
	int			ncounts = count_changes(changes, n, counts, &others);
	AtpRows    *rows = atp_rows_of(set, &atp_collection_count_table, ncounts + 1);
	Datum		args[ATP_STATEMENT_ARGS] = {CStringGetTextDatum(a->sub->name), Int32GetDatum(atp_writer(set))};

	limit_collections(set, counts, ncounts, &others, args);
	for (int i = 0; i < ncounts; i++)
		if (counts[i].collection != NULL)
			put_count(rows, &counts[i]);
	if (others.of[ATP_CREATE] + others.of[ATP_UPDATE] + others.of[ATP_DELETE] > 0)
		put_count(rows, &others);
	if (rows->n == 0)
		return;
	atp_rows_bind(rows, args + 2);
	(void) atp_execute(set, &statements[ADD_COUNTS], args, NULL);
}

static bool
wants_counts(const AtpSubscription *sub)
{
	return sub->settings.count_collections;
}

static void
flush_counts(AtpApply *a, const AtpChange *changes, int n)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto counts", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	add_counts(a, changes, n);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

const AtpDerived atp_collection_count_derived = {
	.use = ATP_USE_COUNTS, .forgets = true, .wanted = wants_counts, .flush = flush_counts
};
