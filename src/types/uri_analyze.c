/*
 * uri_analyze.c
 *		Additional statistics of URIs for ANALYZE: the share of a column that the average repository has, and
 *		the average collection of a repository.
 *
 * The histogram tells how many rows are inside a URI only if they fill more than one bin.  In a table with
 * many repositories nearly all repositories are smaller.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "commands/vacuum.h"
#include "miscadmin.h"

#include "types/type_uri.h"
#include "types/uri_analyze.h"

/* Ignore wider values, as PostgreSQL's own ANALYZE does. */
#define WIDTH_MAX	1024

typedef struct UriAnalyze
{
	AnalyzeAttrComputeStatsFunc std_compute;
	void	   *std_extra;
} UriAnalyze;

/* Groups of adjacent values in the sorted sample: repositories, or collections. */
typedef struct Groups
{
	int			n;				/* number of groups */
	int			singles;		/* groups with a single value */
	int			size;			/* values in the current group */
	double		rows;			/* values in groups no larger than a bin of the histogram */
	double		pairs;			/* ordered pairs of two values in such a group */
} Groups;

static int
compare_groups(const void *a, const void *b)
{
	const AtpBytes *x = a;
	const AtpBytes *y = b;

	return atp_uri_cmp(x->ptr, x->len, y->ptr, y->len);
}

static void
end_group(Groups *groups, double bin)
{
	if (groups->size == 0)
		return;
	groups->n++;
	groups->singles += groups->size == 1;
	if (groups->size <= bin)
	{
		groups->rows += groups->size;
		groups->pairs += groups->size * (groups->size - 1.0);
	}
	groups->size = 0;
}

/* The share of the average group, by the estimator that ANALYZE uses (Haas and Stokes). */
static float4
share_of_group(const Groups *groups, int sample, double total)
{
	double		distinct = sample * (double) groups->n /
	(sample - groups->singles + groups->singles * sample / Max(total, sample));

	return (float4) (1.0 / Max(distinct, groups->n));
}

/*
 * The share of an average row's group: the probability that two rows are in one group.  At least the share of
 * the average group.
 */
static float4
share_of_row(const Groups *groups, int sample, double total)
{
	float4		least = share_of_group(groups, sample, total);

	if (sample < 2 || groups->rows == 0)
		return least;
	return Max(least, (float4) (groups->pairs / groups->rows / (sample - 1)));
}

static void
compute_stats(VacAttrStats *stats, AnalyzeAttrFetchFunc fetch, int samplerows, double totalrows)
{
	UriAnalyze *analyze = stats->extra_data;
	AtpBytes   *sample;
	Groups		repos = {0};
	Groups		collections = {0};
	int			n = 0;
	int			slot = 0;
	double		bin = 0;
	float4	   *numbers;

	stats->extra_data = analyze->std_extra;
	analyze->std_compute(stats, fetch, samplerows, totalrows);
	stats->extra_data = analyze;
	for (; slot < STATISTIC_NUM_SLOTS && stats->stakind[slot] != 0; slot++)
		if (stats->stakind[slot] == STATISTIC_KIND_HISTOGRAM)
			bin = 1.0 / (stats->numvalues[slot] - 1);
	/* uri_support.c reads these statistics only beside a histogram. */
	if (!stats->stats_valid || slot == STATISTIC_NUM_SLOTS || bin == 0)
		return;

	sample = palloc(samplerows * sizeof(AtpBytes));
	for (int i = 0; i < samplerows; i++)
	{
		bool		isnull;
		Datum		value = fetch(stats, i, &isnull);

		CHECK_FOR_INTERRUPTS();
		if (!isnull && toast_raw_datum_size(value) <= WIDTH_MAX)
		{
			struct varlena *v = PG_DETOAST_DATUM_PACKED(value);

			sample[n++] = (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
		}
	}
	if (n == 0)
		return;

	bin *= n;
	qsort(sample, n, sizeof(AtpBytes), compare_groups);
	for (int i = 0; i < n; i++)
	{
		AtpBytes	a = sample[Max(i - 1, 0)];
		AtpBytes	b = sample[i];
		size_t		repo = atp_uri_repo_len(b.ptr, b.len);
		size_t		collection = atp_uri_collection_len(b.ptr, b.len);

		if (atp_uri_repo_len(a.ptr, a.len) != repo || memcmp(a.ptr, b.ptr, repo) != 0)
			end_group(&repos, bin);
		if (atp_uri_collection_len(a.ptr, a.len) != collection || memcmp(a.ptr, b.ptr, collection) != 0)
			end_group(&collections, bin);
		repos.size++;
		collections.size++;
	}
	end_group(&repos, bin);
	end_group(&collections, bin);

	totalrows *= n / (double) samplerows;
	numbers = MemoryContextAlloc(stats->anl_context, ATP_STATISTIC_URI_NUMBERS * sizeof(float4));
	numbers[ATP_STATISTIC_URI_REPO] = share_of_group(&repos, n, totalrows);
	numbers[ATP_STATISTIC_URI_COLLECTION] = share_of_group(&collections, n, totalrows);
	numbers[ATP_STATISTIC_URI_REPO_OF_ROW] = share_of_row(&repos, n, totalrows);
	numbers[ATP_STATISTIC_URI_COLLECTION_OF_ROW] = share_of_row(&collections, n, totalrows);
	stats->stakind[slot] = ATP_STATISTIC_KIND_URI;
	stats->stanumbers[slot] = numbers;
	stats->numnumbers[slot] = ATP_STATISTIC_URI_NUMBERS;
}

PG_FUNCTION_INFO_V1(atp_pg_uri_typanalyze);
Datum
atp_pg_uri_typanalyze(PG_FUNCTION_ARGS)
{
	VacAttrStats *stats = (VacAttrStats *) PG_GETARG_POINTER(0);
	UriAnalyze *analyze;

	if (!std_typanalyze(stats))
		PG_RETURN_BOOL(false);
	analyze = palloc(sizeof(UriAnalyze));
	analyze->std_compute = stats->compute_stats;
	analyze->std_extra = stats->extra_data;
	stats->compute_stats = compute_stats;
	stats->extra_data = analyze;
	PG_RETURN_BOOL(true);
}
