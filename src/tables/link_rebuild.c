/*
 * link_rebuild.c
 *		SQL: atproto.link_problems() and atproto.rebuild_links(): the table link and
 *		what it should be, by the table record.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "config/cursor.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/link.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(atp_link_problems);
PG_FUNCTION_INFO_V1(atp_rebuild_links);

/* By the subscriptions that fill the table: $1, elements of their "links"; null: all are wanted. */
#define WANTED(collection, path) \
	"($1 IS NULL OR EXISTS (SELECT FROM (SELECT pg_catalog.split_part(f, ':', 1), pg_catalog.split_part(f, ':', 2)" \
	"  FROM pg_catalog.unnest($1) f) f (c, p) WHERE (f.p = '' OR f.p = " path ")" \
	"  AND (f.c = " collection "::pg_catalog.text OR (pg_catalog.right(f.c, 1) = '*'" \
	"   AND pg_catalog.starts_with(" collection "::pg_catalog.text, pg_catalog.left(f.c, -1))))))"

#define IMAGE	ATP_LINK_IMAGE("#.record")
#define MISSING \
	"SELECT DISTINCT i.* FROM (" IMAGE " AND " WANTED("s.collection", "s.path") ") i WHERE NOT EXISTS (SELECT FROM #.link l WHERE " ATP_SAME_LINK("l", "i") ")"
#define IS_EXTRA \
	"NOT EXISTS (SELECT FROM (" IMAGE ") i WHERE " ATP_SAME_LINK("l", "i") ")"
#define IS_UNWANTED \
	"EXISTS (SELECT FROM #.link_source s WHERE s.id = l.source AND NOT " WANTED("s.collection", "s.path") ")"

/*
 * What most records have comes first: there is room for so many, and names are chosen by
 * strangers.
 */
#define ADD_SOURCES \
	"INSERT INTO #.link_source (id, collection, path)" \
	" SELECT (m.id + row_number() OVER (ORDER BY u.n DESC, u.collection USING OPERATOR(@.<), u.path COLLATE pg_catalog.\"C\"))::pg_catalog.int4," \
	"  u.collection, u.path" \
	" FROM (SELECT r.collection, k.path, count(*) AS n FROM " ATP_LINK_PLACES("#.record") \
	"   WHERE " ATP_LINK_FITS " AND " WANTED("r.collection", "k.path") " AND NOT EXISTS (SELECT FROM #.link_source s WHERE " ATP_IS_LINK_SOURCE ") GROUP BY 1, 2) u," \
	"  (SELECT COALESCE(max(id), 0) AS id FROM #.link_source WHERE id <= " CppAsString2(ATP_LINK_SOURCES_MAX) ") m" \
	" ORDER BY 1 LIMIT (SELECT " CppAsString2(ATP_LINK_SOURCES_MAX) " - COALESCE(max(id), 0) FROM #.link_source" \
	"  WHERE id <= " CppAsString2(ATP_LINK_SOURCES_MAX) ")"

/* The elements; null: no subscription says which, or one has "all". */
static AtpArg
wanted_links(const char *target, bool warn)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT CASE WHEN count(*) > 0 AND NOT bool_or(s.links = 'all') THEN array_agg(e) END AS links"
								  " FROM atproto.subscription s LEFT JOIN unnest(CASE WHEN s.links <> 'all' THEN s.links::text[] END) e ON true"
								  " WHERE s.target = $1::name AND s.links <> 'none'", ATP_ARGS(atp_text_arg(target)));
	AtpArg		links = atp_get_arg(atp_result_row(found, 0), "links", TEXTARRAYOID);
	char	   *unsettled = warn ? atp_cursor_unsettled(target) : NULL;

	if (unsettled != NULL)
		ereport(WARNING,
				(errmsg("subscription \"%s\" does not go by its present settings yet", unsettled),
				 errdetail("What it is writing may lack links."),
				 errhint("Rebuild them again when atproto.cursor.settings_after is another one.")));
	atp_owner_end(caller);
	return links;
}

/* ------------------------------------------------------------------------
 * What is wrong
 * ------------------------------------------------------------------------
 */

/* SQL: atproto.link_problems(target) */
Datum
atp_link_problems(PG_FUNCTION_ARGS)
{
	const char *sql = "SELECT 'missing'::pg_catalog.text AS problem, m.target, m.source, m.rkey, m.did FROM (" MISSING ") m"
		" UNION ALL SELECT 'extra', l.target, l.source, l.rkey, l.did FROM #.link l WHERE " IS_EXTRA
		" UNION ALL SELECT 'unwanted', l.target, l.source, l.rkey, l.did FROM #.link l WHERE " IS_UNWANTED
		" AND EXISTS (SELECT FROM (" IMAGE ") i WHERE " ATP_SAME_LINK("l", "i") ")";
	AtpArg		links;
	MemoryContext cxt = CurrentMemoryContext;

	(void) atp_table_in(NameStr(*PG_GETARG_NAME(0)), "link");
	SPI_connect();
	links = wanted_links(NameStr(*PG_GETARG_NAME(0)), false);
	if (!links.isnull)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);

		links.value = datumCopy(links.value, false, -1);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	atp_return_query(fcinfo, atp_expand_sql(sql, NameStr(*PG_GETARG_NAME(0))), &links, 1, false);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Mending it
 * ------------------------------------------------------------------------
 */

static uint64
run(const char *sql, const char *target, const AtpArg *links)
{
	return atp_run(atp_expand_sql(sql, target), links, links != NULL ? 1 : 0);
}

/*
 * Who writes links has the table locked until he commits (link.h): when the lock is
 * there, what he wrote can be seen, in record, too.  Whoever comes later waits with
 * what he has to change, and has not changed anything that was looked at.
 */
static void
rebuild(const char *target, int64 *added, int64 *removed)
{
	AtpCaller	caller = atp_owner_begin(atp_owner_of_table(target, "link"));
	AtpArg		links;

	run("LOCK TABLE #.link IN SHARE ROW EXCLUSIVE MODE", target, NULL);
	/* while we waited somebody may have changed it */
	links = wanted_links(target, true);
	run(ADD_SOURCES, target, &links);
	/* apart: with an OR between them each row would be looked for by itself */
	*removed = run("DELETE FROM #.link l WHERE " IS_EXTRA, target, NULL) + run("DELETE FROM #.link l WHERE " IS_UNWANTED, target, &links);
	/* in the order of the key */
	*added = run("INSERT INTO #.link (target, source, rkey, did) SELECT target, source, rkey, did FROM (" MISSING ") m"
				 " ORDER BY target USING OPERATOR(@.<), source, rkey USING OPERATOR(@.<), did USING OPERATOR(@.<)", target, &links);
	atp_owner_end(caller);
}

/* SQL: atproto.rebuild_links(target) */
Datum
atp_rebuild_links(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	int64		added;
	int64		removed;
	int			nest;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("target must not be null")));
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	/* its snapshot may be older than the lock */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("links are rebuilt at isolation level \"read committed\" only")));
	SPI_connect();
	nest = atp_caller_begin();
	rebuild(NameStr(*PG_GETARG_NAME(0)), &added, &removed);
	atp_caller_end(nest);
	SPI_finish();
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), (Datum[]) {Int64GetDatum(added), Int64GetDatum(removed)},
											 (bool[]) {false, false}));
}
