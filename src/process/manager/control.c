/*
 * control.c
 *		SQL functions that control the consumer: subscribe and its siblings.
 *
 * The functions write the tables, and the processes follow the tables.  The functions run with the
 * caller's rights: a role with rights on the tables may do the same by hand, and triggers check the
 * rows (subscription_check.c).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "config/claim.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/subscription_check.h"
#include "config/target.h"
#include "core/codec/field.h"
#include "data/error.h"
#include "fmgr.h"
#include "common/injection.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "process/consumer/consumer.h"
#include "process/manager/manager.h"
#include "process/manager/served.h"
#include "common/quotable.h"
#include "source.h"
#include "storage/lmgr.h"
#include "tables/plc/plc_request.h"
#include "tables/base/gap.h"
#include "tables/base/job.h"
#include "tables/repos/held.h"
#include "tables/base/history.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"

#define CURSOR_MAX	(ATP_SEQ_LIMIT - 1)

PG_FUNCTION_INFO_V1(atp_subscribe);
PG_FUNCTION_INFO_V1(atp_unsubscribe);
PG_FUNCTION_INFO_V1(atp_pause);
PG_FUNCTION_INFO_V1(atp_resume);
PG_FUNCTION_INFO_V1(atp_set_cursor);
PG_FUNCTION_INFO_V1(atp_close_gap);

static void
no_such_subscription(text *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("subscription \"%s\" does not exist", atp_quotable(text_to_cstring(name))),
			 errhint("The view \"%s\" has the names.", "atproto.stat_subscription")));
}

/* What the server's settings lack, so that a manager serves this database. */
static const char *
lacking_settings(void)
{
	return atp_manager_is_preloaded() ? "the database to \"atproto.databases\"" :
		"\"atproto\" to \"shared_preload_libraries\" and the database to \"atproto.databases\"";
}

/*
 * In a database without a manager, start the consumer directly; the new process waits for the end of this
 * transaction before it reads the table.  Start it also when a consumer is running, because this
 * transaction's change may be about to end the running consumer.  If not, the new process finds the claim
 * taken, and ends at once.
 *
 * False: a process was running before.
 */
static bool
start_without_manager(const AtpSubscription *sub)
{
	BackgroundWorkerHandle *handle;
	bool		running = atp_is_running(sub->name);

	if (!atp_consumer_start(sub, false, GetTopTransactionId(), &handle) && !running)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no background worker slot is free for subscription \"%s\"", sub->name),
				 errhint("Increase \"%s\".", "max_worker_processes")));
	return !running;
}

/* The consumer starts at the commit.  Warn if the consumer, or the fetcher that the subscription needs, cannot start. */
static void
warn_if_not_served(const AtpSubscription *sub)
{
	const char *why = atp_why_not_served();
	int			lacking = why == NULL ? atp_worker_slots_lacking() : 0;

	if (why != NULL)
		ereport(WARNING,
				(errmsg("subscription \"%s\" cannot run yet", sub->name), errdetail("It waits: %s.", why),
				 errhint("The view \"%s\" shows its state.", "atproto.stat_subscription")));
	else if (lacking > 0)
		ereport(WARNING,
				(errmsg("subscription \"%s\" may not run: there are too few background worker slots", sub->name),
				 errdetail("\"%s\" is %d, and lacks %d. Each subscription, and the manager and the fetcher of a database, needs a slot.",
						   "max_worker_processes", max_worker_processes, lacking),
				 errhint("Increase \"%s\", and restart the server.", "max_worker_processes")));
}

/*
 * Without a fetcher no repository is fetched, no handle checked, and no DID document read, so that at level full events
 * would wait for keys for ever (V-02).
 */
static void
warn_without_fetcher(const AtpSubscription *sub)
{
	if (sub->settings.verify == ATP_VERIFY_FULL)
		ereport(WARNING,
				(errmsg("events of subscription \"%s\" will wait: nobody looks up the keys that verify them", sub->name),
				 errdetail("The fetcher runs only in databases that an atproto manager serves."),
				 errhint("Add %s, and restart the server.", lacking_settings())));
	else if (sub->settings.backfill != ATP_BACKFILL_NONE)
		ereport(WARNING,
				(errmsg("no repositories of subscription \"%s\" will be fetched", sub->name),
				 errdetail("The fetcher runs only in databases that an atproto manager serves."),
				 errhint("Add %s, and restart the server.", lacking_settings())));
}

