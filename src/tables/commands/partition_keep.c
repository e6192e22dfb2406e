/*
 * partition_keep.c
 *		Removes partitions of months that are over, with the links of their records.
 *
 * Dropping a partition fires no trigger, so the links would stay.  If there are links, the records
 * of the month and their links are deleted together before the drop, some pages of the partition in
 * a step: the month is incomplete meanwhile, but at each commit the table link agrees with the
 * table record.  Rows locked by a session are left for the end, when the table is locked.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "changes/announce.h"
#include "config/extension.h"
#include "config/spi.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "tables/base/distributed.h"
#include "tables/records/table_link.h"
#include "tables/commands/partition_private.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Pages of a partition in a step: some thousand records. */
#define PAGES	128

#define OID_ARG(oid)	{ObjectIdGetDatum(oid), OIDOID, false}

#define IS_OVER(month)	month " + interval '1 month' <= now() AT TIME ZONE 'UTC' - $3::interval"

/* Partitions by month of table $1, named $2, that are over. */
#define OVER \
	"SELECT c.relname::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid" \
	" WHERE i.inhparent = $1 AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = $1)" \
	" AND CASE WHEN c.relname ~ ('^' || $2 || '_[0-9]{4}_(0[1-9]|1[0-2])$') THEN " IS_OVER("to_date(right(c.relname, 7), 'YYYY_MM')") " END ORDER BY 1"

/* Rows of some pages: the accounts; and of rows that are not locked, the ctids, and the whole keys of their links. */
#define OF_PAGES \
	" FROM ONLY #.%s r WHERE r.ctid >= '(%u,0)'::pg_catalog.tid AND r.ctid < '(%u,0)'::pg_catalog.tid AND %s"
#define ACCOUNTS_SQL \
	"SELECT DISTINCT r.did" OF_PAGES
#define SOME_ROWS \
	"SELECT r.ctid AS place, r.*" OF_PAGES " AND %s FOR UPDATE SKIP LOCKED"
#define PLACES_SQL \
	"SELECT array_agg(place) AS places FROM (" SOME_ROWS ") g"
#define LINKING_SQL \
	"WITH g AS MATERIALIZED (" SOME_ROWS ") SELECT (SELECT array_agg(place) FROM g) AS places, l.* FROM (" ATP_LINKS_OF("g") ") l"
/* Foreign keys that refer to table $1. */
#define REFERRING \
	"SELECT 1 AS one FROM pg_constraint WHERE contype = 'f' AND confrelid = $1 LIMIT 1"

/* How rows are removed in a step. */
typedef enum KeepWay
{
	AS_DROPPED,					/* without the executor: no trigger fires, as with DROP TABLE */
	AS_DELETED,					/* by a DELETE, as a user would */
	STAYING						/* only their links: the partition is about to be dropped */
} KeepWay;

/* ------------------------------------------------------------------------
 * Rows and links
 * ------------------------------------------------------------------------
 */
/* Does the table link have any row?  The table itself always exists. */
static bool
has_links(AtpParting *w)
{
	return w->cut == &atp_cut_record_month && OidIsValid(atp_parting_relid(w, "link")) &&
		atp_parting_ask(atp_expand_sql("SELECT 'yes' AS v FROM #.link LIMIT 1", w->schema)) != NULL;
}

static BlockNumber
pages_of(Oid relid)
{
	Relation	rel = table_open(relid, AccessShareLock);
	BlockNumber n = RelationGetNumberOfBlocks(rel);

	table_close(rel, NoLock);
	return n;
}

/*
 * An ERROR if a policy hides rows from the owner: hidden rows would be dropped without removing
 * their links.
 */
