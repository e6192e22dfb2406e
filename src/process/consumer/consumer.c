/*
 * consumer.c
 *		The consumer, one process for each subscription: how the process begins and
 *		ends.  The other files of the consumer are named in consumer_private.h.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/claim.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "config/watch.h"
#include "common/injection.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "net/dial.h"
#include "net/wait.h"
#include "pgstat.h"
#include "process/consumer/consumer_private.h"
#include "process/status/crash_backoff.h"
#include "process/status/process.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "stream/rev_cache.h"
#include "tables/base/distributed.h"
#include "tables/base/logged.h"
#include "tables/base/node_mark.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* Nodes of Citus are looked at so often: other processes write there, too, and a stream may be silent. */
#define NODES_MS	60000

int			atp_batch_delay_ms;
int			atp_ping_interval_ms;
int			atp_idle_timeout_ms;

/* Arguments of a new consumer; must fit into bgw_extra. */
typedef struct StartInfo
{
	Oid			database;
	Oid			owner;
	TransactionId wait_for;
	bool		managed;
	char		id[ATP_ID_LEN + 1];
	char		name[ATP_NAME_MAX + 1];
} StartInfo;

void
atp_consumer_note(Consumer *c, AtpLogged what, const char *detail)
{
	atp_log_note(c->log, what, detail, c->cursor);
}

void
atp_consumer_note_end(Consumer *c, AtpLogged what, const char *detail)
{
	if (c->log != NULL && !c->log_ended)
		atp_consumer_note(c, what, detail);
	c->log_ended = true;
}

/*
 * Should this consumer, which is about to end, run again?  A session may have called resume() while the
 * consumer still held its claim: the process that the session started found the claim taken, and ended.
 * After the release of the claim this cannot happen any more, so look at the row once more then.
 */
static bool
wanted_again(Consumer *c)
{
	AtpSubscription *sub = NULL;

	if (!atp_claim_release())
		return false;
	atp_begin("looking whether to end");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		sub = atp_subscription_get(c->name, TopMemoryContext);
	atp_commit();
	return sub != NULL && sub->runnable;
}

/* End the connection and the workers, and say why. */
static void
prepare_to_leave(Consumer *c, const char *why)
{
	atp_consumer_is_leaving(c);
	atp_conn_free(c->conn);
	c->conn = NULL;
	if (c->shards != NULL)
		atp_shards_end(c->shards);
	c->shards = NULL;
	atp_consumer_note_end(c, ATP_LOGGED_ENDED, why);
	if (c->log != NULL)
		atp_log_write(c->log);
	ATP_INJECTION_POINT("leaving");
	ereport(LOG, (errmsg("atproto consumer of subscription \"%s\" ends: %s", c->name, why)));
}

/*
 * A manager restarts the consumer if the subscription should run.  Without a manager the postmaster restarts
 * the process unless its exit code is 0.
 */
void
atp_consumer_leave(Consumer *c, const char *why, bool again)
{
	prepare_to_leave(c, why);
	if (c->managed)
		proc_exit(0);
	proc_exit(again || wanted_again(c) ? 1 : 0);
}

/*
 * The postmaster would restart this process for the former owner or subscription, for ever.  So without a manager this process
 * starts the consumer for the new one, and gives the claim back first, or the new consumer would find the claim taken.
 */
void
atp_consumer_leave_to(Consumer *c, const AtpSubscription *sub, const char *why)
{
	BackgroundWorkerHandle *handle;

	prepare_to_leave(c, why);
	if (c->managed)
		proc_exit(0);
	(void) atp_claim_release();
	/* no process slot is free: the postmaster restarts this process, which tries again */
	proc_exit(atp_consumer_start(sub, false, InvalidTransactionId, &handle) ? 0 : 1);
}