/* SQL: atproto.resume(): have the subscription's process started. */
static void
begin_to_run(const char *name)
{
	AtpSubscription *sub = atp_subscription_get(name, CurrentMemoryContext);

	if (sub == NULL || !sub->runnable)
		return;
	if (atp_manager_number() >= 0)
		warn_if_not_served(sub);
	else if (start_without_manager(sub))
		ereport(NOTICE,
				(errmsg("subscription \"%s\" runs until the server stops", sub->name),
				 errdetail("No atproto manager serves this database."), errhint("To have it started with the server, add %s, and restart the server.", lacking_settings())));
}

/* ------------------------------------------------------------------------
 * Announcing a new subscription
 * ------------------------------------------------------------------------
 */

/* The sentence about the first event. */
static char *
where_it_begins(const AtpSubscription *sub, AtpArg cursor)
{
	if (sub->has_archive && (cursor.isnull || DatumGetInt64(cursor.value) == 0))
		return "It begins with the first row of the archive.";
	if (cursor.isnull)
		return "It begins with the next event.";
	if (DatumGetInt64(cursor.value) == 0)
		return "It begins with the oldest event that the server has.";
	return psprintf("It begins after event " INT64_FORMAT ".", DatumGetInt64(cursor.value));
}

/* The sentence about older records. */
static const char *
what_it_fetches(const AtpSubscription *sub)
{
	if (sub->has_archive)
		return " The stream follows: see the view \"atproto.history_progress\".";
	if (!sub->source->by_repo || !sub->settings.keep_records)
		return "";
	if (sub->settings.backfill != ATP_BACKFILL_NONE && sub->settings.ndids >= 0)
		return " The repositories of its accounts are fetched.";
	switch (sub->settings.backfill)
	{
		case ATP_BACKFILL_NONE:
			return " Older records are not fetched: see the option \"backfill\".";
		case ATP_BACKFILL_REPAIR:
			return " Repositories that miss events are fetched.";
		case ATP_BACKFILL_SEEN:
			return " Each repository with an event is fetched.";
		case ATP_BACKFILL_COLLECTIONS:
			return " Each repository with records of its collections is fetched.";
		case ATP_BACKFILL_NETWORK:
			return " All repositories of the network are fetched.";
	}
	return "";
}

/*
 * Does the target have repositories that a removed subscription has filled?  No event and no list brings the records that
 * its filters left out, because the repositories' revisions are known (F-03).  subscription_neighbours.c compares the
 * filters of existing subscriptions.
 */
static bool
has_former_rows(const AtpSubscription *sub)
{
	Oid			relid = get_relname_relid(atp_repo_table.name, get_namespace_oid(sub->target, false));
	AtpResult	others,
				former;
	AtpCaller	caller;

	if (!sub->source->by_repo || !sub->settings.keep_records ||
		!atp_table_is_ours(&atp_repo_table, relid) || !atp_role_may_fill(sub->owner, sub->target, sub->target_owner))
		return false;
	/* a session that has locked the table keeps nobody from subscribing */
	if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	others = atp_query("SELECT FROM atproto.subscription WHERE name <> $1 AND target = $2 AND by_repo LIMIT 1",
					   ATP_ARGS(atp_text_arg(sub->name), atp_text_arg(sub->target)));
	if (others.n > 0)
		return false;
	caller = atp_owner_begin(sub->owner);
	former = atp_query(atp_expand_sql("SELECT FROM #.repo WHERE rev IS NOT NULL LIMIT 1", sub->target), ATP_NO_ARGS);
	atp_owner_end(caller);
	return former.n > 0;
}

/* Does CALL atproto.await_backfill() tell more than that the queue is empty? */
static bool
fetches_from_the_start(const AtpSubscription *sub)
{
	return sub->settings.backfill > ATP_BACKFILL_SEEN || (sub->settings.backfill != ATP_BACKFILL_NONE && sub->settings.ndids >= 0);
}

