/*
 * partition.c
 *		SQL: atproto.partition(), which makes partitions of the tables record and
 *		record_event, and drops those of months that are over.
 *
 * Partitions are recognized by their names, table_2026_01 and table_rest, so that
 * those which somebody has made by hand are as good.  Rows for which there is no
 * other are in the default partition, since anybody can write any record key:
 * whoever makes a partition takes its rows out of there.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "common/cryptohash.h"
#include "common/md5.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "quotable.h"
#include "tables/link.h"
#include "tables/partition_swap.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_partition);

#define MONTHS_AHEAD_MAX	120

/* When the network began: no month before that is anybody's. */
#define FIRST_MONTH	"2022-11-01"

/* What most accounts have, when nobody says which collections. */
static const char *const usual[] = {
	"app.bsky.feed.like", "app.bsky.feed.post", "app.bsky.feed.repost", "app.bsky.graph.block", "app.bsky.graph.follow"
};

/* How a table is cut. */
typedef struct Cut
{
	const char *table;
	const char *key;			/* as pg_get_partkeydef() says it */
	const char *column;			/* whose values have months, in an order that "C" has, too; NULL: collections */
	const char *bound;			/* SQL: such a value, where month m begins, m a timestamp in UTC */
} Cut;

static const Cut record_collection = {"record", "LIST (collection)"};
static const Cut record_month = {
	"record", "RANGE (rkey)", "rkey::text COLLATE \"C\"", "@.tid_floor(m AT TIME ZONE 'UTC')::text"
};
static const Cut event_month = {
	"record_event", "RANGE (received_at)", "received_at", "(m AT TIME ZONE 'UTC')"
};

typedef struct Work
{
	FunctionCallInfo fcinfo;
	const char *schema;
	const Cut  *cut;
	char	   *name;			/* the table's, quoted, with its schema */
	char	   *options;		/* storage parameters of new partitions: those of the table, or of its default partition */
} Work;

static void
say(Work *w, const char *text)
{
	ReturnSetInfo *result = (ReturnSetInfo *) w->fcinfo->resultinfo;

	tuplestore_putvalues(result->setResult, result->setDesc, (Datum[]) {CStringGetTextDatum(text)}, (bool[]) {false});
}

/* One value, as text; NULL: null, or no row. */
static char *
ask(const char *sql)
{
	AtpResult	result = atp_query(sql, ATP_NO_ARGS);
	char	   *value = result.n > 0 ? atp_get_text_or_null(atp_result_row(result, 0), "v") : NULL;

	atp_result_free(result);
	return value;
}

static Oid
relid_of(Work *w, const char *table)
{
	return get_relname_relid(table, get_namespace_oid(w->schema, false));
}

/* The collection's partition. */
static char *
name_for(const char *collection)
{
	char	   *name = psprintf("record_%s", collection);
	bool		alike = false;	/* another collection would have the same name */

	for (char *c = name; *c != '\0'; c++)
	{
		alike |= *c == '-' || (*c >= 'A' && *c <= 'Z');
		*c = *c == '.' || *c == '-' ? '_' : pg_tolower((unsigned char) *c);
	}
	if (alike || strlen(name) >= NAMEDATALEN)
	{
		char		hash[33];
		const char *error;

		if (!pg_md5_hash(collection, strlen(collection), hash, &error))
			elog(ERROR, "%s", error);
		name = psprintf("%.*s_%.8s", NAMEDATALEN - 10, name, hash);
	}
	return name;
}

/* ------------------------------------------------------------------------
 * Partitions
 * ------------------------------------------------------------------------
 */

/*
 * Is it there, at any depth?  ERROR when a relation of that name is something else: its rows would be in the default
 * partition unnoticed, and what is taken for the default partition is searched for rows.
 */
static bool
exists(Work *w, const char *part)
{
	Oid			relid = relid_of(w, part);

	if (OidIsValid(relid) &&
		!(get_rel_relispartition(relid) && list_member_oid(get_partition_ancestors(relid), relid_of(w, w->cut->table))))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("cannot make partition %s", quote_qualified_identifier(w->schema, part)),
				 errdetail("There is a relation of that name, which is no partition of the table."),
				 errhint("Rename it.")));
	return OidIsValid(relid);
}

/*
 * Make one, with the rows that the default partition has of it.  values: after FOR
 * VALUES; condition: the same, as SQL on a row.
 */
