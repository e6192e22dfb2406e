/*
 * partition.c
 *		SQL: atproto.partition(), which converts the tables record and record_event into
 *		partitioned tables, and atproto.maintain_partitions(), which adds partitions for coming
 *		months and collections, and removes months that are over.
 *
 * A record key can be any text, so rows without a partition are in the default partition.  When a
 * partition is made, its rows are moved out of the default partition.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "common/command_progress.h"
#include "common/quotable.h"
#include "tables/base/distributed.h"
#include "tables/base/logged.h"
#include "tables/commands/partition_lock.h"
#include "tables/commands/partition_private.h"
#include "tables/commands/partition_swap.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_partition);
PG_FUNCTION_INFO_V1(atp_maintain_partitions);

#define MONTHS_AHEAD_MAX	120

/* Collections that most accounts have: the default. */
static const char *const usual[] = {
	"app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.graph.block", "app.bsky.graph.follow"
};

/* ------------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------------
 */

/*
 * Values in generated SQL, and texts compared with PostgreSQL's output, must not depend on the
 * session's settings.
 */
static void
set_formats(void)
{
	static const char *const settings[][2] = {
		{"DateStyle", "ISO"}, {"IntervalStyle", "postgres"}, {"TimeZone", "UTC"}, {"quote_all_identifiers", "off"},
		/* new tables get the old table's tablespace explicitly, and the access method heap */
		{"default_tablespace", ""}, {"default_table_access_method", "heap"}
	};

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/* Begin a section with the caller's rights. */
static void
begin_as_caller(AtpParting *w)
{
	if (!w->in_step)
		w->nest = atp_caller_begin();
	set_formats();
	w->in_step = true;
}

static void
end_as_caller(AtpParting *w)
{
	if (!w->pieces)
		return;
	atp_caller_end(w->nest);
	w->in_step = false;
	SPI_commit();
	MemoryContextSwitchTo(w->cxt);
}

void
atp_parting_begin(AtpParting *w)
{
	begin_as_caller(w);
	w->caller = atp_owner_begin(atp_owner_of_table(w->schema, w->cut->table));
}

void
atp_parting_end(AtpParting *w)
{
	atp_owner_end(w->caller);
	end_as_caller(w);
}

void
atp_parting_say(AtpParting *w, const char *text)
{
	ReturnSetInfo *result = (ReturnSetInfo *) w->fcinfo->resultinfo;

	if (w->pieces)
		ereport(NOTICE, (errmsg("%s", text)));
	else
		tuplestore_putvalues(result->setResult, result->setDesc, (Datum[]) {CStringGetTextDatum(text)}, (bool[]) {false});
}

char *
atp_parting_ask(const char *sql)
{
	AtpResult	result = atp_query(sql, ATP_NO_ARGS);
	char	   *value = result.n > 0 ? atp_get_text_or_null(atp_result_row(result, 0), "v") : NULL;

	atp_result_free(result);
	return value;
}

Oid
atp_parting_relid(AtpParting *w, const char *table)
{
	return get_relname_relid(table, atp_schema_of(w->schema));
}

char *
atp_parting_rest(AtpParting *w)
{
	return psprintf("%s_rest", w->cut->table);
}

/* The present partition key; NULL: not partitioned. */
static char *
present_key(AtpParting *w)
{
	Oid			relid = atp_parting_relid(w, w->cut->table);

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return NULL;
	return atp_parting_ask(psprintf("SELECT pg_get_partkeydef(%u) AS v", relid));
}

/* ------------------------------------------------------------------------
 * Locks
 * ------------------------------------------------------------------------
 */
static List *
add_lock(List *locks, Oid relid, LOCKMODE mode)
{
	AtpTableLock *one = palloc(sizeof(AtpTableLock));

	*one = (AtpTableLock) {relid, mode};
	return OidIsValid(relid) ? lappend(locks, one) : locks;
}

/*
 * Tables that the table's foreign keys refer to, and tables that refer to the table: creating a
 * partition locks them, since a partition gets the same foreign keys.
 */
static List *
add_referring_locks(AtpParting *w, List *locks)
{
	AtpResult	found = atp_query("SELECT DISTINCT CASE WHEN conrelid = $1 THEN confrelid ELSE conrelid END AS relid FROM pg_constraint"
								  " WHERE contype = 'f' AND $1 IN (conrelid, confrelid) AND conrelid <> confrelid ORDER BY 1",
								  ATP_ARGS({ObjectIdGetDatum(atp_parting_relid(w, w->cut->table)), OIDOID, false}));

	for (uint64 i = 0; i < found.n; i++)
	{
		bool		isnull;

		locks = add_lock(locks, DatumGetObjectId(atp_get(atp_result_row(found, i), "relid", OIDOID, &isnull)), ShareRowExclusiveLock);
	}
	atp_result_free(found);
	return locks;
}

/*
 * The relations to lock, in order; the table comes last.  The table link comes before record, as in
 * rebuild_links().  Views that will be replaced come before the table, as for queries of these
 * views.
 */
static List *
locks_of(AtpParting *w, bool links)
{
	List	   *locks = NIL;
	ListCell   *cell;

	if (links && w->cut == &atp_cut_record_month)
		locks = add_lock(locks, atp_parting_relid(w, "link"), RowExclusiveLock);
	if (present_key(w) == NULL)
		foreach(cell, atp_swap_views(atp_parting_relid(w, w->cut->table)))
			locks = add_lock(locks, lfirst_oid(cell), AccessExclusiveLock);
	return add_lock(add_referring_locks(w, locks), atp_parting_relid(w, w->cut->table), AccessExclusiveLock);
}

void
atp_parting_lock(AtpParting *w)
{
	atp_parting_lock_after(w, false, NULL, NULL);
}

void
atp_parting_lock_after(AtpParting *w, bool links, void (*first) (void *arg), void *arg)
{
	AtpLocking	locking = {.locks = locks_of(w, links),.first = first,.arg = arg,.in_transaction = !w->pieces};

	if (first != NULL)
		locking.first_locks = add_lock(NIL, atp_parting_relid(w, "repo"), ShareRowExclusiveLock);
	atp_lock_with_retries(&locking);
}

/*
 * In a single transaction, lock everything at once.  A lock requested after hours of copying could
 * deadlock with a session that waits for a table locked at the beginning.
 */
static void
lock_both(AtpParting *w, const AtpCut *cut, bool links)
{
	AtpLocking	locking = {.in_transaction = true};

	w->cut = cut;
	atp_parting_begin(w);
	locking.locks = locks_of(w, links);
	atp_parting_end(w);
	w->cut = &atp_cut_event_month;
	atp_parting_begin(w);
	locking.locks = list_concat(locking.locks, locks_of(w, false));
	atp_lock_with_retries(&locking);
	atp_parting_end(w);
}

/* Records that are dropped would be reported missing, and fetched again. */
static void
check_no_backfill(AtpParting *w)
{
	List	   *names = atp_subscriptions_filling(w->schema, "backfill <> 'none'", "name");

	if (names != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("months of records cannot be dropped, since subscription \"%s\" fetches repositories",
						(const char *) linitial(names)),
				 errdetail("It would fetch the records again."),
				 errhint("Set its backfill to 'none', or drop only events (keep_events).")));
}

