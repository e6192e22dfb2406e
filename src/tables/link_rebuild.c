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
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tables/link.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_link_problems);
PG_FUNCTION_INFO_V1(atp_rebuild_links);

#define IMAGE	ATP_LINK_IMAGE("#.record")
#define MISSING \
	"SELECT DISTINCT i.* FROM (" IMAGE ") i WHERE NOT EXISTS (SELECT FROM #.link l WHERE " ATP_SAME_LINK("l", "i") ")"
#define IS_EXTRA \
	"NOT EXISTS (SELECT FROM (" IMAGE ") i WHERE " ATP_SAME_LINK("l", "i") ")"

/*
 * What most records have comes first: there is room for so many, and names are chosen by
 * strangers.
 */
#define ADD_SOURCES \
	"INSERT INTO #.link_source (id, collection, path)" \
	" SELECT (m.id + row_number() OVER (ORDER BY u.n DESC, u.collection USING OPERATOR(@.<), u.path COLLATE pg_catalog.\"C\"))::pg_catalog.int4," \
	"  u.collection, u.path" \
	" FROM (SELECT r.collection, k.path, count(*) AS n FROM " ATP_LINK_PLACES("#.record") \
	"   WHERE " ATP_LINK_FITS " AND NOT EXISTS (SELECT FROM #.link_source s WHERE " ATP_IS_LINK_SOURCE ") GROUP BY 1, 2) u," \
	"  (SELECT COALESCE(max(id), 0) AS id FROM #.link_source WHERE id <= " CppAsString2(ATP_LINK_SOURCES_MAX) ") m" \
	" ORDER BY 1 LIMIT (SELECT " CppAsString2(ATP_LINK_SOURCES_MAX) " - COALESCE(max(id), 0) FROM #.link_source" \
	"  WHERE id <= " CppAsString2(ATP_LINK_SOURCES_MAX) ")"

/* ------------------------------------------------------------------------
 * What is wrong
 * ------------------------------------------------------------------------
 */

/* SQL: atproto.link_problems(target) */
Datum
atp_link_problems(PG_FUNCTION_ARGS)
{
	const char *sql = "SELECT 'missing'::pg_catalog.text AS problem, m.target, m.source, m.rkey, m.did FROM (" MISSING ") m"
		" UNION ALL SELECT 'extra', l.target, l.source, l.rkey, l.did FROM #.link l WHERE " IS_EXTRA;

	atp_return_query(fcinfo, atp_expand_sql(sql, NameStr(*PG_GETARG_NAME(0))), ATP_NO_ARGS);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Mending it
 * ------------------------------------------------------------------------
 */

/* Who the table link belongs to: somebody whose rights the current user has. */
static Oid
owner_of_links(const char *target)
{
	Oid			relid = get_relname_relid("link", get_namespace_oid(target, false));
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("schema \"%s\" has no table \"%s\"", target, "link"),
				 errhint("Run SELECT atproto.create_tables('%s').", target)));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	if (!has_privs_of_role(GetUserId(), owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, "link");
	return owner;
}

static uint64
run(const char *sql, const char *target)
{
	return atp_run(atp_expand_sql(sql, target), ATP_NO_ARGS);
}

/*
 * Who writes links has the table locked until he commits (link.h): when the lock is
 * there, what he wrote can be seen, in record, too.  Whoever comes later waits with
 * what he has to change, and has not changed anything that was looked at.
 */
static void
rebuild(const char *target, int64 *added, int64 *removed)
{
	AtpCaller	caller = atp_owner_begin(owner_of_links(target));

	run("LOCK TABLE #.link IN SHARE ROW EXCLUSIVE MODE", target);
	run(ADD_SOURCES, target);
	*removed = run("DELETE FROM #.link l WHERE " IS_EXTRA, target);
	/* in the order of the key */
	*added = run("INSERT INTO #.link (target, source, rkey, did) SELECT target, source, rkey, did FROM (" MISSING ") m"
				 " ORDER BY target USING OPERATOR(@.<), source, rkey USING OPERATOR(@.<), did USING OPERATOR(@.<)", target);
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
