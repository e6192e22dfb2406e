/*
 * control.c
 *		SQL control of the consumer: subscribe and its siblings, and the
 *		triggers that guard atproto.subscription.
 *
 * The functions maintain the table; the processes follow the table.  They run
 * with the caller's rights: whoever may write the table may do the same by
 * hand, and the triggers see to it that it is done right.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "config/claim.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/subscription.h"
#include "core/nsid.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "injection.h"
#include "miscadmin.h"
#include "process/consumer.h"
#include "process/manager.h"
#include "process/wake.h"
#include "source.h"
#include "tables/table.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_subscribe);
PG_FUNCTION_INFO_V1(atp_unsubscribe);
PG_FUNCTION_INFO_V1(atp_pause);
PG_FUNCTION_INFO_V1(atp_resume);
PG_FUNCTION_INFO_V1(atp_set_cursor);
PG_FUNCTION_INFO_V1(atp_subscription_check);
PG_FUNCTION_INFO_V1(atp_subscription_changed);

static void
no_such_subscription(text *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("subscription \"%s\" does not exist", text_to_cstring(name))));
}

/*
 * In a database that no manager serves, start the consumer right here: it waits
 * for this transaction's end before it looks at the table.  Also when one runs,
 * which may be about to end for what this transaction changes: the new one ends
 * at once when the old one did not.
 */
static void
start_without_manager(text *name)
{
	AtpSubscription *sub;
	BackgroundWorkerHandle *handle;
	bool		running;

	if (atp_manager_number() >= 0)
		return;
	/* the caller's snapshot does not show what has just been written */
	CommandCounterIncrement();
	PushActiveSnapshot(GetLatestSnapshot());
	sub = atp_subscription_get(text_to_cstring(name), CurrentMemoryContext);
	PopActiveSnapshot();
	if (sub == NULL || !sub->runnable)
		return;
	running = atp_is_running(sub->name);
	if (!atp_consumer_start(sub, false, GetTopTransactionId(), &handle) && !running)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no background worker slot is free for subscription \"%s\"", sub->name),
				 errhint("Increase \"%s\".", "max_worker_processes")));
	if (running)
		return;
	ereport(NOTICE,
			(errmsg("subscription \"%s\" runs until the server stops", sub->name),
			 errdetail("No atproto manager serves this database."),
			 errhint("To have it started with the server, add \"atproto\" to \"shared_preload_libraries\" and the database to \"atproto.databases\".")));
}

/*
 * True while subscribe() inserts its row.  A row that comes another way, by
 * pg_restore above all, must not start to consume before everything that
 * belongs to it is there, nor in a copy of the database that nobody watches.
 */
static bool subscribing = false;

static void
insert_subscription(Datum *args, const char *nulls)
{
	Oid			relid = atp_relation("subscription");
	Oid			types[] = {
		TEXTOID, TEXTOID, NAMEOID, TEXTARRAYOID, get_atttype(relid, get_attnum(relid, "dids")), TEXTARRAYOID, BOOLOID, TEXTOID, BOOLOID,
		BOOLOID, TEXTOID, TEXTOID, INT4OID
	};

	subscribing = true;
	PG_TRY();
	{
		if (atp_run_sql("INSERT INTO atproto.subscription (name, url, target, collections, dids, actions,"
						  " keep_records, events, keep_raw, allow_insecure, ca_file, proxy, workers)"
						  " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)"
						  " ON CONFLICT DO NOTHING",
						  lengthof(types), types, args, nulls) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("subscription \"%s\" already exists", text_to_cstring(DatumGetTextPP(args[0]))),
					 errdetail("Names are unique in the database, whoever owns the subscription.")));
	}
	PG_FINALLY();
	{
		subscribing = false;
	}
	PG_END_TRY();
}