/* Announce the new subscription in one NOTICE: the first event, the older records, and the view with the state. */
static void
announce_subscription(const AtpSubscription *sub, AtpArg cursor, bool managed)
{
	bool		former = has_former_rows(sub);
	char	   *does = psprintf("%s%s%s", where_it_begins(sub, cursor), what_it_fetches(sub),
							former ? " The schema has repositories already: what the filters of an earlier subscription left out of them stays missing." : "");
	char	   *look = psprintf("SELECT * FROM atproto.status WHERE subscription = %s;", quote_literal_cstr(sub->name));

	if (managed && fetches_from_the_start(sub))
		look = psprintf("%s shows its state, CALL atproto.await_backfill(%s); the progress of the fetches.", look, quote_literal_cstr(sub->name));
	else
		look = psprintf("%s shows its state.", look);
	if (former && sub->settings.backfill != ATP_BACKFILL_NONE)
		look = psprintf("%s SELECT atproto.resync_all(%s); fetches the repositories of the schema again.", look, quote_literal_cstr(sub->target));
	if (managed)
		ereport(NOTICE,
				(errmsg("subscription \"%s\" follows %s into schema \"%s\"", sub->name, sub->ep->scope, sub->target),
				 errdetail("%s", does), errhint("%s", look)));
	else
		ereport(NOTICE,
				(errmsg("subscription \"%s\" runs until the server stops", sub->name),
				 errdetail("No atproto manager serves this database. %s", does), errhint("To have it started with the server, add %s, and restart the server. %s", lacking_settings(), look)));
}

/* SQL: atproto.subscribe(): have the new subscription's process started, and tell the user. */
static void
begin_new(const char *name, AtpArg cursor)
{
	AtpSubscription *sub = atp_subscription_get(name, CurrentMemoryContext);
	bool		managed = atp_manager_number() >= 0;

	if (sub == NULL || !sub->runnable)
		return;
	if (!managed)
	{
		(void) start_without_manager(sub);
		warn_without_fetcher(sub);
	}
	announce_subscription(sub, cursor, managed);
	if (managed)
		warn_if_not_served(sub);
}

/*
 * An ERROR for a cursor of the wrong kind.  Positions of a stream are either sequence numbers or times: the
 * wrong kind would ask for no event, or for all.
 */
static void
check_cursor(AtpArg name, AtpArg seq)
{
	AtpSubscription *sub = atp_subscription_get(TextDatumGetCString(name.value), CurrentMemoryContext);
	int64		cursor = seq.isnull ? 0 : DatumGetInt64(seq.value);
	bool		is_time = cursor >= ATP_POSITION_TIME;

	if (cursor < 0 || cursor > CURSOR_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cursor " INT64_FORMAT " is no position of a stream", cursor),
				 errhint("0 begins with the oldest event that the server has, NULL with the next; positions are not greater than " INT64_FORMAT ".", CURSOR_MAX)));
	if (sub != NULL && sub->has_archive && is_time)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("cursor " INT64_FORMAT " is a time, and no position of an archive", cursor),
				 errhint("NULL and 0 begin with the first row of the archive, a sequence number after this row.")));
	if (sub == NULL || cursor <= 0 || (is_time ? sub->source->oldest == 0 : sub->source->rewind == 0))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("cursor " INT64_FORMAT " is no position of %s", cursor, sub->ep->stream),
			 is_time ? errdetail("Its positions are sequence numbers; this is a time.")
			 : errdetail("Its positions are times, in microseconds since 1970."),
			 errhint("0 begins with the oldest event that the server has, NULL with the next.")));
}

/*
 * M-12: the log of a directory is judged from its beginning, so a subscription without a cursor begins there.  M-14: with "dids", the
 * stream begins with its next entry, and the directory is asked for the logs of the accounts.
 */
static AtpArg
first_cursor(AtpArg name, AtpArg cursor)
{
	AtpSubscription *sub = atp_subscription_get(TextDatumGetCString(name.value), CurrentMemoryContext);

	return cursor.isnull && sub != NULL && sub->source->pages != NULL && sub->settings.ndids < 0 ? atp_int8_arg(0) : cursor;
}