static AtpResult
query_all_rows(const char *sql)
{
	int			nest = NewGUCNestLevel();
	AtpResult	result;

	(void) set_config_option("row_security", "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	result = atp_query(sql, ATP_NO_ARGS);
	AtEOXact_GUC(false, nest);
	return result;
}

/* Delete rows that this transaction has locked. */
static void
remove_below(Oid relid, Datum *places, int n)
{
	Relation	rel = table_open(relid, RowExclusiveLock);

	PushActiveSnapshot(GetTransactionSnapshot());
	for (int i = 0; i < n; i++)
		simple_table_tuple_delete(rel, (ItemPointer) DatumGetPointer(places[i]), GetActiveSnapshot());
	PopActiveSnapshot();
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/* Remove the rows of some pages of a partition, with their links.  Returns the number of rows. */
static uint64
remove_some(AtpParting *w, const char *part, BlockNumber from, BlockNumber to, const char *condition, KeepWay way)
{
	bool		links = has_links(w);
	const char *unclaimed = "true";
	AtpResult	result;
	AtpTuple	found;
	Datum	   *places;
	bool	   *nulls;
	int			n;

	if (links)
		atp_run(atp_expand_sql("LOCK TABLE #.link IN ROW EXCLUSIVE MODE", w->schema), ATP_NO_ARGS);
	/* the rows of repositories are locked before those of records, as consumers lock them */
	if (way != STAYING)
	{
		atp_parting_withdraw_some(w, psprintf(ACCOUNTS_SQL, part, from, to, condition));
		unclaimed = atp_parting_unclaimed(w);
	}
	result = query_all_rows(atp_expand_sql(psprintf(links ? LINKING_SQL : PLACES_SQL, part, from, to, condition, unclaimed), w->schema));
	found = atp_result_row(result, 0);
	n = Max(atp_get_array(found, "places", TIDOID, &places, &nulls), 0);
	if (n > 0 && way == AS_DROPPED)
		remove_below(atp_parting_relid(w, part), places, n);
	else if (n > 0 && way == AS_DELETED)
		atp_run(atp_expand_sql(psprintf("DELETE FROM ONLY #.%s WHERE ctid = ANY ($1)", part), w->schema),
				ATP_ARGS(atp_array_arg(TIDOID, places, NULL, n)));
	if (n > 0 && links)
		atp_remove_links(w, found);
	atp_result_free(result);
	return n;
}

/* Remove the rows of all pages, in steps. */
static uint64
remove_rows(AtpParting *w, const char *part, const char *condition, KeepWay way)
{
	BlockNumber pages = 0;
	BlockNumber from = 0;
	uint64		removed = 0;

	do
	{
		CHECK_FOR_INTERRUPTS();
		atp_parting_begin(w);
		/*
		 * the end is fixed at the beginning: a partition that sessions extend meanwhile cannot keep
		 * the loop going for ever
		 */
		if (from == 0)
			pages = pages_of(atp_parting_relid(w, part));
		removed += remove_some(w, part, from, from + PAGES, condition, way);
		atp_parting_end(w);
		from += PAGES;
	} while (from < pages);
	return removed;
}

/* ------------------------------------------------------------------------
 * Months
 * ------------------------------------------------------------------------
 */
static List *
months_over(AtpParting *w, const char *keep)
{
	AtpResult	result;
	List	   *names = NIL;
	MemoryContext old;

	atp_parting_begin(w);
	result = atp_query(OVER, ATP_ARGS(OID_ARG(atp_parting_relid(w, w->cut->table)), atp_text_arg(w->cut->table), atp_text_arg(keep)));
	old = MemoryContextSwitchTo(w->cxt);
	for (uint64 i = 0; i < result.n; i++)
		names = lappend(names, pstrdup(atp_get_text(atp_result_row(result, i), "name")));
	MemoryContextSwitchTo(old);
	atp_result_free(result);
	atp_parting_end(w);
	return names;
}

/* Does Citus keep the rows? */
static bool
is_apart(AtpParting *w)
{
	return atp_is_distributed(atp_parting_relid(w, w->cut->table));
}

/*
 * May rows be removed before the partition is dropped?  Not if a foreign key refers to the table:
 * only the DETACH finds out whether the key lets the month go.
 */
static bool
goes_in_steps(AtpParting *w, const char *part)
{
	AtpResult	referring;
	bool		steps;

	atp_parting_begin(w);
	referring = atp_query(REFERRING, ATP_ARGS(OID_ARG(atp_parting_relid(w, w->cut->table))));
	steps = has_links(w) && referring.n == 0;
	/* with Citus, rows are removed by DELETE, which the foreign key would act on */
	if (has_links(w) && !steps && is_apart(w))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("months of table %s cannot be removed with their links, since a foreign key refers to the table, and Citus keeps the rows", w->name),
				 errhint("Drop the partition yourself, then SELECT atproto.rebuild_links(%s).", quote_literal_cstr(w->schema))));
	if (has_links(w) && get_rel_relkind(atp_parting_relid(w, part)) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot remove month %s with its links", quote_qualified_identifier(w->schema, part)),
				 errdetail("It is no ordinary table."),
				 errhint("Drop it yourself, then SELECT atproto.rebuild_links(%s).", quote_literal_cstr(w->schema))));
	atp_result_free(referring);
	atp_parting_end(w);
	return steps;
}

/* Most repositories of a month become partial before tables are locked, which consumers would notice. */
static void
withdraw_claims(AtpParting *w, const char *part)
{
	atp_parting_begin(w);
	atp_parting_withdraw_month(w, part);
	atp_parting_end(w);
}

/* Remove the rows while sessions still read and write the partition. */
static void
remove_month(AtpParting *w, const char *part)
{
	bool		apart;

	atp_parting_begin(w);
	apart = is_apart(w);
	atp_parting_end(w);
	if (apart)
		atp_remove_rows_apart(w, part);
	else
		(void) remove_rows(w, part, "true", AS_DROPPED);
}

/*
 * Remove the links of all rows of a partition; locks the partition against writes of other
 * sessions.
 */