/* SQL: atproto.subscribe(name, url, cursor, target, ...): see stream.sql */
Datum
atp_subscribe(PG_FUNCTION_ARGS)
{
	/* the parameters that are columns of the table, in insert_subscription()'s order */
	static const int columns[] = {0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14};
	static const int required[] = {0, 1, 3, 7, 8, 9, 10, 14};
	Oid			cursor_types[] = {TEXTOID, INT8OID};
	Oid			header_types[] = {TEXTOID, JSONBOID};
	Datum		args[lengthof(columns)];
	char		nulls[lengthof(columns) + 1] = "";
	Datum		pair[2];

	for (int i = 0; i < lengthof(required); i++)
		if (PG_ARGISNULL(required[i]))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("name, url, target, keep_records, events, keep_raw, allow_insecure and workers must not be null")));
	for (int i = 0; i < lengthof(columns); i++)
	{
		args[i] = PG_GETARG_DATUM(columns[i]);
		nulls[i] = PG_ARGISNULL(columns[i]) ? 'n' : ' ';
	}
	SPI_connect();
	insert_subscription(args, nulls);
	pair[0] = args[0];
	pair[1] = PG_GETARG_DATUM(2);
	atp_run_sql("INSERT INTO atproto.cursor (subscription, endpoint, seq)"
				  " SELECT name, endpoint, $2 FROM atproto.subscription WHERE name = $1",
				  2, cursor_types, pair, PG_ARGISNULL(2) ? " n" : NULL);
	if (!PG_ARGISNULL(13))
	{
		pair[1] = PG_GETARG_DATUM(13);
		atp_run_sql("INSERT INTO atproto.request_header (subscription, name, value)"
					  " SELECT $1, key, value FROM jsonb_each_text($2)", 2, header_types, pair, NULL);
	}
	atp_create_tables(NameStr(*PG_GETARG_NAME(3)));
	start_without_manager(PG_GETARG_TEXT_PP(0));
	SPI_finish();
	PG_RETURN_VOID();
}

/* A statement on the one subscription that the function's first argument names. */
static void
on_subscription(FunctionCallInfo fcinfo, const char *sql)
{
	Oid			types[] = {TEXTOID};
	Datum		args[] = {PG_GETARG_DATUM(0)};

	if (atp_run_sql(sql, 1, types, args, NULL) == 0)
		no_such_subscription(PG_GETARG_TEXT_PP(0));
}

/* SQL: atproto.unsubscribe(name) */
Datum
atp_unsubscribe(PG_FUNCTION_ARGS)
{
	SPI_connect();
	on_subscription(fcinfo, "DELETE FROM atproto.subscription WHERE name = $1");
	SPI_finish();
	PG_RETURN_VOID();
}

/* SQL: atproto.pause(name) */
Datum
atp_pause(PG_FUNCTION_ARGS)
{
	SPI_connect();
	on_subscription(fcinfo, "UPDATE atproto.subscription SET enabled = false WHERE name = $1");
	SPI_finish();
	PG_RETURN_VOID();
}

/* SQL: atproto.resume(name) */
Datum
atp_resume(PG_FUNCTION_ARGS)
{
	SPI_connect();
	on_subscription(fcinfo, "UPDATE atproto.subscription SET enabled = true, stopped = NULL,"
					" stopped_at = NULL WHERE name = $1");
	start_without_manager(PG_GETARG_TEXT_PP(0));
	SPI_finish();
	PG_RETURN_VOID();
}

/* SQL: atproto.set_cursor(name, seq) */
Datum
atp_set_cursor(PG_FUNCTION_ARGS)
{
	Oid			types[] = {TEXTOID, INT8OID};
	Datum		args[2];

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("name must not be null")));
	args[0] = PG_GETARG_DATUM(0);
	args[1] = PG_GETARG_DATUM(1);
	SPI_connect();
	/* also tells the consumer, through the table's trigger */
	on_subscription(fcinfo, "UPDATE atproto.subscription SET name = name WHERE name = $1");
	/* no consumer moves it until this is committed */
	atp_run_sql("SELECT FROM atproto.cursor WHERE subscription = $1 ORDER BY shard FOR NO KEY UPDATE",
				  1, types, args, NULL);
	/* what is jumped over is a gap like any other */
	atp_run_sql("INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason)"
				  " SELECT subscription, endpoint, min(seq), $2 + 1, 'set_cursor'"
				  " FROM atproto.cursor JOIN atproto.subscription USING (endpoint)"
				  " WHERE subscription = $1 AND name = $1"
				  " GROUP BY subscription, endpoint"
				  " HAVING min(seq) > 0 AND ($2 > min(seq) OR $2 IS NULL)",
				  2, types, args, PG_ARGISNULL(1) ? " n" : NULL);
	ATP_INJECTION_POINT("gap noted");
	atp_run_sql("INSERT INTO atproto.cursor (subscription, endpoint, seq)"
				  " SELECT name, endpoint, $2 FROM atproto.subscription WHERE name = $1"
				  " ON CONFLICT DO NOTHING",
				  2, types, args, PG_ARGISNULL(1) ? " n" : NULL);
	/* all shards, so that none passes over what another has to do again */
	atp_run_sql("UPDATE atproto.cursor c SET seq = $2, updated_at = now() FROM atproto.subscription s"
				  " WHERE s.name = $1 AND c.subscription = $1 AND c.endpoint = s.endpoint",
				  2, types, args, PG_ARGISNULL(1) ? " n" : NULL);
	SPI_finish();
	PG_RETURN_VOID();
}

