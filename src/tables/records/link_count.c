/*
 * link_count.c
 *		The table link_count: how many links there are to a target, from each counted source.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "core/syntax/uri.h"
#include "executor/spi.h"
#include "tables/base/rows.h"
#include "tables/records/link_count.h"
#include "types/types.h"
#include "utils/memutils.h"

/*
 * Differences that a transaction collects at most, one for each link.  Whatever comes beyond is written earlier, and not
 * in the order of the key any more: only the removal of a very large repository is so long.
 */
#define DIFFERENCES_MAX	(1024 * 1024)

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
		SPI_OK_INSERT, {0}, {0}, &atp_link_count_table, ATP_ROWS_IN
	},
	[REMOVE_ZEROS] = {
		"DELETE FROM #.link_count c USING unnest({arrays}) u ({columns})"
		" WHERE c.target OPERATOR(@.=) u.target AND c.source = u.source AND c.n = 0 AND u.n < 0",
		SPI_OK_DELETE, {0}, {0}, &atp_link_count_table, ATP_ROWS_IN | ATP_BY_KEY
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
	.comment = "number of links to each target, from the sources that count_links() has named",
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
 * In the memory of the transaction.  AtpApply has the number of valid differences: so a step that is rolled back
 * (atp_attempt()) takes its differences back.
 */
struct AtpLinkCounts
{
	Difference *differences;
	int			max;
};

void
atp_link_count_note(AtpApply *a, const struct varlena *target, int32 source, int64 n)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	struct AtpLinkCounts *counts = a->counts;

	if (counts == NULL)
	{
		counts = a->counts = palloc(sizeof(struct AtpLinkCounts));
		counts->max = 1024;
		counts->differences = palloc(sizeof(Difference) * counts->max);
	}
	else if (a->ncounts == counts->max)
		counts->differences = repalloc_huge(counts->differences, sizeof(Difference) * (counts->max *= 2));
	counts->differences[a->ncounts++] = (Difference) {
		atp_varlena(VARDATA_ANY(target), VARSIZE_ANY_EXHDR(target)), source, n
	};
	MemoryContextSwitchTo(old);
	if (a->ncounts >= DIFFERENCES_MAX)
		atp_link_counts_write(a);
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

/* One row for each target and source with another count than before. */
static AtpRows *
rows_of(AtpStatements *set, const Difference *sorted, int n, bool *negative)
{
	AtpRows    *rows = atp_rows_of(set, &atp_link_count_table, n);

	*negative = false;
	for (int i = 0, end; i < n; i = end)
	{
		int64		sum = 0;

		for (end = i; end < n && compare_differences(&sorted[i], &sorted[end]) == 0; end++)
			sum += sorted[end].n;
		if (sum == 0)
			continue;
		*negative |= sum < 0;
		atp_put_ref(rows, sorted[i].target);
		atp_put(rows, Int32GetDatum(sorted[i].source), false);
		atp_put(rows, Int64GetDatum(sum), false);
	}
	return rows;
}

static void
write_differences(AtpStatements *set, Difference *differences, int n)
{
	Datum		args[ATP_STATEMENT_ARGS];
	AtpRows    *rows;
	bool		negative;

	qsort(differences, n, sizeof(Difference), compare_differences);
	rows = rows_of(set, differences, n, &negative);
	if (rows->n == 0)
		return;
	atp_rows_bind(rows, args);
	(void) atp_execute(set, &statements[ADD_COUNTS], args, NULL);
	/* the rows are locked already */
	if (negative)
		(void) atp_execute(set, &statements[REMOVE_ZEROS], args, NULL);
}

void
atp_link_counts_write(AtpApply *a)
{
	MemoryContext cxt;
	MemoryContext old;
	Difference *sorted;
	int			n = a->ncounts;

	if (n == 0)
		return;
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto counts of links", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	/* a copy: if this step is rolled back, a former number of the differences is valid again */
	sorted = MemoryContextAllocHuge(cxt, sizeof(Difference) * n);
	memcpy(sorted, a->counts->differences, sizeof(Difference) * n);
	a->counts = NULL;
	a->ncounts = 0;
	write_differences(a->statements, sorted, n);
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

/* ------------------------------------------------------------------------
 * Rebuild
 * ------------------------------------------------------------------------
 */

/* The counts that the table should have. */
#define COUNTED_LINKS \
	"(SELECT l.target, l.source, count(*) AS n FROM #.link l WHERE l.source IN (SELECT id FROM #.link_source WHERE counted)" \
	" GROUP BY l.target, l.source)"

void
atp_link_counts_rebuild(const char *target)
{
	(void) atp_run(atp_expand_sql("DELETE FROM #.link_count c WHERE c.source NOT IN (SELECT id FROM #.link_source WHERE counted)"
								  " OR NOT EXISTS (SELECT FROM #.link l WHERE l.target OPERATOR(@.=) c.target AND l.source = c.source)", target), ATP_NO_ARGS);
	(void) atp_run(atp_expand_sql("INSERT INTO #.link_count AS c (target, source, n)"
								  " SELECT target, source, n FROM " COUNTED_LINKS " l ORDER BY target USING OPERATOR(@.<), source"
								  " ON CONFLICT (target, source) DO UPDATE SET n = excluded.n WHERE c.n <> excluded.n", target), ATP_NO_ARGS);
}