static void
make(Work *w, const char *part, const char *values, const char *condition)
{
	char	   *name = quote_qualified_identifier(w->schema, part);
	char	   *rest = quote_qualified_identifier(w->schema, psprintf("%s_rest", w->cut->table));
	uint64		moved = 0;

	if (exists(w, part))
		return;
	if (ask(psprintf("SELECT 'yes' AS v FROM %s WHERE %s LIMIT 1", rest, condition)) == NULL)
		atp_run(psprintf("CREATE TABLE %s PARTITION OF %s FOR VALUES %s%s", name, w->name, values, w->options), ATP_NO_ARGS);
	else
	{
		char	   *columns = atp_swap_columns(relid_of(w, w->cut->table));

		atp_run(psprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL)%s", name, w->name, w->options), ATP_NO_ARGS);
		moved = atp_run(psprintf("WITH gone AS (DELETE FROM %s WHERE %s RETURNING *) INSERT INTO %s (%s) SELECT %s FROM gone",
								 rest, condition, name, columns, columns), ATP_NO_ARGS);
		atp_run(psprintf("ALTER TABLE %s ATTACH PARTITION %s FOR VALUES %s", w->name, name, values), ATP_NO_ARGS);
	}
	atp_swap_like(relid_of(w, part), relid_of(w, w->cut->table));
	say(w, moved > 0 ? psprintf("made %s, with " UINT64_FORMAT " rows of %s", name, moved, rest) : psprintf("made %s", name));
}

static void
make_rest(Work *w)
{
	char	   *rest = psprintf("%s_rest", w->cut->table);

	if (exists(w, rest))
		return;
	atp_run(psprintf("CREATE TABLE %s PARTITION OF %s DEFAULT%s",
					 quote_qualified_identifier(w->schema, rest), w->name, w->options), ATP_NO_ARGS);
	atp_swap_like(relid_of(w, rest), relid_of(w, w->cut->table));
	say(w, psprintf("made %s", quote_qualified_identifier(w->schema, rest)));
}

static void
make_collections(Work *w, char **collections, int n)
{
	for (int i = 0; i < n; i++)
	{
		char	   *literal = quote_literal_cstr(collections[i]);

		make(w, name_for(collections[i]), psprintf("IN (%s)", literal),
			 atp_expand_sql(psprintf("collection OPERATOR(@.=) %s", literal), w->schema));
	}
}

/* A month of a table of months that begins at m, or of all that there might be. */
#define MONTHS \
	"SELECT to_char(m, 'YYYY_MM') AS name, quote_literal((%s)::text) AS lower," \
	" (SELECT quote_literal((%s)::text) FROM (SELECT m + interval '1 month') n (m)) AS upper" \
	" FROM generate_series(%s, date_trunc('month', now() AT TIME ZONE 'UTC') + interval '%d months', interval '1 month') g (m)"

static void
make_months(Work *w, int ahead, const char *old)
{
	const char *first = old == NULL ? "date_trunc('month', now() AT TIME ZONE 'UTC')" : "timestamp '" FIRST_MONTH "'";
	char	   *months = atp_expand_sql(psprintf(MONTHS, w->cut->bound, w->cut->bound, first, ahead), w->schema);
	AtpResult	result;

	/* those of which there are rows, and those to come; one look at the table is enough */
	if (old != NULL)
		months = psprintf("WITH months AS (%s), bounds AS (SELECT array_agg(%s ORDER BY name) AS b FROM months)"
						  " SELECT m.* FROM (SELECT *, row_number() OVER (ORDER BY name) AS n FROM months) m"
						  " WHERE m.name >= to_char(now() AT TIME ZONE 'UTC', 'YYYY_MM') OR m.n IN"
						  "  (SELECT DISTINCT width_bucket(%s, b) FROM %s, bounds) ORDER BY n",
						  months, w->cut == &record_month ? "btrim(lower, '''') COLLATE \"C\"" : "btrim(lower, '''')::timestamptz",
						  w->cut->column, old);
	result = atp_query(months, ATP_NO_ARGS);
	for (uint64 i = 0; i < result.n; i++)
	{
		AtpTuple	row = atp_result_row(result, i);
		char	   *lower = atp_get_text(row, "lower");
		char	   *upper = atp_get_text(row, "upper");
		char	   *condition = psprintf("%s >= %s AND %s < %s", w->cut->column, lower, w->cut->column, upper);

		make(w, psprintf("%s_%s", w->cut->table, atp_get_text(row, "name")), psprintf("FROM (%s) TO (%s)", lower, upper), condition);
	}
	atp_result_free(result);
}