/* ------------------------------------------------------------------------
 * Triggers
 * ------------------------------------------------------------------------
 */

static void
check_endpoint(const AtpEndpoint *ep, bool allow_insecure)
{
	if (!ep->tls && !ep->loopback && !allow_insecure)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the stream's connection would not be encrypted"),
				 errhint("Use wss://, or set \"allow_insecure\".")));
}

/* I-06 */
static void
check_collections(ArrayType *patterns)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;

	deconstruct_array(patterns, TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		const char *pattern = nulls[i] ? "" : TextDatumGetCString(values[i]);
		size_t		at = 0;
		AtpErr		err = atp_nsid_pattern_check(pattern, strlen(pattern), &at);

		if (err != ATP_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid collection: \"%s\"", pattern),
					 errdetail("%s (byte %zu)", atp_err_text(err), atp_byte_number(at)),
					 errhint("Use an NSID such as app.bsky.feed.post, or a pattern such as app.bsky.*.")));
	}
}

/* Columns that decide which of a commit's records a subscription takes. */
static const char *const selecting[] = {"collections", "actions", "keep_records"};

/* Did an update leave them, and the target, as they were? */
static bool
same_selection(HeapTuple a, HeapTuple b, TupleDesc desc)
{
	for (int i = 0; i <= lengthof(selecting); i++)
	{
		const char *name = i < lengthof(selecting) ? selecting[i] : "target";
		const char *x = SPI_getvalue(a, desc, SPI_fnumber(desc, name));
		const char *y = SPI_getvalue(b, desc, SPI_fnumber(desc, name));

		if (x == NULL || y == NULL ? x != y : strcmp(x, y) != 0)
			return false;
	}
	return true;
}

/*
 * A commit that one subscription has processed is old for every other one that
 * fills the same tables (F-03): what its filter left out would be missing.
 */
static void
warn_of_neighbours(HeapTuple row, TupleDesc desc)
{
	Oid			types[] = {TEXTOID, NAMEOID, TEXTARRAYOID, TEXTARRAYOID, BOOLOID};
	const char *columns[] = {"name", "target", "collections", "actions", "keep_records"};
	Datum		args[lengthof(columns)];
	char		nulls[lengthof(columns) + 1] = "";

	for (int i = 0; i < lengthof(columns); i++)
	{
		bool		isnull;

		args[i] = SPI_getbinval(row, desc, SPI_fnumber(desc, columns[i]), &isnull);
		nulls[i] = isnull ? 'n' : ' ';
	}
	SPI_connect();
	if (atp_run_sql("SELECT name FROM atproto.subscription WHERE name <> $1 AND target = $2"
					  " AND endpoint LIKE '%/xrpc/com.atproto.sync.subscribeRepos'"
					  " AND (collections, actions, keep_records) IS DISTINCT FROM ($3, $4, $5)"
					  " ORDER BY name LIMIT 1", lengthof(columns), types, args, nulls) > 0)
		ereport(WARNING,
				(errmsg("subscriptions \"%s\" and \"%s\" fill the same tables with different filters",
						SPI_getvalue(row, desc, SPI_fnumber(desc, "name")),
						SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1)),
				 errdetail("A commit that one of them has processed is ignored when it comes through the other, with all that the filter left out."),
				 errhint("Give one of them a target of its own.")));
	SPI_finish();
}

