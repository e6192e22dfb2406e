/*
 * link_rebuild.c
 *		SQL: atproto.link_problems() and atproto.rebuild_links(): compare the table link with the
 *		links in the records, and repair the table.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "common/command_progress.h"
#include "config/cursor.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/base/distributed.h"
#include "tables/records/link_count.h"
#include "tables/records/table_link.h"
#include "tables/base/node_mark.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

PG_FUNCTION_INFO_V1(atp_link_problems);
PG_FUNCTION_INFO_V1(atp_rebuild_links);

/*
 * Is the link wanted by a subscription that fills the table?  $1: patterns; null: all links are
 * wanted.
 */
#define WANTED(collection, path) \
	"($1 IS NULL OR " collection "::pg_catalog.text || ':' || " path " LIKE ANY ($1))"

#define MISSING(places, more, also) \
	"SELECT DISTINCT i.* FROM (" ATP_LINK_IMAGE(places, more) " WHERE " WANTED("s.collection", "s.path") ") i" \
	" WHERE NOT EXISTS (SELECT FROM #.link l WHERE " ATP_SAME_LINK("l", "i") also ")"
#define IS_OF_RECORD(places, more, also) \
	"EXISTS (SELECT FROM (" ATP_LINK_IMAGE(places, more) ") i WHERE " ATP_SAME_LINK("l", "i") also ")"
#define IS_UNWANTED \
	"EXISTS (SELECT FROM #.link_source s WHERE s.id = l.source AND NOT " WANTED("s.collection", "s.path") ")"

/*
 * Sources with most links come first: the number of sources is limited, and strangers choose the
 * names.
 */
#define ADD_SOURCES(places) \
	"INSERT INTO #.link_source (id, collection, path)" \
	" SELECT (m.id + row_number() OVER (ORDER BY u.n DESC, u.collection USING OPERATOR(@.<), u.path COLLATE pg_catalog.\"C\"))::pg_catalog.int4," \
	"  u.collection, u.path" \
	" FROM (SELECT p.collection, p.path, count(*) AS n FROM " places " p" \
	"   WHERE " WANTED("p.collection", "p.path") " AND NOT EXISTS (SELECT FROM #.link_source s WHERE " ATP_IS_LINK_SOURCE ") GROUP BY 1, 2) u," \
	"  (SELECT COALESCE(max(id), 0) AS id FROM #.link_source WHERE id <= " CppAsString2(ATP_LINK_SOURCES_MAX) ") m" \
	" ORDER BY 1 LIMIT (SELECT " CppAsString2(ATP_LINK_SOURCES_MAX) " - COALESCE(max(id), 0) FROM #.link_source" \
	"  WHERE id <= " CppAsString2(ATP_LINK_SOURCES_MAX) ")"

typedef struct Sql
{
	const char *problems;
	const char *add_sources;
	const char *remove_extra;
	const char *remove_unwanted;
	const char *add_missing;
} Sql;

/* l is a link of the table, i a link of a record. */
#define SQL(places, more, also) { \
	"SELECT 'missing'::pg_catalog.text AS problem, m.target, m.source, m.rkey, m.did FROM (" MISSING(places, more, also) ") m" \
	" UNION ALL SELECT 'extra', l.target, l.source, l.rkey, l.did FROM #.link l WHERE NOT " IS_OF_RECORD(places, more, also) \
	" UNION ALL SELECT 'unwanted', l.target, l.source, l.rkey, l.did FROM #.link l WHERE " IS_UNWANTED \
	" AND " IS_OF_RECORD(places, more, also), \
	ADD_SOURCES(places), \
	"DELETE FROM #.link l WHERE NOT " IS_OF_RECORD(places, more, also), \
	"DELETE FROM #.link l WHERE " IS_UNWANTED, \
	/* in the order of the primary key */ \
	"INSERT INTO #.link (target, source, rkey, did" more ") SELECT target, source, rkey, did" more " FROM (" MISSING(places, more, also) ") m" \
	" ORDER BY target USING OPERATOR(@.<), source, rkey USING OPERATOR(@.<), did USING OPERATOR(@.<)" \
}

static const Sql of_records = SQL(ATP_LINK_PLACES("#.record"), "", "");