void
atp_consumer_stop(Consumer *c, const char *reason)
{
	atp_consumer_is_stopping(c);
	ATP_INJECTION_POINT("stopping");
	atp_begin("looking at the tables");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		atp_distrust_unlogged(c->sub->target);
	atp_commit();
	/*
	 * if the row was changed meanwhile, the change may have removed the cause, so the consumer restarts
	 * instead of stopping the subscription
	 */
	if (!atp_process_stop_subscription(c->sub, reason))
		atp_consumer_leave(c, "its settings changed", true);
	atp_status_error(ATP_DROP_NONE, reason);
	atp_consumer_note_end(c, ATP_LOGGED_STOPPED, reason);
	atp_consumer_leave(c, reason, false);
}

/*
 * When a consumer dies, its workers still finish the batches they have.  Until then they move their cursors,
 * so a new consumer waits.
 */
static void
wait_for_workers(Consumer *c)
{
	MemoryContext old = MemoryContextSwitchTo(c->loop_cxt);

	while (atp_has_workers(c->name))
	{
		pgstat_report_activity(STATE_IDLE, "waiting for the workers before");
		atp_wait(NULL, 0, ATP_LOOK_MS);
		MemoryContextReset(c->loop_cxt);
	}
	MemoryContextSwitchTo(old);
}

/*
 * Delay after a crash of the server: otherwise a crash that recurs at once would leave no time for an
 * operator to log in and fix its cause.
 */
static void
wait_after_crash(Consumer *c)
{
	int			crashes = atp_crash_begin(c->name);
	int			delay = atp_crash_delay(crashes);
	long		left;

	if (crashes == 0)
	{
		atp_crash_run();
		return;
	}
	atp_consumer_note(c, ATP_LOGGED_FAILED, "the server crashed while this ran");
	atp_status_error(ATP_DROP_NONE, psprintf("the server crashed while this ran: %d times in a row, waiting for %d seconds",
											 crashes, delay / 1000));
	atp_consumer_is_waiting(c, delay);
	pgstat_report_activity(STATE_IDLE, "waiting after a crash");
	while ((left = atp_remaining(atp_now(), c->waiting_until, 0)) > 0)
		atp_wait(NULL, 0, left);
	atp_crash_run();
	atp_consumer_is_starting(c);
}

/* Create the log, and note the error that ended the process before this one, which could not write any more. */
static void
begin_log(Consumer *c)
{
	TimestampTz at;
	char	   *error = atp_status_failure(c->id, c->name, &at);

	c->cursor = -1;
	c->log = atp_log_create(c->name);
	if (error != NULL)
		atp_log_note_at(c->log, ATP_LOGGED_FAILED, error, -1, at);
}

/*
 * Stop the subscription if rows would be lost: the tables are distributed and Citus is not loaded (this
 * cannot change while the server runs), or the tables are unlogged, and a crash empties them.
 */
static void
stop_where_rows_are_lost(Consumer *c)
{
	char	   *fault;

	atp_begin("looking at the tables");
	fault = atp_distributed_fault(c->sub->target);
	if (fault == NULL)
		fault = atp_logged_fault(c->sub->target);
	if (fault != NULL)
		fault = MemoryContextStrdup(TopMemoryContext, fault);
	atp_commit();
	if (fault != NULL)
		atp_consumer_stop(c, fault);
}

/* Citus' nodes: did all come back with what they had? */
void
atp_consumer_look_at_nodes(Consumer *c)
{
	char	   *found = NULL;

	atp_begin("looking at the nodes of Citus");
	c->has_nodes = atp_extension_lock() == ATP_EXTENSION_READY && atp_has_citus();
	/* asks each time whether the target has marks: distribute() may have made them while this process ran */
	if (c->has_nodes)
		found = atp_nodes_repair(c->sub);
	if (found != NULL)
		found = MemoryContextStrdup(TopMemoryContext, found);
	atp_commit();
	c->nodes_look = atp_now();
	if (found == NULL)
		return;
	atp_status_error(ATP_DROP_NONE, found);
	atp_consumer_note(c, ATP_LOGGED_NODE, found);
	pfree(found);
}