static void
check_proxy(HeapTuple row, TupleDesc desc)
{
	char	   *proxy = SPI_getvalue(row, desc, SPI_fnumber(desc, "proxy"));

	if (proxy != NULL)
		atp_proxy_check(proxy);
}

/* Who names a file makes the server read it.  old: the row before an update, or NULL. */
static void
check_ca_file(HeapTuple old, HeapTuple row, TupleDesc desc)
{
	char	   *ca_file = SPI_getvalue(row, desc, SPI_fnumber(desc, "ca_file"));
	char	   *before = old ? SPI_getvalue(old, desc, SPI_fnumber(desc, "ca_file")) : NULL;

	if (ca_file == NULL || (before != NULL && strcmp(ca_file, before) == 0))
		return;
	if (!has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to set \"%s\"", "ca_file"),
				 errdetail("Only roles with privileges of the role \"%s\" may name a file of the server.",
						   "pg_read_server_files")));
}

/* SQL: atproto.subscription_check(), BEFORE INSERT OR UPDATE, for each row */
Datum
atp_subscription_check(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TupleDesc	desc;
	HeapTuple	row;
	AtpEndpoint *ep;
	char	   *url;
	int			columns[3];
	Datum		values[3];
	bool		nulls[3] = {false};
	int			n = 1;
	Datum		value;
	bool		isnull;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_BEFORE(trigger->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired before each row", "subscription_check")));
	desc = RelationGetDescr(trigger->tg_relation);
	row = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_newtuple : trigger->tg_trigtuple;

	value = SPI_getbinval(row, desc, SPI_fnumber(desc, "owner"), &isnull);
	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("owner must not be null")));
	/* what is replicated is stopped; resume() will look */
	if (SessionReplicationRole != SESSION_REPLICATION_ROLE_REPLICA)
		atp_owner_check(DatumGetObjectId(value));
	url = SPI_getvalue(row, desc, SPI_fnumber(desc, "url"));
	if (url == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("url must not be null")));
	ep = atp_endpoint_parse(url);
	value = SPI_getbinval(row, desc, SPI_fnumber(desc, "allow_insecure"), &isnull);
	check_endpoint(ep, !isnull && DatumGetBool(value));
	check_proxy(row, desc);
	check_ca_file(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) ? trigger->tg_trigtuple : NULL, row, desc);
	value = SPI_getbinval(row, desc, SPI_fnumber(desc, "collections"), &isnull);
	if (!isnull)
		check_collections(DatumGetArrayTypeP(value));

	value = SPI_getbinval(row, desc, SPI_fnumber(desc, "workers"), &isnull);
	if (!isnull && DatumGetInt32(value) > 1 && !atp_source_of(ep->nsid)->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscriptions to %s cannot have several workers", ep->nsid),
				 errdetail("Workers share a stream by its repositories.")));

	if (atp_source_of(ep->nsid)->by_repo &&
		(TRIGGER_FIRED_BY_INSERT(trigger->tg_event) || !same_selection(trigger->tg_trigtuple, row, desc)))
		warn_of_neighbours(row, desc);

	columns[0] = SPI_fnumber(desc, "endpoint");
	values[0] = CStringGetTextDatum(ep->scope);
	if (TRIGGER_FIRED_BY_INSERT(trigger->tg_event) && !subscribing)
	{
		columns[n] = SPI_fnumber(desc, "stopped");
		values[n++] = CStringGetTextDatum("restored, or inserted by hand; atproto.resume() starts it");
	}
	else if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event) &&
			 SessionReplicationRole == SESSION_REPLICATION_ROLE_REPLICA)
	{
		/* nor does the publisher's resume() start it here */
		columns[1] = SPI_fnumber(desc, "stopped");
		columns[2] = SPI_fnumber(desc, "stopped_at");
		for (n = 1; n < 3; n++)
			values[n] = SPI_getbinval(trigger->tg_trigtuple, desc, columns[n], &nulls[n]);
	}
	row = heap_modify_tuple_by_cols(row, desc, n, columns, values, nulls);
	return PointerGetDatum(row);
}

/* SQL: atproto.subscription_changed(), AFTER anything, for each statement */
Datum
atp_subscription_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired after the statement", "subscription_changed")));
	CacheInvalidateRelcache(trigger->tg_relation);
	atp_wake_at_commit();
	return PointerGetDatum(NULL);
}