/*
 * If links are distributed by the target's authority, they are on different nodes than the records,
 * and Citus cannot plan such a join.  So the records' links are first copied into a table that is
 * colocated with link, and dropped at the end.
 */
#define STAGE	"#.link_stage"
#define TO_STAGE(links, condition) \
	"INSERT INTO " STAGE " (target, collection, path, rkey, did, authority)" \
	" SELECT k.target, r.collection, k.path, r.rkey, r.did, @.aturi_repo(k.target) FROM #.record r CROSS JOIN LATERAL " links " k" \
	" WHERE " ATP_LINK_FITS condition

static const Sql of_stage = SQL(STAGE, ", authority", " AND l.authority OPERATOR(@.=) i.authority");

static void
run_in(const char *target, const char *sql)
{
	(void) atp_run(atp_expand_sql(sql, target), ATP_NO_ARGS);
}

static void
distribute_stage(const char *target)
{
	atp_recover_prepared();
	atp_result_free(atp_query("SELECT create_distributed_table(pg_catalog.format('%I.link_stage', $1), 'authority',"
							  " colocate_with => pg_catalog.format('%I.link', $1))", ATP_ARGS(atp_text_arg(target))));
}

/* Returns the statements for this table; end_stage() drops the table that they need. */
static const Sql *
begin_stage(const char *target)
{
	Oid			relid = atp_table_in(target, atp_link_table.name);

	if (!atp_has_shard_column(&atp_link_table, relid))
		return &of_records;
	/*
	 * Citus requires this for a reference table that is written after distributed tables in the
	 * same transaction
	 */
	if (atp_is_distributed(relid))
		(void) set_config_option("citus.multi_shard_modify_mode", "sequential", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	run_in(target, "CREATE UNLOGGED TABLE " STAGE " (target @.aturi, collection @.nsid, path pg_catalog.text, rkey @.recordkey, did @.did, authority @.aturi)");
	if (atp_is_distributed(relid))
		distribute_stage(target);
	run_in(target, TO_STAGE("atproto.stored_links(r.value, r.did, r.collection, r.rkey)", ""));
	run_in(target, TO_STAGE("atproto.stored_links(r.raw, r.did, r.collection, r.rkey)", " AND r.value IS NULL"));
	return &of_stage;
}

/*
 * ERROR if Citus could not plan the changes: it cannot change a local table by rows of the nodes.
 */
static void
check_places(const char *target)
{
	if (atp_is_distributed(atp_table_in(target, atp_link_source_table.name)) &&
		!atp_is_distributed(atp_table_in(target, atp_link_table.name)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s.link\" is on this server, and \"link_source\" on all nodes", target),
				 errhint("SELECT atproto.distribute(%s), or undistribute_table(%s).", quote_literal_cstr(target),
						 quote_literal_cstr(quote_qualified_identifier(target, atp_link_source_table.name)))));
}

static void
end_stage(const Sql *sql, const char *target)
{
	if (sql == &of_stage)
		run_in(target, "DROP TABLE " STAGE);
}

/* warn: warns if a consumer still writes by earlier settings. */
static AtpArg
wanted_links(const char *target, bool warn)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query(ATP_WANTED_LINKS, ATP_ARGS(atp_text_arg(target)));
	AtpArg		links = atp_get_arg(atp_result_row(found, 0), "links", TEXTARRAYOID);
	char	   *unsettled = warn ? atp_cursor_unsettled(target) : NULL;

	if (unsettled != NULL)
		ereport(WARNING,
				(errmsg("the present settings of subscription \"%s\" do not hold yet", unsettled),
				 errdetail("Records that it is writing may lack links."),
				 errhint("Rebuild the links again when atproto.cursor.settings_after has changed.")));
	atp_owner_end(caller);
	return links;
}

/* ------------------------------------------------------------------------
 * What differs
 * ------------------------------------------------------------------------
 */

/* The tables that link_problems() reads. */
static const char *const compared[] = {"link", "record", "link_source", NULL};