/* Insert a cursor for the subscription's current endpoint, unless one exists. */
static void
make_cursor(AtpArg name, AtpArg seq)
{
	atp_run_unnamed("INSERT INTO atproto.cursor (subscription, endpoint, seq)"
					" SELECT name, endpoint, $2 FROM atproto.subscription WHERE name = $1 ON CONFLICT DO NOTHING",
					ATP_ARGS(name, seq));
}

/* M-31: a log that does not begin at its beginning lacks operations, of accounts that are stored, too: the target may have an earlier log. */
static void
note_beginning(AtpArg name, AtpArg cursor)
{
	const AtpSubscription *sub = atp_subscription_get(TextDatumGetCString(name.value), CurrentMemoryContext);

	if (sub != NULL && sub->source->pages != NULL && sub->settings.ndids < 0 && DatumGetInt64(cursor.value) > 0)
		atp_run_unnamed("INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason)"
						" SELECT name, endpoint, 0, $2 + 1, 'set_cursor' FROM atproto.subscription WHERE name = $1", ATP_ARGS(name, cursor));
}

/* Parameters of subscribe() which are columns of the table, and their argument numbers. */
static const struct
{
	const char *column;
	int			number;
	Oid			type;			/* InvalidOid: an array of our type of DIDs */
	bool		required;
}			parameters[] = {
	{"name", 0, TEXTOID, true},
	{"url", 1, TEXTOID, true},
	{"target", 3, NAMEOID, true},
	{"collections", 4, TEXTARRAYOID},
	{"dids", 5, InvalidOid},
	{"actions", 6, TEXTARRAYOID},
	{"keep_records", 7, BOOLOID, true},
	{"events", 8, TEXTOID, true},
	{"keep_raw", 9, BOOLOID, true},
	{"allow_insecure", 10, BOOLOID, true},
	{"ca_file", 11, TEXTOID},
	{"proxy", 12, TEXTOID},
	{"workers", 14, INT4OID, true},
	{"verify", 15, TEXTOID},
	{"backfill", 16, TEXTOID, true},
	{"list_source", 17, TEXTOID},
	{"handles", 18, TEXTOID, true},
	{"host_is_pds", 19, BOOLOID, true},
	{"repo_source", 20, TEXTOID},
	{"list_hosts", 21, BOOLOID, true},
	{"count_collections", 22, BOOLOID, true},
	{"links", 23, TEXTOID, true},
	{"slice", 24, TEXTOID},
	{"validate", 25, TEXTOID, true},
	{"format", 26, TEXTOID},
	{"history", 27, TEXTOID, true},
	{"archive_source", 28, TEXTOID},
	{"fetch_as", 30, TEXTOID, true},
	{"identities", 31, BOOLOID, true},
};

static void
insert_subscription(FunctionCallInfo fcinfo)
{
	const char *columns[lengthof(parameters)];
	AtpArg		values[lengthof(parameters)];

	for (int i = 0; i < lengthof(parameters); i++)
	{
		Oid			type = parameters[i].type;

		columns[i] = parameters[i].column;
		values[i] = ATP_FUNCTION_ARG(parameters[i].number, OidIsValid(type) ? type : get_array_type(atp_type("did")));
	}
	if (!atp_subscription_insert(columns, values, lengthof(parameters)))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("subscription \"%s\" already exists", text_to_cstring(PG_GETARG_TEXT_PP(0))),
				 errdetail("Names are unique in the database, whoever owns the subscription."),
				 errhint("Change its options by UPDATE atproto.subscription SET ... WHERE name = %s, or choose a different name. atproto.unsubscribe() would forget its position in the stream.",
						 quote_literal_cstr(text_to_cstring(PG_GETARG_TEXT_PP(0))))));
}

static void
check_target_schema(const char *target)
{
	const char *dot = strchr(target, '.');
	char	   *before = dot != NULL ? pnstrdup(target, dot - target) : NULL;

	if (OidIsValid(get_namespace_oid(target, true)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_SCHEMA),
			 errmsg("schema \"%s\" does not exist", target),
			 before != NULL && OidIsValid(get_namespace_oid(before, true))
			 ? errhint("\"%s\" is a schema, not a table: target => %s.", "target", quote_literal_cstr(before))
			 : errhint("CREATE SCHEMA %s, and call subscribe() again; without \"%s\" the tables are in schema \"%s\".",
					   quote_identifier(target), "target", "atproto")));
}