long
atp_consumer_nodes_look_due(const Consumer *c)
{
	return c->has_nodes ? atp_remaining(atp_now(), c->nodes_look, NODES_MS) : -1;
}

void
atp_consumer_main(Datum arg)
{
	StartInfo	start;
	Consumer	c = {0};

	memcpy(&start, MyBgworkerEntry->bgw_extra, sizeof(start));
	atp_process_begin();
	atp_status_report_end(start.database, start.owner, start.id, start.name);
	if (!start.managed)
		atp_process_ends_with_database();
	BackgroundWorkerInitializeConnectionByOid(start.database, start.owner, 0);
	atp_process_connected(psprintf("atproto %s", start.name));
	c.name = start.name;
	c.id = start.id;
	c.managed = start.managed;

	if (TransactionIdIsValid(start.wait_for))
	{
		StartTransactionCommand();
		XactLockTableWait(start.wait_for, NULL, NULL, XLTW_None);
		CommitTransactionCommand();
	}
	if (!atp_claim(c.name))
		atp_consumer_leave(&c, "another process consumes it", false);
	/* at once, so that the views have a state for a subscription whose claim is taken */
	atp_status_attach(c.id, c.name);
	/*
	 * Entries of commits processed earlier must not count: a user may have emptied the tables and set the
	 * cursor back, to have these commits processed again.
	 */
	atp_rev_cache_forget();
	c.loop_cxt = AllocSetContextCreate(TopMemoryContext, "atproto loop", ALLOCSET_DEFAULT_SIZES);
	wait_for_workers(&c);
	begin_log(&c);
	wait_after_crash(&c);
	atp_consumer_note(&c, ATP_LOGGED_STARTED, NULL);
	c.conn_cxt = AllocSetContextCreate(TopMemoryContext, "atproto connection", ALLOCSET_DEFAULT_SIZES);
	c.batch = atp_batch_create(TopMemoryContext);
	c.drop_seq = c.too_old = c.was_too_old = -1;
	c.purge_due = true;			/* a previous process may have left records to purge */
	c.audit_failed = true;		/* ... or an error of the archive */
	(void) atp_config_changed();
	atp_consumer_note_owner();
	atp_consumer_read_settings(&c);
	if (GetDatabaseEncoding() != PG_UTF8)
		atp_consumer_stop(&c, "the database's encoding is not UTF8");
	stop_where_rows_are_lost(&c);
	atp_consumer_look_at_nodes(&c);
	atp_dial_init();
	atp_consumer_loop(&c);
}

bool
atp_consumer_start(const AtpSubscription *sub, bool managed, TransactionId wait_for,
				   BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker;
	StartInfo	start = {.database = MyDatabaseId, .owner = sub->owner, .wait_for = wait_for,
	.managed = managed};

	StaticAssertStmt(sizeof(StartInfo) <= BGW_EXTRALEN, "start information must fit into bgw_extra");
	strlcpy(start.id, sub->id, sizeof(start.id));
	strlcpy(start.name, sub->name, sizeof(start.name));
	atp_process_describe(&worker, "atproto consumer", sub->name, "atp_consumer_main");
	if (!managed)
		worker.bgw_restart_time = 5;
	worker.bgw_notify_pid = managed ? MyProcPid : 0;
	memcpy(worker.bgw_extra, &start, sizeof(start));
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

void
atp_consumer_init(void)
{
	DefineCustomIntVariable("atproto.batch_delay",
							"Longest time that an event waits for others to be committed with.",
							NULL, &atp_batch_delay_ms, 50, 0, 60000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.ping_interval",
							"Silence after which the consumer pings the server.",
							"Zero: never.", &atp_ping_interval_ms, 30000, 0, 86400000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.idle_timeout",
							"Silence after which the consumer gives the connection up.",
							"Answers to pings count. Zero: never.", &atp_idle_timeout_ms, 90000, 0, 86400000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
}