/* ------------------------------------------------------------------------
 * One table
 * ------------------------------------------------------------------------
 */
static char *
options_of(AtpParting *w, const char *key)
{
	Oid			model = atp_parting_relid(w, key == NULL ? w->cut->table : atp_parting_rest(w));

	return OidIsValid(model) ? atp_swap_options(model) : "";
}

/* Look up the present key and the storage parameters of new partitions. */
static char *
look_up_key(AtpParting *w)
{
	MemoryContext old;
	char	   *key = present_key(w);

	w->name = MemoryContextStrdup(w->cxt, quote_qualified_identifier(w->schema, w->cut->table));
	if (key != NULL && strcmp(key, w->cut->key) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s is in partitions already, by %s", w->name, key)));
	old = MemoryContextSwitchTo(w->cxt);
	w->options = options_of(w, key);
	MemoryContextSwitchTo(old);
	return key;
}

/*
 * The default partition, if rows are to be moved out of it; NULL: Citus keeps the rows, so no row
 * can be moved.
 */
static const char *
rows_to_sort(AtpParting *w)
{
	return atp_is_distributed(atp_parting_relid(w, w->cut->table)) ? NULL : quote_qualified_identifier(w->schema, atp_parting_rest(w));
}

static List *
missing_partitions(AtpParting *w, int ahead, char **collections, int n, const char *rows_of, const char *keep)
{
	return w->cut->months ? atp_missing_months(w, ahead, rows_of, keep) : atp_missing_collections(w, collections, n);
}

/* Convert the table with all rows, in the caller's transaction. */
static void
convert_table(AtpParting *w, int ahead, char **collections, int n)
{
	AtpSwap    *swap;
	ListCell   *cell;

	atp_parting_begin(w);
	swap = atp_swap_begin(w->schema, w->cut->table, w->cut->key, w->cut->column);
	atp_make_rest(w);
	foreach(cell, missing_partitions(w, ahead, collections, n, atp_swap_old(swap), NULL))
		atp_make_part(w, lfirst(cell));
	atp_parting_say(w, psprintf("moved " UINT64_FORMAT " rows of %s", atp_swap_end(swap), w->name));
	atp_parting_end(w);
}

/* Make missing partitions, each in a step of its own. */
static void
keep_up(AtpParting *w, int ahead, char **collections, int n, const char *keep)
{
	List	   *parts;
	ListCell   *cell;

	atp_parting_begin(w);
	if (!OidIsValid(atp_parting_relid(w, atp_parting_rest(w))))
	{
		atp_parting_lock(w);
		atp_make_rest(w);
	}
	atp_parting_end(w);
	atp_parting_begin(w);
	parts = missing_partitions(w, ahead, collections, n, rows_to_sort(w), keep);
	atp_parting_end(w);
	foreach(cell, parts)
	{
		atp_parting_begin(w);
		atp_parting_lock(w);
		atp_make_part(w, lfirst(cell));
		atp_parting_end(w);
	}
}

static void
partition_table(AtpParting *w, const AtpCut *cut, int ahead, char **collections, int n, const char *keep)
{
	bool		cut_already;

	w->cut = cut;
	atp_parting_begin(w);
	cut_already = look_up_key(w) != NULL;
	atp_progress_reads(psprintf("looking for partitions that %s lacks", w->name), atp_parting_relid(w, cut->table));
	atp_parting_end(w);
	if (cut_already)
		keep_up(w, ahead, collections, n, keep);
	else
		convert_table(w, ahead, collections, n);
	if (keep != NULL)
		atp_remove_months(w, keep);
}

/* ------------------------------------------------------------------------
 * The functions
 * ------------------------------------------------------------------------
 */

/* Read an array of collections; the type ensures valid NSIDs. */
static char **
read_collections(ArrayType *array, int *n)
{
	Datum	   *values;
	bool	   *nulls;
	char	  **names;
	Oid			output;
	bool		varlena;
	int16		len;
	bool		byval;
	char		align;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &len, &byval, &align);
	deconstruct_array(array, ARR_ELEMTYPE(array), len, byval, align, &values, &nulls, n);
	getTypeOutputInfo(ARR_ELEMTYPE(array), &output, &varlena);
	names = palloc(sizeof(char *) * Max(*n, 1));
	for (int i = 0; i < *n; i++)
	{
		if (nulls[i])
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("a collection must not be null"),
					 errhint("For the usual collections, leave \"%s\" out.", "collections")));
		names[i] = OidOutputFunctionCall(output, values[i]);
	}
	return names;
}