/* SQL: atproto.subscribe(name, url, cursor, target, ...): see control.sql */
Datum
atp_subscribe(PG_FUNCTION_ARGS)
{
	AtpArg		name = ATP_FUNCTION_ARG(0, TEXTOID);
	AtpArg		headers = ATP_FUNCTION_ARG(13, JSONBOID);
	AtpArg		cursor;
	AtpArg		token = ATP_FUNCTION_ARG(29, TEXTOID);

	atp_require_utf8();
	for (int i = 0; i < lengthof(parameters); i++)
		if (parameters[i].required && PG_ARGISNULL(parameters[i].number))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("%s must not be null", parameters[i].column),
					 parameters[i].number == 1 ? errhint("Call atproto.subscribe('name', 'wss://host'). If the URL comes from atproto.resolve(), CALL atproto.await() first.")
					 : parameters[i].number == 0 ? errhint("Call atproto.subscribe('name', 'wss://host').")
					 : errhint("Leave the argument out for its default.")));
	if (!headers.isnull && !JB_ROOT_IS_OBJECT(PG_GETARG_JSONB_P(13)))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("headers must be a JSON object"),
				 errhint("It has names and values, such as %s.", "{\"Authorization\": \"Bearer ...\"}")));
	SPI_connect();
	insert_subscription(fcinfo);
	cursor = first_cursor(name, ATP_FUNCTION_ARG(2, INT8OID));
	check_cursor(name, cursor);
	make_cursor(name, cursor);
	note_beginning(name, cursor);
	if (!token.isnull)
		atp_run_unnamed("INSERT INTO atproto.request_header (subscription, name, value, archive)"
						" VALUES ($1, 'Authorization', 'Bearer ' || $2, true)", ATP_ARGS(name, token));
	if (!headers.isnull)
		atp_run_unnamed("INSERT INTO atproto.request_header (subscription, name, value)"
						" SELECT $1, key, value FROM jsonb_each_text($2)", ATP_ARGS(name, headers));
	atp_history_begin(TextDatumGetCString(name.value));
	check_target_schema(NameStr(*PG_GETARG_NAME(3)));
	atp_create_tables(NameStr(*PG_GETARG_NAME(3)), NULL);
	begin_new(text_to_cstring(PG_GETARG_TEXT_PP(0)), cursor);
	SPI_finish();
	PG_RETURN_VOID();
}

/* Run a statement on the subscription named by the first argument. */
static void
on_subscription(FunctionCallInfo fcinfo, const char *sql)
{
	if (atp_run_unnamed(sql, ATP_ARGS(ATP_FUNCTION_ARG(0, TEXTOID))) == 0)
		no_such_subscription(PG_GETARG_TEXT_PP(0));
}

/* SQL: atproto.unsubscribe(name) */
Datum
atp_unsubscribe(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));

	SPI_connect();
	/* an error about the caller's privileges comes before what the next statements lock and change */
	on_subscription(fcinfo, "SELECT FROM atproto.subscription WHERE name = $1");
	atp_jobs_lock_target(name);
	/* before any repository, in the order of retry(), which locks both, too */
	atp_jobs_await(name);
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
	begin_to_run(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	SPI_finish();
	PG_RETURN_VOID();
}

/* SQL: the position of the shards c of a stream; of a cursor that waits for the oldest event, the position before. */
#define POSITION	"COALESCE(NULLIF(min(c.seq), 0), min(c.left_at))"

/* SQL: the position before a jump.  Of an archive, and of a directory's log, 0 is a position, too: before the first row. */
#define JUMPS_FROM	"COALESCE(" POSITION ", CASE WHEN min(c.seq) = 0 AND bool_or(history = 'archive' OR endpoint LIKE '%/export/stream') THEN 0 END)"