/* ------------------------------------------------------------------------
 * Retention
 * ------------------------------------------------------------------------
 */

/* Links of records that go with their partition, a name that needs no quotes. */
static void
drop_links(Work *w, const char *part)
{
	const char *sql = psprintf("DELETE FROM #.link l USING (" ATP_LINK_IMAGE(ATP_LINK_PLACES("#.%s"), "") ") i WHERE " ATP_SAME_LINK("l", "i"), part);

	atp_run(atp_expand_sql(sql, w->schema), ATP_NO_ARGS);
}

static void
drop_months(Work *w, char *keep)
{
	AtpResult	result = atp_query("SELECT c.relname::text AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
								   " WHERE i.inhparent = $1 AND c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = $1) AND CASE WHEN c.relname ~ ('^' || $2 || '_[0-9]{4}_(0[1-9]|1[0-2])$')"
								   "  THEN to_date(right(c.relname, 7), 'YYYY_MM') + interval '1 month' <= now() AT TIME ZONE 'UTC' - $3::interval END"
								   " ORDER BY 1",
								   ATP_ARGS({ObjectIdGetDatum(relid_of(w, w->cut->table)), OIDOID, false},
											atp_text_arg(w->cut->table), atp_text_arg(keep)));

	for (uint64 i = 0; i < result.n; i++)
	{
		char	   *part = atp_get_text(atp_result_row(result, i), "name");
		char	   *name = quote_qualified_identifier(w->schema, part);

		if (w->cut == &record_month && OidIsValid(relid_of(w, "link")))
			drop_links(w, part);
		atp_run(psprintf("DROP TABLE %s", name), ATP_NO_ARGS);
		say(w, psprintf("dropped %s", name));
	}
	atp_result_free(result);
}

/* What is dropped would be fetched again, and said to be missing. */
static void
check_no_backfill(Work *w)
{
	AtpResult	result = atp_query("SELECT name AS v FROM atproto.subscription WHERE target = $1 AND backfill <> 'none' ORDER BY name",
								   ATP_ARGS(atp_text_arg(w->schema)));

	if (result.n > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("months of records cannot be dropped, since subscription \"%s\" fetches repositories",
						atp_get_text(atp_result_row(result, 0), "v")),
				 errdetail("It would fetch the records again."),
				 errhint("Set its backfill to 'none', or drop only events (keep_events).")));
	atp_result_free(result);
}

/* ------------------------------------------------------------------------
 * The function
 * ------------------------------------------------------------------------
 */

/* How the table is cut already; NULL: not at all. */
static char *
present_key(Work *w)
{
	Oid			relid = relid_of(w, w->cut->table);

	if (get_rel_relkind(relid) != RELKIND_PARTITIONED_TABLE)
		return NULL;
	return ask(psprintf("SELECT pg_get_partkeydef(%u) AS v", relid));
}

/*
 * Whoever else comes waits from now on: no lock is asked for after hours of copying that somebody
 * has by then, who waits for one of these.  So the views that will be replaced come before the table,
 * as for those who read them; and the table link before record, as in rebuild_links().
 */
static void
lock(Work *w, const Cut *cut, bool links)
{
	AtpCaller	caller;

	w->cut = cut;
	caller = atp_owner_begin(atp_owner_of_table(w->schema, w->cut->table));
	if (links && OidIsValid(relid_of(w, "link")))
		atp_run(atp_expand_sql("LOCK TABLE #.link IN ROW EXCLUSIVE MODE", w->schema), ATP_NO_ARGS);
	if (present_key(w) == NULL)
		atp_swap_lock_views(relid_of(w, cut->table));
	atp_run(psprintf("LOCK TABLE %s IN ACCESS EXCLUSIVE MODE", quote_qualified_identifier(w->schema, cut->table)), ATP_NO_ARGS);
	atp_owner_end(caller);
}