/* SQL: atproto.link_problems(target) */
Datum
atp_link_problems(PG_FUNCTION_ARGS)
{
	const char *target = NameStr(*PG_GETARG_NAME(0));
	const Sql  *sql;
	int			nest = NewGUCNestLevel();
	AtpArg		links;
	MemoryContext cxt = CurrentMemoryContext;
	AtpCaller	caller;

	SPI_connect();
	caller = atp_visitor_begin(target, compared);
	sql = begin_stage(target);
	links = wanted_links(target, false);
	if (!links.isnull)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);

		links.value = datumCopy(links.value, false, -1);
		MemoryContextSwitchTo(old);
	}
	SPI_finish();
	/* begin_stage() has just written the table: make its rows visible */
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	atp_return_query(fcinfo, atp_expand_sql(sql->problems, target), &links, 1, false);
	PopActiveSnapshot();
	SPI_connect();
	end_stage(sql, target);
	atp_owner_end(caller);
	SPI_finish();
	AtEOXact_GUC(true, nest);
	return (Datum) 0;
}

/* ------------------------------------------------------------------------
 * Repair
 * ------------------------------------------------------------------------
 */

static uint64
run_counted(const char *sql, const char *target, const AtpArg *links)
{
	return atp_run(atp_expand_sql(sql, target), links, links != NULL ? 1 : 0);
}

/*
 * No links of a node of Citus are missing any more.  The owner of the links need not be the owner of the marks, and then
 * may not change the marks.
 */
static void
forget_behind(const char *target)
{
	AtpCaller	caller;

	if (!atp_has_owners_rights(target, "node_written"))
	{
		ereport(NOTICE,
				(errmsg("the rows of table \"%s.node_written\" stay as they are", target),
				 errhint("If atproto.check() finds that links of a node are missing, the owner of this table has to rebuild the links.")));
		return;
	}
	caller = atp_owner_begin(atp_owner_of_table(target, "node_written"));
	(void) run_counted("UPDATE #.node_written SET behind_since = NULL WHERE behind_since IS NOT NULL", target, NULL);
	atp_owner_end(caller);
}

/*
 * Consumers that write links hold a lock on the table until commit (link_rows.c).  So with this
 * lock all their changes of link and record are visible; a consumer that comes later waits before
 * it changes any row that was compared.
 */
static void
rebuild_links(const char *target, int64 *added, int64 *removed)
{
	AtpCaller	caller = atp_owner_begin(atp_owner_of_table(target, "link"));
	Oid			record = atp_table_in(target, "record");
	Oid			link = atp_table_in(target, atp_link_table.name);
	const Sql  *sql;
	AtpArg		links;

	atp_progress_phase("waiting for the lock on link", -1);
	run_counted("LOCK TABLE #.link IN SHARE ROW EXCLUSIVE MODE", target, NULL);
	check_places(target);
	atp_progress_reads("copying the links of the records", record);
	sql = begin_stage(target);
	/* a subscription may have been changed while we waited for the lock */
	links = wanted_links(target, true);
	atp_progress_reads("looking for sources of links", record);
	run_counted(sql->add_sources, target, &links);
	/* two statements: with an OR, each row would need an index lookup of its own */
	atp_progress_reads("removing links that no record has", link);
	*removed = run_counted(sql->remove_extra, target, NULL);
	atp_progress_reads("removing links that no subscription wants", link);
	*removed += run_counted(sql->remove_unwanted, target, &links);
	atp_progress_reads("adding missing links", record);
	*added = run_counted(sql->add_missing, target, &links);
	atp_progress_reads("counting links", link);
	atp_link_counts_rebuild(target);
	end_stage(sql, target);
	atp_owner_end(caller);
	if (atp_has_node_marks(target))
		forget_behind(target);
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
		atp_argument_is_null("target");
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	/* the transaction's snapshot may be older than the lock */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("links are rebuilt at isolation level \"read committed\" only"),
				 errhint("ROLLBACK, then call the function after BEGIN ISOLATION LEVEL READ COMMITTED.")));
	SPI_connect();
	nest = atp_caller_begin();
	atp_progress_begin("rebuild_links", NameStr(*PG_GETARG_NAME(0)));
	rebuild_links(NameStr(*PG_GETARG_NAME(0)), &added, &removed);
	atp_progress_end();
	atp_caller_end(nest);
	SPI_finish();
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), (Datum[]) {Int64GetDatum(added), Int64GetDatum(removed)},
											 (bool[]) {false, false}));
}
