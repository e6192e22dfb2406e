/*
 * link_count.c
 *		The table link_count: how many links there are to a target, from each counted source.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/extension.h"
#include "config/spi.h"
#include "core/syntax/uri.h"
#include "executor/spi.h"
#include "tables/base/distributed.h"
#include "tables/base/rows.h"
#include "tables/direct/direct.h"
#include "tables/records/link_count.h"
#include "tables/records/table_link.h"
#include "types/types.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/*
 * A transaction that has noted so many differences writes the differences after the present step of link_rows.c, and
 * keeps the order of the key only within each part: only the removal of a very large repository does this.
 */
#define DIFFERENCES_MAX	(1024 * 1024)

#ifdef ATP_INJECTION_POINTS

/* Tests set a small number. */
static int	differences_max = DIFFERENCES_MAX;

void
atp_link_count_init(void)
{
	DefineCustomIntVariable("atproto.test_link_counts",
							"For tests: number of differences of counts that are written before the transaction's end.",
							NULL, &differences_max, DIFFERENCES_MAX, 1, DIFFERENCES_MAX,
							PGC_SUSET, 0, NULL, NULL, NULL);
}

#else

#define differences_max		DIFFERENCES_MAX

#endif

static const AtpColumn columns[] = {
	{"target", ATP_TYPE_ATURI, ATP_KEY, "NOT NULL", "what the records link to, as in link"},
	{"source", ATP_TYPE_INT4, ATP_KEY, "NOT NULL", "link_source.id, of a source that is counted"},
	{"n", ATP_TYPE_INT8, ATP_VALUE, "NOT NULL", "number of rows of link with this target and source; a target without links has no row"},
};

enum
{
	ADD_COUNTS,
	REMOVE_ZEROS
};

static const AtpStatement statements[] = {
	/* the rows are locked in the order of the arguments */
	[ADD_COUNTS] = {
		"INSERT INTO #.link_count AS c ({columns}) SELECT * FROM unnest({arrays})"
		" ON CONFLICT (target, source) DO UPDATE SET n = c.n + excluded.n",
		SPI_OK_INSERT, {0}, {0}, &atp_link_count_table, ATP_ROWS_IN | ATP_DIRECT
	},
	[REMOVE_ZEROS] = {
		"DELETE FROM #.link_count c USING unnest({arrays}) u ({columns})"
		" WHERE c.target OPERATOR(@.=) u.target AND c.source = u.source AND c.n = 0",
		SPI_OK_DELETE, {0}, {0}, &atp_link_count_table, ATP_ROWS_IN | ATP_BY_KEY | ATP_DIRECT
	},
};

const AtpTable atp_link_count_table = {
	.name = "link_count",
	.use = ATP_USE_LINKS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	.key = "PRIMARY KEY (target, source)",
	/* room for HOT updates of popular targets */
	.options = " WITH (fillfactor = 80)",
	.comment = "number of links to each target, from the sources that count_links() has named. Experimental.",
	.statements = statements,
	.nstatements = lengthof(statements),
};

/* ------------------------------------------------------------------------
 * Differences
 * ------------------------------------------------------------------------
 */
typedef struct Difference
{
	struct varlena *target;
	int32		source;
	int64		n;
} Difference;

/*
 * In memory of its own, which lives as long as the transaction.  AtpApply has the number of valid differences: so a step that is
 * rolled back (atp_attempt()) takes its differences back.
 */
struct AtpLinkCounts
{
	MemoryContext cxt;
	Difference *differences;
	int			max;
};

void
atp_link_count_note(AtpApply *a, const struct varlena *target, int32 source, int64 n)
{
	struct AtpLinkCounts *counts = a->counts;
	MemoryContext old;

	if (counts == NULL)
	{
		MemoryContext cxt = AllocSetContextCreate(TopTransactionContext, "atproto differences of counts", ALLOCSET_DEFAULT_SIZES);

		counts = a->counts = MemoryContextAlloc(cxt, sizeof(struct AtpLinkCounts));
		counts->cxt = cxt;
		counts->max = 1024;
		counts->differences = MemoryContextAlloc(cxt, sizeof(Difference) * counts->max);
	}
	old = MemoryContextSwitchTo(counts->cxt);
	if (a->ncounts == counts->max)
		counts->differences = repalloc_huge(counts->differences, sizeof(Difference) * (counts->max *= 2));
	counts->differences[a->ncounts++] = (Difference) {
		atp_varlena(VARDATA_ANY(target), VARSIZE_ANY_EXHDR(target)), source, n
	};
	MemoryContextSwitchTo(old);
}

/* The order of the primary key. */
static int
compare_differences(const void *a, const void *b)
{
	const Difference *x = a;
	const Difference *y = b;
	int			cmp = atp_uri_cmp((const uint8_t *) VARDATA_ANY(x->target), VARSIZE_ANY_EXHDR(x->target),
								  (const uint8_t *) VARDATA_ANY(y->target), VARSIZE_ANY_EXHDR(y->target));

	return cmp != 0 ? cmp : (x->source > y->source) - (x->source < y->source);
}

/* Sort, and leave one difference for each target and source with another count than before; returns how many. */
static int
sum_up(Difference *differences, int n)
{
	int			kept = 0;

	qsort(differences, n, sizeof(Difference), compare_differences);
	for (int i = 0, end; i < n; i = end)
	{
		Difference	sum = differences[i];

		for (end = i + 1; end < n && compare_differences(&sum, &differences[end]) == 0; end++)
			sum.n += differences[end].n;
		if (sum.n != 0)
			differences[kept++] = sum;
	}
	return kept;
}