/* SQL: atproto.set_cursor(name, seq) */
Datum
atp_set_cursor(PG_FUNCTION_ARGS)
{
	AtpArg		name = ATP_FUNCTION_ARG(0, TEXTOID);
	AtpArg		seq = ATP_FUNCTION_ARG(1, INT8OID);
	AtpSubscription *sub;
	bool		jumps;

	if (name.isnull)
		atp_argument_is_null("name");
	SPI_connect();
	/*
	 * This update notifies the consumer, through the table's trigger.  It changes no key column: the
	 * consumer's insert into cursor checks the foreign key, and would wait for the lock on a changed key.
	 */
	on_subscription(fcinfo, "UPDATE atproto.subscription SET enabled = enabled WHERE name = $1");
	check_cursor(name, seq);
	/* lock the cursors: until the commit no consumer can move them */
	atp_run_unnamed("SELECT FROM atproto.cursor WHERE subscription = $1 ORDER BY shard FOR NO KEY UPDATE",
					ATP_ARGS(name));
	atp_history_cursor_set(TextDatumGetCString(name.value), seq);
	atp_gap_cursor_set(TextDatumGetCString(name.value), seq.isnull ? -1 : DatumGetInt64(seq.value));
	/* events skipped by setting the cursor forward are a gap */
	jumps = atp_run_unnamed("INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason)"
					" SELECT subscription, endpoint, " JUMPS_FROM ", $2 + 1, 'set_cursor'"
					" FROM atproto.cursor c JOIN atproto.subscription USING (endpoint)"
					" WHERE subscription = $1 AND name = $1"
					" GROUP BY subscription, endpoint"
					" HAVING " JUMPS_FROM " >= 0 AND ($2 > " JUMPS_FROM " OR $2 IS NULL)",
					ATP_ARGS(name, seq)) > 0;
	ATP_INJECTION_POINT("gap noted");
	if (jumps && (sub = atp_subscription_get(TextDatumGetCString(name.value), CurrentMemoryContext)) != NULL)
		atp_refills_jump(sub);
	make_cursor(name, seq);
	/*
	 * Set the cursors of all shards: a worker whose cursor stayed ahead would pass over events to be read
	 * again.  If the new cursor lies between read_from and seq, reading on from it leaves out no event, so
	 * read_from stays.  Which events the server has forgotten before its oldest one is known when this one comes: left_at
	 * keeps the position until then.
	 */
	atp_run_unnamed("UPDATE atproto.cursor c SET seq = $2, last_row = NULL, passed_at = NULL, updated_at = now(),"
					" left_at = CASE WHEN $2 = 0 THEN (SELECT " POSITION " FROM atproto.cursor c WHERE c.subscription = $1 AND c.endpoint = s.endpoint) END,"
					" read_from = CASE WHEN $2 BETWEEN read_from AND seq THEN read_from ELSE $2 END FROM atproto.subscription s"
					" WHERE s.name = $1 AND c.subscription = $1 AND c.endpoint = s.endpoint",
					ATP_ARGS(name, seq));
	sub = atp_subscription_get(TextDatumGetCString(name.value), CurrentMemoryContext);
	if (sub != NULL && sub->source->pages != NULL)
		(void) atp_plc_request_again(sub->name);
	if (sub != NULL && !sub->source->by_repo && !seq.isnull)
		atp_gap_read_again(TextDatumGetCString(name.value), DatumGetInt64(seq.value));
	SPI_finish();
	PG_RETURN_VOID();
}

/* SQL: atproto.close_gap(id, how) */
Datum
atp_close_gap(PG_FUNCTION_ARGS)
{
	AtpArg		id = ATP_FUNCTION_ARG(0, INT8OID);

	if (id.isnull)
		atp_argument_is_null("id");
	SPI_connect();
	if (atp_run_unnamed("UPDATE atproto.gap SET closed_at = now(), closed_how = COALESCE(left($2, 1000), 'by ' || session_user)"
						" WHERE id = $1 AND closed_at IS NULL", ATP_ARGS(id, ATP_FUNCTION_ARG(1, TEXTOID))) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no open gap with id " INT64_FORMAT, DatumGetInt64(id.value)),
				 errhint("SELECT id FROM atproto.gap WHERE closed_at IS NULL shows the numbers.")));
	SPI_finish();
	PG_RETURN_VOID();
}