/* How long rows are kept, an interval; NULL: for ever. */
static char *
keep_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	Interval	zero = {0};

	if (PG_ARGISNULL(n))
		return NULL;
	/* a negative interval would remove months that are not over */
	if (DatumGetBool(DirectFunctionCall2(interval_lt, PG_GETARG_DATUM(n), IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative", name),
				 errhint("Use a time such as '1 year', or NULL to remove nothing.")));
	return DatumGetCString(DirectFunctionCall1(interval_out, PG_GETARG_DATUM(n)));
}

static const AtpCut *
cut_by(AtpParting *w, const char *by)
{
	char	   *key;

	if (by != NULL && strcmp(by, "collection") == 0)
		return &atp_cut_record_collection;
	if (by != NULL && strcmp(by, "month") == 0)
		return &atp_cut_record_month;
	if (by != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"", "by", atp_quotable(by)),
				 errhint("It is \"collection\" or \"month\".")));
	w->cut = &atp_cut_record_month;
	key = present_key(w);
	if (key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table \"%s\" is not in partitions yet", "record"),
				 errhint("Say by what: by => 'collection', or by => 'month'.")));
	return strcmp(key, atp_cut_record_collection.key) == 0 ? &atp_cut_record_collection : &atp_cut_record_month;
}

/* Arguments of both functions. */
typedef struct Wanted
{
	const AtpCut *cut;
	char	  **collections;
	int			ncollections;
	int			ahead;
	char	   *keep;
	char	   *keep_events;
} Wanted;

/* The collections; ERROR if given for a table partitioned by month. */
static void
read_wanted_collections(AtpParting *w, FunctionCallInfo fcinfo, int n, Wanted *wanted)
{
	bool		given = !PG_ARGISNULL(n);

	wanted->collections = (char **) usual;
	wanted->ncollections = lengthof(usual);
	if (given)
		wanted->collections = read_collections(PG_GETARG_ARRAYTYPE_P(n), &wanted->ncollections);
	if (given && wanted->cut != &atp_cut_record_collection)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("collections are for partitions by collection"),
				 errhint("Leave \"%s\" out, or use by => 'collection'.", "collections")));
}

