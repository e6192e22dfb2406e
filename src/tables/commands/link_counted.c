/*
 * link_counted.c
 *		SQL: atproto.count_links(): which sources of links are counted in the table link_count.
 *
 * The lock on link keeps all writers of links out, until the links that exist are counted and the
 * sources are marked as counted: so a count is never too small.  A writer that comes later reads the
 * marks after it got the lock (link_ids.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/command_progress.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "fmgr.h"
#include "tables/base/distributed.h"
#include "tables/commands/link_name.h"
#include "tables/records/link_count.h"
#include "tables/records/table_link.h"
#include "types/types.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"

PG_FUNCTION_INFO_V1(atp_count_links);

#define HINT	"Use an array of sources, such as '{app.bsky.feed.like:subject.uri}'; an empty array ends all counts."

/* A named source has a place, however many sources records have brought (table_link.h).  The lock on link keeps other writers of sources out. */
#define ADD_SOURCES \
	"INSERT INTO #.link_source (id, collection, path)" \
	" SELECT (m.id + pg_catalog.row_number() OVER (ORDER BY u.n))::integer, u.collection, u.path" \
	" FROM (SELECT collection, path, min(n) AS n FROM unnest($1, $2) WITH ORDINALITY u (collection, path, n) GROUP BY collection, path) u," \
	" (SELECT GREATEST(max(id), " CppAsString2(ATP_LINK_SOURCES_MAX) ") AS id FROM #.link_source) m" \
	" WHERE NOT EXISTS (SELECT FROM #.link_source s WHERE s.collection OPERATOR(@.=) u.collection AND s.path = u.path)"

#define MARK_SOURCES \
	"UPDATE #.link_source s SET counted = NOT s.counted WHERE s.counted <> EXISTS (SELECT FROM unnest($1, $2) u (collection, path)" \
	" WHERE u.collection OPERATOR(@.=) s.collection AND u.path = s.path)"

/* The collections and paths that the caller names. */
typedef struct Named
{
	Datum	   *collections;
	Datum	   *paths;
	int			n;
} Named;

static Named
named_sources(ArrayType *sources)
{
	Named		named;
	Datum	   *values;
	bool	   *nulls;

	deconstruct_array(sources, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &named.n);
	named.collections = palloc(sizeof(Datum) * Max(named.n, 1));
	named.paths = palloc(sizeof(Datum) * Max(named.n, 1));
	for (int i = 0; i < named.n; i++)
	{
		AtpLinkName name;

		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("\"%s\" must not contain nulls", "sources"),
					 errhint(HINT)));
		name = atp_link_name(DatumGetTextPP(values[i]));
		named.collections[i] = PointerGetDatum(atp_nsid_make(name.collection.ptr, name.collection.len));
		named.paths[i] = PointerGetDatum(atp_varlena(name.path.ptr, name.path.len));
	}
	return named;
}

/* Citus: a transaction of a writer could add to a count on one node and to links on another one, which may fail apart. */
static void
check_place(const char *target)
{
	Oid			link = atp_table_in(target, atp_link_table.name);

	if (atp_is_distributed(link) || atp_has_shard_column(&atp_link_table, link))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("links of schema \"%s\" cannot be counted, since they are divided for Citus", target),
				 errhint("%s counts the rows of table \"%s\" there.", "backlink_count()", "link")));
}

static void
count_sources(const char *target, const Named *named)
{
	AtpArg		collections = atp_array_arg(atp_type("nsid"), named->collections, NULL, named->n);
	AtpArg		paths = atp_array_arg(TEXTOID, named->paths, NULL, named->n);
	Oid			link = atp_table_in(target, atp_link_table.name);

	(void) atp_table_in(target, atp_link_count_table.name);
	(void) atp_run(atp_expand_sql(ADD_SOURCES, target), ATP_ARGS(collections, paths));
	(void) atp_run(atp_expand_sql(MARK_SOURCES, target), ATP_ARGS(collections, paths));
	atp_progress_reads("counting links", link);
	atp_link_counts_rebuild(target);
	/* processes drop the sources that they remember (link_ids.c) */
	CacheInvalidateRelcacheByRelid(atp_table_in(target, atp_link_source_table.name));
}

/* SQL: atproto.count_links(sources, target) */
Datum
atp_count_links(PG_FUNCTION_ARGS)
{
	const char *target;
	Named		named;
	AtpCaller	caller;
	int			nest;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", "sources"),
				 errhint(HINT)));
	if (PG_ARGISNULL(1))
		atp_argument_is_null("target");
	target = NameStr(*PG_GETARG_NAME(1));
	named = named_sources(PG_GETARG_ARRAYTYPE_P(0));
	/* the transaction's snapshot may be older than the lock */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("links are counted at isolation level \"read committed\" only"),
				 errhint("ROLLBACK, then call the function after BEGIN ISOLATION LEVEL READ COMMITTED.")));
	SPI_connect();
	nest = atp_caller_begin();
	atp_progress_begin("count_links", target);
	caller = atp_owner_begin(atp_owner_of_table(target, atp_link_table.name));
	atp_progress_phase("waiting for the lock on link", -1);
	(void) atp_run(atp_expand_sql("LOCK TABLE #.link IN SHARE ROW EXCLUSIVE MODE", target), ATP_NO_ARGS);
	check_place(target);
	count_sources(target, &named);
	atp_owner_end(caller);
	atp_progress_end();
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_VOID();
}