static void
partition(Work *w, const Cut *cut, int ahead, char **collections, int n, char *keep)
{
	AtpCaller	caller;
	AtpSwap    *swap = NULL;
	char	   *key;

	w->cut = cut;
	caller = atp_owner_begin(atp_owner_of_table(w->schema, w->cut->table));
	key = present_key(w);
	w->name = quote_qualified_identifier(w->schema, w->cut->table);
	if (key != NULL && strcmp(key, w->cut->key) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s is in partitions already, by %s", w->name, key)));
	w->options = ask(psprintf("SELECT ' WITH (' || array_to_string(reloptions, ', ') || ')' AS v FROM pg_class WHERE oid = %u",
							  key == NULL ? relid_of(w, w->cut->table) : relid_of(w, psprintf("%s_rest", w->cut->table))));
	if (w->options == NULL)
		w->options = "";
	if (key == NULL)
		swap = atp_swap_begin(w->schema, w->cut->table, w->cut->key);
	make_rest(w);
	if (w->cut->column == NULL)
		make_collections(w, collections, n);
	else
		make_months(w, ahead, swap != NULL ? atp_swap_old(swap) : NULL);
	if (swap != NULL)
		say(w, psprintf("moved " UINT64_FORMAT " rows of %s", atp_swap_end(swap), w->name));
	if (keep != NULL)
		drop_months(w, keep);
	atp_owner_end(caller);
}

/* The collections, each a valid NSID. */
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
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("a collection must not be null")));
		names[i] = OidOutputFunctionCall(output, values[i]);
	}
	return names;
}

/* How long something is kept; NULL: for ever. */
static char *
keep_arg(FunctionCallInfo fcinfo, int n, const char *name)
{
	Interval	zero = {0};

	if (PG_ARGISNULL(n))
		return NULL;
	/* it would take months that are not over */
	if (DatumGetBool(DirectFunctionCall2(interval_lt, PG_GETARG_DATUM(n), IntervalPGetDatum(&zero))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be negative", name)));
	return DatumGetCString(DirectFunctionCall1(interval_out, PG_GETARG_DATUM(n)));
}

/* What is put into SQL, and compared with what PostgreSQL writes, means the same whatever the session has set. */
static void
set_formats(void)
{
	static const char *const settings[][2] = {
		{"DateStyle", "ISO"}, {"IntervalStyle", "postgres"}, {"TimeZone", "UTC"}, {"quote_all_identifiers", "off"}
	};

	for (int i = 0; i < lengthof(settings); i++)
		(void) set_config_option(settings[i][0], settings[i][1], PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

static const Cut *
cut_by(Work *w, const char *by)
{
	char	   *key;

	if (by != NULL && strcmp(by, "collection") == 0)
		return &record_collection;
	if (by != NULL && strcmp(by, "month") == 0)
		return &record_month;
	if (by != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"", "by", atp_quotable(by)),
				 errhint("It is \"collection\" or \"month\".")));
	w->cut = &record_month;
	key = present_key(w);
	if (key == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("table \"%s\" is not in partitions yet: by must be \"collection\" or \"month\"", "record")));
	return strcmp(key, record_collection.key) == 0 ? &record_collection : &record_month;
}

/* SQL: atproto.partition(target, by, collections, ahead, keep, keep_events) */
Datum
atp_partition(PG_FUNCTION_ARGS)
{
	Work		w = {.fcinfo = fcinfo};
	char	  **collections = (char **) usual;
	int			ncollections = lengthof(usual);
	char	   *keep;
	char	   *keep_events;
	const Cut  *cut;
	int			ahead;
	int			nest;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(3))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", PG_ARGISNULL(0) ? "target" : "ahead")));
	ahead = PG_GETARG_INT32(3);
	if (ahead < 0 || ahead > MONTHS_AHEAD_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("ahead must be between %d and %d", 0, MONTHS_AHEAD_MAX)));
	/* rows that the snapshot does not show would be dropped with the old table */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("partitions are made at isolation level \"read committed\" only")));
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	w.schema = NameStr(*PG_GETARG_NAME(0));
	SPI_connect();
	nest = atp_caller_begin();
	set_formats();
	keep = keep_arg(fcinfo, 4, "keep");
	keep_events = keep_arg(fcinfo, 5, "keep_events");
	cut = cut_by(&w, PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1)));
	if (!PG_ARGISNULL(2))
		collections = read_collections(PG_GETARG_ARRAYTYPE_P(2), &ncollections);
	if (!PG_ARGISNULL(2) && cut != &record_collection)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("collections are for partitions by collection")));
	if (keep != NULL && cut != &record_month)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("records are kept for a time only in partitions by month"),
				 errhint("keep_events is for the table \"record_event\".")));
	if (keep != NULL)
		check_no_backfill(&w);
	lock(&w, cut, keep != NULL);
	lock(&w, &event_month, false);
	partition(&w, cut, ahead, collections, ncollections, keep);
	partition(&w, &event_month, ahead, NULL, 0, keep_events);
	atp_caller_end(nest);
	SPI_finish();
	return (Datum) 0;
}