static void
remove_all_links(AtpParting *w, const char *part)
{
	BlockNumber pages;

	LockRelationOid(atp_parting_relid(w, "link"), RowExclusiveLock);
	LockRelationOid(atp_parting_relid(w, part), ShareRowExclusiveLock);
	if (is_apart(w))
	{
		atp_remove_rest_apart(w, part);
		return;
	}
	pages = pages_of(atp_parting_relid(w, part));
	for (BlockNumber from = 0; from < pages; from += PAGES)
		(void) remove_some(w, part, from, from + PAGES, "true", STAYING);
}

/* Arguments of prepare_drop(): the month being dropped. */
typedef struct Drop
{
	AtpParting *w;
	const char *part;
	bool		links;			/* the table link had rows when the last rows were searched */
} Drop;

/*
 * Sessions that write to the partition, or to the table repo, wait meanwhile; sessions that read go on.  The locks are
 * released with the attempt that this function is part of: see partition_lock.c.  An export or an audit may have made a
 * repository synchronized since withdraw_claims().
 */
static void
prepare_drop(void *arg)
{
	Drop	   *d = arg;

	atp_parting_withdraw_last(d->w, d->part);
	d->links = has_links(d->w);
	if (d->links)
		remove_all_links(d->w, d->part);
}

/* Drop the partition; sessions that read the table wait meanwhile. */
static void
drop_partition(AtpParting *w, const char *part)
{
	char	   *name = quote_qualified_identifier(w->schema, part);
	Drop		d = {w, part, false};

	atp_parting_begin(w);
	atp_parting_lock_after(w, true, prepare_drop, &d);
	/* the first links of all may have been written since */
	if (!d.links && has_links(w))
		remove_all_links(w, part);
	atp_announce_drop(atp_parting_relid(w, part));
	/* fails if a foreign key refers to a row of the partition */
	atp_run(psprintf("ALTER TABLE %s DETACH PARTITION %s", w->name, name), ATP_NO_ARGS);
	atp_run(psprintf("DROP TABLE %s", name), ATP_NO_ARGS);
	atp_parting_say(w, psprintf("dropped %s", name));
	atp_parting_end(w);
}

/*
 * Condition for rows of the default partition that belong to a month that is over; NULL: no month
 * is over.
 */
static char *
condition_of_old(AtpParting *w, const char *keep)
{
	const char *ops = w->cut == &atp_cut_record_month ? "@" : "pg_catalog";
	char	   *condition;

	atp_parting_begin(w);
	condition = atp_parting_ask(atp_expand_sql(psprintf("SELECT (SELECT quote_literal((%s)::text) FROM (VALUES (timestamp '" ATP_FIRST_MONTH "')) f (m)) || ' ' || quote_literal((%s)::text) AS v"
														" FROM date_trunc('month', now() AT TIME ZONE 'UTC' - interval %s) m WHERE m > timestamp '" ATP_FIRST_MONTH "'",
														w->cut->bound, w->cut->bound, quote_literal_cstr(keep)), w->schema));
	if (condition != NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(w->cxt);
		char	   *upper = strstr(condition, "' '");

		/* not expanded here: the condition becomes part of a statement that is expanded */
		condition = psprintf("r.%s OPERATOR(%s.>=) %.*s::%s AND r.%s OPERATOR(%s.<) %s::%s", w->cut->column, ops,
							 (int) (upper + 1 - condition), condition, w->cut->type, w->cut->column, ops, upper + 2, w->cut->type);
		MemoryContextSwitchTo(old);
	}
	atp_parting_end(w);
	return condition;
}

/* Can rows of the default partition be removed page by page? */
static bool
is_here(AtpParting *w, const char *rest)
{
	bool		here;

	atp_parting_begin(w);
	here = get_rel_relkind(atp_parting_relid(w, rest)) == RELKIND_RELATION && !atp_is_distributed(atp_parting_relid(w, w->cut->table));
	if (!here)
		ereport(NOTICE,
				(errmsg("rows of %s that are as old stay there", quote_qualified_identifier(w->schema, rest)),
				 errdetail("It is no ordinary table of this server.")));
	atp_parting_end(w);
	return here;
}

void
atp_remove_months(AtpParting *w, const char *keep)
{
	char	   *rest = psprintf("%s_rest", w->cut->table);
	char	   *condition;
	ListCell   *cell;
	uint64		removed;

	foreach(cell, months_over(w, keep))
	{
		char	   *part = lfirst(cell);

		withdraw_claims(w, part);
		if (goes_in_steps(w, part))
			remove_month(w, part);
		drop_partition(w, part);
	}
	condition = condition_of_old(w, keep);
	if (condition == NULL || !is_here(w, rest))
		return;
	removed = remove_rows(w, rest, condition, AS_DELETED);
	if (removed > 0)
		atp_parting_say(w, psprintf("removed " UINT64_FORMAT " rows of %s", removed, quote_qualified_identifier(w->schema, rest)));
}