/* Reads the arguments from the n-th on: collections, ahead, keep, keep_events. */
static Wanted
read_wanted(AtpParting *w, const char *by, int n)
{
	FunctionCallInfo fcinfo = w->fcinfo;
	Wanted		wanted = {.ahead = PG_GETARG_INT32(n + 1), .keep = keep_arg(fcinfo, n + 2, "keep"), .keep_events = keep_arg(fcinfo, n + 3, "keep_events")};

	wanted.cut = cut_by(w, by);
	read_wanted_collections(w, fcinfo, n, &wanted);
	if (wanted.keep != NULL && wanted.cut != &atp_cut_record_month)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("records are kept for a time only in partitions by month"),
				 errhint("Use by => 'month' if the table has no partitions yet. Otherwise delete old records together with their links; a subscription with \"backfill\" would fetch them again.")));
	if (wanted.keep != NULL)
		check_no_backfill(w);
	atp_check_logged(w->schema);
	return wanted;
}

static void
check_arguments(FunctionCallInfo fcinfo, int ahead)
{
	if (PG_ARGISNULL(0) || PG_ARGISNULL(ahead))
		atp_argument_is_null(PG_ARGISNULL(0) ? "target" : "ahead");
	if (PG_GETARG_INT32(ahead) < 0 || PG_GETARG_INT32(ahead) > MONTHS_AHEAD_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("ahead must be between %d and %d", 0, MONTHS_AHEAD_MAX),
				 errhint("It is the number of months after this one for which partitions are made.")));
	/* rows committed after the snapshot would be dropped with the old table */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("partitions are made at isolation level \"read committed\" only"),
				 errhint("ROLLBACK, then call the function after BEGIN ISOLATION LEVEL READ COMMITTED.")));
}

/* The first argument of partition() is the target: a misplaced "by" is named.  by: the second argument, or NULL. */
static void
check_schema(const char *target, const char *by)
{
	bool		exchanged = by != NULL && OidIsValid(get_namespace_oid(by, true));

	if ((strcmp(target, "month") == 0 || strcmp(target, "collection") == 0) && !OidIsValid(get_namespace_oid(target, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema \"%s\" does not exist", target),
				 errhint("The first argument is the target: atproto.partition(%s, by => '%s').",
						 quote_literal_cstr(exchanged ? by : "atproto"), target)));
}

/* SQL: atproto.partition(target, by, collections, ahead, keep, keep_events) */
Datum
atp_partition(PG_FUNCTION_ARGS)
{
	AtpParting	w = {.fcinfo = fcinfo};
	Wanted		wanted;
	char	   *by;

	check_arguments(fcinfo, 3);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	w.schema = NameStr(*PG_GETARG_NAME(0));
	by = PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1));
	check_schema(w.schema, by);
	SPI_connect();
	w.cxt = CurrentMemoryContext;
	begin_as_caller(&w);
	wanted = read_wanted(&w, by, 2);
	atp_progress_begin("partition", w.schema);
	atp_progress_phase("waiting for locks", -1);
	lock_both(&w, wanted.cut, wanted.keep != NULL);
	partition_table(&w, wanted.cut, wanted.ahead, wanted.collections, wanted.ncollections, wanted.keep);
	partition_table(&w, &atp_cut_event_month, wanted.ahead, NULL, 0, wanted.keep_events);
	atp_progress_end();
	atp_caller_end(w.nest);
	SPI_finish();
	return (Datum) 0;
}

static void
check_partitioned(AtpParting *w, const AtpCut *cut)
{
	w->cut = cut;
	(void) atp_owner_of_table(w->schema, cut->table);
	if (present_key(w) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" is not in partitions yet", cut->table),
				 errhint("SELECT atproto.partition(...) makes them.")));
}

/* SQL: CALL atproto.maintain_partitions(target, collections, ahead, keep, keep_events) */
Datum
atp_maintain_partitions(PG_FUNCTION_ARGS)
{
	AtpParting	w = {.fcinfo = fcinfo, .pieces = true};
	MemoryContext old;
	Wanted		wanted;

	check_arguments(fcinfo, 2);
	if (atp_call_is_atomic(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("procedure \"%s\" cannot run inside a transaction block or a function", "atproto.maintain_partitions"),
				 errdetail("It ends transactions, so that nobody waits for it for long.")));
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	w.cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto partitions", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(w.cxt);
	w.schema = pstrdup(NameStr(*PG_GETARG_NAME(0)));
	begin_as_caller(&w);
	check_partitioned(&w, &atp_cut_record_month);
	check_partitioned(&w, &atp_cut_event_month);
	wanted = read_wanted(&w, NULL, 1);
	atp_progress_begin("maintain_partitions", w.schema);
	end_as_caller(&w);
	partition_table(&w, wanted.cut, wanted.ahead, wanted.collections, wanted.ncollections, wanted.keep);
	partition_table(&w, &atp_cut_event_month, wanted.ahead, NULL, 0, wanted.keep_events);
	atp_progress_end();
	MemoryContextSwitchTo(old);
	SPI_finish();
	PG_RETURN_VOID();
}
