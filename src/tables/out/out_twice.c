/*
 * out_twice.c
 *		Finds blocks that stand at several places of a repository: see out_twice.h.
 */
#include "postgres.h"

#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "common/compat.h"
#include "common/secret_hash.h"
#include "core/codec/cid.h"
#include "miscadmin.h"
#include "tables/out/out_twice.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

/* So many beginnings of digests are sorted in memory, in 16 MB; more go into a sort with temporary files. */
#ifdef ATP_INJECTION_POINTS
#define NOTED_MAX	10000		/* so that the tests sort in both ways */
#else
#define NOTED_MAX	(2 * 1024 * 1024)
#endif
#define SORT_KB		(16 * 1024)

/* O-07: this many different blocks at several places need about 30 MB. */
#define REPEATED_MAX	400000

typedef struct Seen
{
	uint8_t		cid[ATP_CID_BLESSED_LEN];	/* the key */
} Seen;

#define ST_SORT sort_beginnings
#define ST_ELEMENT_TYPE int64
#define ST_COMPARE(a, b) ((*(a) > *(b)) - (*(a) < *(b)))
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

struct AtpOutTwice
{
	int64	   *noted;			/* beginnings of digests; NULL: in sort, or after atp_twice_ready() */
	int			nnoted;
	int			noted_room;
	Tuplesortstate *sort;		/* NULL while few blocks are remembered */
	int64	   *repeated;		/* repeated beginnings of digests, ascending */
	int			nrepeated;
	int			room;
	HTAB	   *seen;			/* NULL: nothing repeated */
};

static int64
beginning_of(AtpBytes cid)
{
	int64		beginning = 0;

	if (cid.len == ATP_CID_BLESSED_LEN)
		memcpy(&beginning, cid.ptr + ATP_CID_BLESSED_LEN - 32, sizeof(beginning));
	return beginning;
}

AtpOutTwice *
atp_twice_make(void)
{
	AtpOutTwice *twice = palloc0(sizeof(AtpOutTwice));

	twice->noted_room = 1024;
	twice->noted = palloc(sizeof(int64) * twice->noted_room);
	return twice;
}

void
atp_twice_free(AtpOutTwice *twice)
{
	if (twice->noted != NULL)
		pfree(twice->noted);
	if (twice->sort != NULL)
		tuplesort_end(twice->sort);
	if (twice->seen != NULL)
		hash_destroy(twice->seen);
	if (twice->repeated != NULL)
		pfree(twice->repeated);
	pfree(twice);
}

/* The array is full: move its contents into a sort. */
static void
begin_sort(AtpOutTwice *twice)
{
	twice->sort = tuplesort_begin_datum(INT8OID, Int8LessOperator, InvalidOid, false, SORT_KB, NULL, TUPLESORT_NONE);
	for (int i = 0; i < twice->nnoted; i++)
		tuplesort_putdatum(twice->sort, Int64GetDatum(twice->noted[i]), false);
	pfree(twice->noted);
	twice->noted = NULL;
}

void
atp_twice_note(AtpOutTwice *twice, AtpBytes cid)
{
	if (twice->sort == NULL && twice->nnoted == NOTED_MAX)
		begin_sort(twice);
	if (twice->sort != NULL)
	{
		tuplesort_putdatum(twice->sort, Int64GetDatum(beginning_of(cid)), false);
		return;
	}
	if (twice->nnoted == twice->noted_room)
	{
		twice->noted_room *= 2;
		twice->noted = repalloc(twice->noted, sizeof(int64) * twice->noted_room);
	}
	twice->noted[twice->nnoted++] = beginning_of(cid);
}

static void
add_repeated(AtpOutTwice *twice, int64 beginning, const AtpOutRepo *repo)
{
	if (twice->nrepeated > 0 && twice->repeated[twice->nrepeated - 1] == beginning)
		return;
	if (twice->nrepeated >= REPEATED_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("more than %d different blocks of repository %s stand at several paths", REPEATED_MAX, repo->did_text)));
	if (twice->nrepeated == twice->room)
	{
		twice->room = Max(1024, 2 * twice->room);
		twice->repeated = twice->repeated == NULL ? palloc(sizeof(int64) * twice->room)
			: repalloc(twice->repeated, sizeof(int64) * twice->room);
	}
	twice->repeated[twice->nrepeated++] = beginning;
}

/* The owner of the repository chooses the CIDs, so the slots of the table must not be known. */
static uint32
hash_cid(const void *key, Size n)
{
	return (uint32) atp_secret_hash(key, n, 0);
}

static void
find_in_memory(AtpOutTwice *twice, const AtpOutRepo *repo)
{
	sort_beginnings(twice->noted, twice->nnoted);
	for (int i = 1; i < twice->nnoted; i++)
		if (twice->noted[i] == twice->noted[i - 1])
			add_repeated(twice, twice->noted[i], repo);
	pfree(twice->noted);
	twice->noted = NULL;
}

static void
find_by_sort(AtpOutTwice *twice, const AtpOutRepo *repo)
{
	Datum		value;
	bool		isnull;
	bool		first = true;
	int64		before = 0;

	tuplesort_performsort(twice->sort);
	while (atp_tuplesort_getdatum(twice->sort, &value, &isnull))
	{
		int64		beginning = DatumGetInt64(value);

		CHECK_FOR_INTERRUPTS();
		if (!first && beginning == before)
			add_repeated(twice, beginning, repo);
		before = beginning;
		first = false;
	}
	tuplesort_end(twice->sort);
	twice->sort = NULL;
}

void
atp_twice_ready(AtpOutTwice *twice, const AtpOutRepo *repo)
{
	HASHCTL		ctl = {.keysize = sizeof(Seen), .entrysize = sizeof(Seen), .hash = hash_cid, .hcxt = CurrentMemoryContext};

	if (twice->sort == NULL)
		find_in_memory(twice, repo);
	else
		find_by_sort(twice, repo);
	if (twice->nrepeated > 0)
		twice->seen = hash_create("atproto blocks at several places", Min(twice->nrepeated, 1024), &ctl,
								  HASH_ELEM | HASH_FUNCTION | HASH_CONTEXT);
}

static bool
may_be_repeated(const AtpOutTwice *twice, int64 beginning)
{
	int			lo = 0;
	int			hi = twice->nrepeated;

	while (lo < hi)
	{
		int			mid = (lo + hi) / 2;

		if (twice->repeated[mid] < beginning)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < twice->nrepeated && twice->repeated[lo] == beginning;
}

bool
atp_twice_is_first(AtpOutTwice *twice, AtpBytes cid)
{
	Seen		key = {{0}};
	bool		found;

	if (twice->seen == NULL || !may_be_repeated(twice, beginning_of(cid)))
		return true;
	/* atp_out_record() refuses a CID of another form */
	if (cid.len == sizeof(key.cid))
		memcpy(key.cid, cid.ptr, cid.len);
	(void) hash_search(twice->seen, &key, HASH_ENTER, &found);
	return !found;
}