static void
put_count(AtpRows *rows, const Difference *difference, int64 n)
{
	atp_put_ref(rows, difference->target);
	atp_put(rows, Int32GetDatum(difference->source), false);
	atp_put(rows, Int64GetDatum(n), false);
}

/* Run a statement with the differences; with only_negative, only the negative ones. */
static void
execute_with(AtpStatements *set, int statement, const Difference *differences, int n, bool only_negative)
{
	AtpRows    *rows = atp_rows_of(set, &atp_link_count_table, n);
	Datum		args[ATP_STATEMENT_ARGS];

	for (int i = 0; i < n; i++)
		if (!only_negative || differences[i].n < 0)
			put_count(rows, &differences[i], differences[i].n);
	if (rows->n == 0)
		return;
	atp_rows_bind(rows, args);
	(void) atp_execute(set, &statements[statement], args, NULL);
}

/*
 * Write the differences without statements.  If another transaction has changed a row since the snapshot, the ERROR
 * ATP_ERRCODE_CONFLICT ends the transaction, and the batch is applied again with statements.  Rows are awaited in the
 * order of the key.
 */
static void
write_to(AtpDirect *direct, AtpStatements *set, const Difference *differences, int n)
{
	AtpRows    *added = atp_rows_of(set, &atp_link_count_table, n);
	AtpRows    *changed = atp_rows_of(set, &atp_link_count_table, n);

	for (int i = 0; i < n; i++)
	{
		const Difference *difference = &differences[i];
		Datum		key[] = {PointerGetDatum(difference->target), Int32GetDatum(difference->source)};
		Datum		values[lengthof(columns)];
		bool		nulls[lengthof(columns)];
		ItemPointerData place;
		int64		count;

		if (!atp_direct_find(direct, key, &place, values, nulls))
		{
			put_count(added, difference, difference->n);
			continue;
		}
		count = (nulls[2] ? 0 : DatumGetInt64(values[2])) + difference->n;
		if (count == 0)
			atp_direct_delete(direct, &place);
		else
		{
			put_count(changed, difference, count);
			atp_direct_update(direct, &place, changed, changed->n - 1);
		}
	}
	if (added->n > 0)
		atp_direct_insert(direct, added);
}

/* Several processes that write the same popular targets would conflict in each batch. */
static bool
may_be_direct(const AtpApply *a)
{
	return a->direct && !a->shared && a->sub->workers <= 1;
}

static void
write_differences(AtpApply *a, const Difference *differences, int n)
{
	AtpDirect  *direct = n > 0 && may_be_direct(a) ? atp_direct_open(a->statements, &atp_link_count_table) : NULL;
	bool		written = direct != NULL && atp_direct_finds(direct);

	if (written)
		write_to(direct, a->statements, differences, n);
	if (direct != NULL)
		atp_direct_close(direct);
	if (written || n == 0)
		return;
	execute_with(a->statements, ADD_COUNTS, differences, n, false);
	/* the rows are locked already */
	execute_with(a->statements, REMOVE_ZEROS, differences, n, true);
}

void
atp_link_counts_write(AtpApply *a)
{
	MemoryContext noted;
	MemoryContext cxt;
	MemoryContext old;
	Difference *sorted;
	int			n = a->ncounts;

	if (n == 0)
		return;
	noted = a->counts->cxt;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto counts of links", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	/* a copy: if this step, a subtransaction, is rolled back, a former number of the differences is valid again */
	sorted = MemoryContextAllocHuge(cxt, sizeof(Difference) * n);
	memcpy(sorted, a->counts->differences, sizeof(Difference) * n);
	a->counts = NULL;
	a->ncounts = 0;
	write_differences(a, sorted, sum_up(sorted, n));
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
	if (GetCurrentTransactionNestLevel() == 1)
		MemoryContextDelete(noted);
}

void
atp_link_counts_limit(AtpApply *a)
{
	if (a->ncounts >= differences_max)
		atp_link_counts_write(a);
}

/* ------------------------------------------------------------------------
 * Rebuild
 * ------------------------------------------------------------------------
 */

/* The counts of the links of counted sources. */
#define COUNTED_LINKS \
	"(SELECT l.target, l.source, count(*) AS n FROM #.link l WHERE l.source IN (SELECT id FROM #.link_source WHERE counted)" \
	" GROUP BY l.target, l.source)"

void
atp_link_counts_rebuild(const char *target)
{
	/* Citus joins no divided links with link_count, and count_links() refuses counts of divided links */
	if (atp_is_distributed(atp_table_in(target, atp_link_table.name)))
		return;
	(void) atp_run(atp_expand_sql("DELETE FROM #.link_count c WHERE c.source NOT IN (SELECT id FROM #.link_source WHERE counted)"
								  " OR NOT EXISTS (SELECT FROM #.link l WHERE l.target OPERATOR(@.=) c.target AND l.source = c.source)", target), ATP_NO_ARGS);
	(void) atp_run(atp_expand_sql("INSERT INTO #.link_count AS c (target, source, n)"
								  " SELECT target, source, n FROM " COUNTED_LINKS " l ORDER BY target USING OPERATOR(@.<), source"
								  " ON CONFLICT (target, source) DO UPDATE SET n = excluded.n WHERE c.n IS DISTINCT FROM excluded.n", target), ATP_NO_ARGS);
}
