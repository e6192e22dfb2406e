/*
 * dagcbor_analyze.c
 *		Statistics of the type dagcbor for ANALYZE: the number of distinct values, and the most common values.
 *
 * For a type without an order, PostgreSQL compares each value of the sample with up to twice as many values as the statistics
 * target says, nearly always in vain, because records differ.  Here the sample is sorted by the stored bytes.  A value that is
 * stored in two editions counts as two values, and a damaged value raises no error.
 */
#include "postgres.h"

#include <math.h>

#include "access/detoast.h"
#include "commands/vacuum.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/typcache.h"

#include "types/glue.h"

/* Wider values are counted as distinct, as PostgreSQL's own ANALYZE does. */
#define WIDTH_MAX	1024

/* std_typanalyze() wants so many rows for each entry of the statistics target. */
#define ROWS_OF_ENTRY	300

typedef struct ValueGroup
{
	AtpBytes	value;
	int			size;
} ValueGroup;

typedef struct ValueSample
{
	AtpBytes   *values;
	int			n;
	int			nulls;
	int			wide;
	double		width;			/* of all values that are not null */
	ValueGroup *groups;			/* of equal values, and more than one */
	int			ngroups;
	int			singles;
} ValueSample;

static int
compare_stored(const void *a, const void *b)
{
	const AtpBytes *x = a;
	const AtpBytes *y = b;

	if (x->len != y->len)
		return x->len < y->len ? -1 : 1;
	return memcmp(x->ptr, y->ptr, x->len);
}

static int
compare_sizes(const void *a, const void *b)
{
	return ((const ValueGroup *) b)->size - ((const ValueGroup *) a)->size;
}

static void
read_sample(ValueSample *s, VacAttrStats *stats, AnalyzeAttrFetchFunc fetch, int samplerows)
{
	s->values = palloc(Max(samplerows, 1) * sizeof(AtpBytes));
	for (int i = 0; i < samplerows; i++)
	{
		bool		isnull;
		Datum		value = fetch(stats, i, &isnull);
		struct varlena *v;

		CHECK_FOR_INTERRUPTS();
		if (isnull)
		{
			s->nulls++;
			continue;
		}
		s->width += VARSIZE_ANY(DatumGetPointer(value));
		if (toast_raw_datum_size(value) > WIDTH_MAX)
		{
			s->wide++;
			continue;
		}
		v = PG_DETOAST_DATUM_PACKED(value);
		s->values[s->n++] = (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
	}
}

static void
group_sample(ValueSample *s)
{
	s->groups = palloc((s->n / 2 + 1) * sizeof(ValueGroup));
	qsort(s->values, s->n, sizeof(AtpBytes), compare_stored);
	for (int i = 0, next; i < s->n; i = next)
	{
		next = i + 1;
		while (next < s->n && compare_stored(&s->values[i], &s->values[next]) == 0)
			next++;
		if (next - i == 1)
			s->singles++;
		else
			s->groups[s->ngroups++] = (ValueGroup) {s->values[i], next - i};
	}
	qsort(s->groups, s->ngroups, sizeof(ValueGroup), compare_sizes);
}

/* The estimate of Haas and Stokes, which ANALYZE uses; negative: a share of the rows. */
static double
estimate_distinct(const ValueSample *s, int samplerows, double totalrows)
{
	double		rows = samplerows - s->nulls;
	double		singles = s->singles + s->wide;
	double		found = s->ngroups + singles;
	double		total = totalrows * rows / samplerows;
	double		distinct;

	if (s->ngroups == 0)
		return -rows / samplerows;
	if (singles == 0)
		return found;
	distinct = rows * found / (rows - singles + singles * rows / Max(total, rows));
	distinct = floor(Min(Max(distinct, found), Max(total, found)) + 0.5);
	return distinct > 0.1 * totalrows ? -distinct / totalrows : distinct;
}

/* The most common values: all, if there are few and the sample has each of them twice; else those that are more frequent than the average. */
static void
put_common(const ValueSample *s, VacAttrStats *stats, int samplerows, double totalrows)
{
	double		distinct = stats->stadistinct < 0 ? -stats->stadistinct * totalrows : stats->stadistinct;
	int			target = stats->minrows / ROWS_OF_ENTRY;
	bool		all = s->singles + s->wide == 0 && s->ngroups <= target;
	double		least = all ? 0 : 1.25 * (samplerows - s->nulls) / distinct;
	int			n = 0;
	MemoryContext old = MemoryContextSwitchTo(stats->anl_context);
	Datum	   *values = palloc(Max(s->ngroups, 1) * sizeof(Datum));
	float4	   *shares = palloc(Max(s->ngroups, 1) * sizeof(float4));

	for (; n < Min(s->ngroups, target) && s->groups[n].size >= least; n++)
	{
		values[n] = PointerGetDatum(atp_varlena(s->groups[n].value.ptr, s->groups[n].value.len));
		shares[n] = (float4) ((double) s->groups[n].size / samplerows);
	}
	MemoryContextSwitchTo(old);
	if (n == 0)
		return;
	stats->stakind[0] = STATISTIC_KIND_MCV;
	stats->staop[0] = lookup_type_cache(stats->attrtypid, TYPECACHE_EQ_OPR)->eq_opr;
	stats->stacoll[0] = stats->attrcollid;
	stats->stanumbers[0] = shares;
	stats->numnumbers[0] = n;
	stats->stavalues[0] = values;
	stats->numvalues[0] = n;
}

static void
compute_stats(VacAttrStats *stats, AnalyzeAttrFetchFunc fetch, int samplerows, double totalrows)
{
	ValueSample s = {0};

	read_sample(&s, stats, fetch, samplerows);
	if (samplerows == 0)
		return;
	stats->stats_valid = true;
	stats->stanullfrac = (float4) ((double) s.nulls / samplerows);
	if (s.nulls == samplerows)
		return;
	group_sample(&s);
	stats->stawidth = (int32) (s.width / (samplerows - s.nulls));
	stats->stadistinct = (float4) estimate_distinct(&s, samplerows, totalrows);
	put_common(&s, stats, samplerows, totalrows);
}

PG_FUNCTION_INFO_V1(atp_pg_dagcbor_typanalyze);
Datum
atp_pg_dagcbor_typanalyze(PG_FUNCTION_ARGS)
{
	VacAttrStats *stats = (VacAttrStats *) PG_GETARG_POINTER(0);

	if (!std_typanalyze(stats))
		PG_RETURN_BOOL(false);
	stats->compute_stats = compute_stats;
	PG_RETURN_BOOL(true);
}
