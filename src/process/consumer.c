/*
 * consumer.c
 *		The consumer: one process for each subscription.
 *
 * One loop: serve interrupts, follow the subscription's row, move the
 * connection on, decode what has come, apply it when it is time, wait.  Every
 * transaction begins and ends inside atp_apply() or one of the small functions
 * below; none is open when the loop comes to its wait.
 *
 * A subscription with several workers does the same, but that its batches go
 * to them (shards.h); the cursor follows when they have committed.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "clock.h"
#include "compat.h"
#include "config/claim.h"
#include "config/cursor.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/transaction.h"
#include "config/watch.h"
#include "executor/spi.h"
#include "injection.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "net/connection.h"
#include "net/dial.h"
#include "net/retry.h"
#include "net/wait.h"
#include "pgstat.h"
#include "process/consumer.h"
#include "process/crash.h"
#include "process/process.h"
#include "process/shards.h"
#include "process/status.h"
#include "source.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "stream/batch.h"
#include "stream/decode.h"
#include "tables/apply.h"
#include "tables/statements.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/memutils.h"

int			atp_batch_delay_ms;
int			atp_ping_interval_ms;
int			atp_idle_timeout_ms;

#define ANSWER_TIMEOUT_MS	30000	/* from the first byte sent to the open stream */
#define REPEATED_DROPS_MAX	5	/* at one place of the stream, then stop (E-48) */
#define STATS_DELAY_MS		1000
#define CLOCK_WAIT_MS		1000	/* for events that tell whose clock is wrong; doubled with each failure ... */
#define CLOCK_WAIT_DOUBLINGS	6	/* ... so often */
#define SETTLE_LOOK_MS		1000	/* a worker that never started tells nobody */

/* What a new process is told; must fit into bgw_extra. */
typedef struct StartInfo
{
	Oid			database;
	Oid			owner;
	TransactionId wait_for;
	bool		managed;
	char		name[ATP_NAME_MAX + 1];
} StartInfo;

typedef struct Consumer
{
	const char *name;
	bool		managed;		/* by a manager, which restarts it */
	MemoryContext loop_cxt;		/* reset with each round of the loop */
	MemoryContext cxt;			/* the subscription, and whatever lives as long */
	MemoryContext conn_cxt;		/* reset with each connection */
	AtpSubscription *sub;
	AtpBatch   *batch;
	const AtpSource *source;	/* what kind of stream it is */
	AtpStatements *statements;
	AtpDecoder *decoder;
	AtpShards  *shards;		/* NULL: this process applies what it receives */
	int64		cursor;			/* committed; -1: none */
	int			layout;			/* of the cursor: see AtpCursor */
	int64		handed;			/* given to the workers; the cursor without them */
	int64		level;			/* here all shards are at one position, so their number can change; -1: need not */
	AtpPosition position;		/* taken into the batch */
	char	   *activity;		/* what pg_stat_activity shows while streaming */

	AtpConn    *conn;			/* NULL between connections */
	uint64		counted_bytes;	/* of the connection, already in the statistics */
	AtpTime		last_data;		/* or when the present state began */
	AtpTime		last_ping;
	AtpTime		listened;		/* the end of the last wait for data */
	AtpTime		retry_at;
	const char *undecided;		/* a message waits for what comes after it (ATP_DROP_CLOCK); NULL: none does */
	AtpTime		undecided_since;

	int			failures;		/* since the last progress */
	int64		drop_seq;		/* where the stream was dropped for its contents */
	int			drops_there;
	bool		stats_pending;
	bool		purging;		/* records of deleted accounts may be left */
} Consumer;

/* ------------------------------------------------------------------------
 * Ends
 * ------------------------------------------------------------------------
 */

/*
 * Who resumed it while it was about to end has found that it runs, and started
 * a process that found so, too.  That is over when the claim is given up: look
 * once more then.
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

/*
 * End the process.  A manager starts it again when its subscription says so;
 * without one, the postmaster does unless the exit code is 0.
 */
pg_noreturn static void
leave(Consumer *c, const char *why, bool again)
{
	atp_conn_free(c->conn);
	c->conn = NULL;
	if (c->shards != NULL)
		atp_shards_end(c->shards);
	c->shards = NULL;
	ATP_INJECTION_POINT("leaving");
	ereport(LOG, (errmsg("atproto consumer of subscription \"%s\" ends: %s", c->name, why)));
	if (c->managed)
		proc_exit(0);
	proc_exit(again || wanted_again(c) ? 1 : 0);
}

/* The operator has to decide. */
pg_noreturn static void
stop(Consumer *c, const char *reason)
{
	ATP_INJECTION_POINT("stopping");
	/* what was changed meanwhile may be the remedy */
	if (!atp_process_stop_subscription(c->sub, reason))
		leave(c, "its settings changed", true);
	atp_status_error(ATP_DROP_NONE, reason);
	leave(c, reason, false);
}

/* ------------------------------------------------------------------------
 * The subscription's row
 * ------------------------------------------------------------------------
 */

/* From now on this row holds, for what is decoded after the cursor. */
static void
take_settings(Consumer *c, AtpSubscription *sub, MemoryContext cxt)
{
	if (c->sub == NULL)
	{
		c->statements = atp_statements_create(sub->target);
		c->source = atp_source_of(sub->ep->nsid);
		c->decoder = atp_decoder_create(TopMemoryContext, c->source->format);
	}
	else
	{
		if (sub->version != c->sub->version)
			ereport(LOG,
					(errmsg("settings of atproto subscription \"%s\" changed after event " INT64_FORMAT,
							c->name, c->cursor)));
		MemoryContextDelete(c->cxt);
	}
	c->sub = sub;
	c->cxt = cxt;
	c->activity = MemoryContextStrdup(cxt, psprintf("streaming %s", sub->ep->scope));
	atp_decoder_settings(c->decoder, &sub->settings);
}

/* The workers read the settings when they start: new ones for new settings. */
static void
start_workers(Consumer *c, int n)
{
	if (c->shards != NULL)
		atp_shards_end(c->shards);
	c->shards = NULL;
	if (n == 1)
		return;
	c->purging = false;			/* they do it */
	c->shards = atp_shards_start(c->sub, n, c->layout);
	atp_batch_lend(c->batch, NULL, 0);
	if (c->shards == NULL)
	{
		ereport(LOG,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("no background worker slot is free for a worker of atproto subscription \"%s\"", c->name),
				 errhint("Increase \"%s\".", "max_worker_processes")));
		atp_status_error(ATP_DROP_NONE, "no background worker slot is free for its workers");
		leave(c, "its workers cannot be started", true);
	}
}

static void
read_subscription(Consumer *c)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto subscription",
											  ALLOCSET_SMALL_SIZES);
	AtpSubscription *sub = NULL;
	AtpCursor	cursor = {0};
	AtpExtension extension;
	bool		changed = false;

	atp_begin("reading the subscription");
	extension = atp_extension_lock();
	if (extension == ATP_EXTENSION_READY)
		sub = atp_subscription_get(c->name, cxt);
	if (sub != NULL && sub->runnable)
	{
		cursor = atp_cursor_get(c->name, sub->ep->scope);
		ATP_INJECTION_POINT("cursor read");
		changed = c->sub == NULL || sub->version != c->sub->version;
		if (changed && cursor.shards != sub->workers)
			cursor = atp_cursor_share(c->name, sub->ep->scope, sub->workers);
		if (changed)
			atp_cursor_settings(c->name, sub->ep->scope);
		/* what came by pg_upgrade, for instance, is not noted yet */
		if (changed && OidIsValid(sub->owner))
			atp_owner_note(sub->owner);
	}
	atp_commit();

	if (extension == ATP_EXTENSION_ABSENT)
		leave(c, "the extension was dropped", false);
	if (extension == ATP_EXTENSION_OTHER_VERSION)
		leave(c, "the extension has another version than the library", false);
	if (sub == NULL)
		leave(c, "it was removed", false);
	if (!sub->runnable)
		leave(c, "it was paused", false);
	if (sub->owner != GetUserId())
		leave(c, "its owner changed", true);
	if (c->sub != NULL && (!atp_subscription_same_stream(sub, c->sub) || cursor.lowest != c->cursor ||
						   cursor.layout != c->layout))
		leave(c, "its settings or its cursor changed", true);
	take_settings(c, sub, cxt);
	c->cursor = c->handed = cursor.lowest;
	c->layout = cursor.layout;
	c->level = cursor.shards != sub->workers ? cursor.highest : -1;
	if (changed)
		start_workers(c, cursor.shards);
}

/* ------------------------------------------------------------------------
 * Connection
 * ------------------------------------------------------------------------
 */
static bool
want_message(void *arg)
{
	return !atp_batch_full(((Consumer *) arg)->batch);
}

static bool
take_message(void *arg, const uint8_t *data, size_t len)
{
	return atp_batch_add(((Consumer *) arg)->batch, data, len);
}

/* What pg_stat_activity shows while no transaction is open. */
static void
report_idle(Consumer *c)
{
	pgstat_report_activity(STATE_IDLE, c->conn == NULL ? "waiting to reconnect"
						   : atp_conn_state(c->conn) == ATP_CONN_OPEN ? c->activity : "connecting");
}

/* For the log.  Without a cursor the stream begins with its next event. */
static const char *
cursor_text(const Consumer *c)
{
	return c->cursor < 0 ? "none" : psprintf(INT64_FORMAT, c->cursor);
}

/* Files are read with the server's rights: its owner must be allowed to, still. */
static void
check_ca_file(Consumer *c)
{
	bool		allowed;

	if (c->sub->ca_file == NULL)
		return;
	atp_begin("checking the rights of the subscription's owner");
	allowed = has_privs_of_role(GetUserId(), ROLE_PG_READ_SERVER_FILES);
	atp_commit();
	if (!allowed)
		stop(c, "its owner is not allowed to read files of the server (pg_read_server_files), so there can be no ca_file");
}

static void
connect_stream(Consumer *c)
{
	AtpReceiver receiver = {.want = want_message, .message = take_message, .arg = c};
	AtpConnOptions options;
	MemoryContext old;

	check_ca_file(c);
	old = MemoryContextSwitchTo(c->conn_cxt);
	/* what is decoded would be decoded once more */
	Assert(c->batch->nmessages == 0 && (c->shards == NULL || c->handed == c->cursor));
	c->position = atp_position_after(c->cursor);
	options = (AtpConnOptions) {
		.target = atp_endpoint_target(c->sub->ep, c->cursor),
		.headers = c->sub->headers,
		.ca_file = c->sub->ca_file,
		.proxy = c->sub->proxy,
	};
	c->conn = atp_conn_start(c->sub->ep, &options, &receiver);
	MemoryContextSwitchTo(old);
	if (c->conn == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	c->counted_bytes = 0;
	c->last_data = c->last_ping = c->listened = atp_now();
	atp_status_state(ATP_STATE_CONNECTING);
	report_idle(c);
}

static void settle(Consumer *c);

/*
 * Give the connection up, and say when to try again.  What it brought is kept:
 * the next one begins after it.  For faults of the stream's contents, which a
 * new connection will meet again, the place is remembered, and too many at one
 * place stop the subscription.  why must outlive the batch.
 */
static void
drop_stream(Consumer *c, AtpDrop drop, const char *why)
{
	int			delay;
	bool		contents = atp_drop_is_about_contents(drop, atp_conn_close_code(c->conn));
	char	   *reason;

	c->undecided = NULL;
	settle(c);
	delay = atp_retry_delay(c->failures++);
	reason = MemoryContextStrdup(c->batch->cxt, why);
	if (drop == ATP_DROP_HTTP)
	{
		int			least = atp_http_delay(atp_conn_answer(c->conn));

		if (least < 0)
			stop(c, reason);
		delay = Max(delay, least);
	}
	atp_status_error(drop, reason);
	atp_status_state(ATP_STATE_WAITING);
	ereport(LOG, (errmsg("atproto subscription \"%s\" disconnected from %s: %s",
						 c->name, c->sub->ep->scope, reason),
				  errdetail("Last event %s; trying again in %d ms.", cursor_text(c), delay)));
	atp_conn_close(c->conn, drop == ATP_DROP_FRAME ? 1007 : 1000);
	atp_conn_free(c->conn);
	c->conn = NULL;
	MemoryContextReset(c->conn_cxt);
	c->retry_at = atp_now() + (int64) delay * 1000;
	report_idle(c);

	if (contents)
	{
		c->drops_there = c->drop_seq == c->cursor ? c->drops_there + 1 : 1;
		c->drop_seq = c->cursor;
		if (c->drops_there >= REPEATED_DROPS_MAX)
			stop(c, psprintf("dropped %d times after event " INT64_FORMAT ": %s",
							 c->drops_there, c->cursor, reason));
	}
}

/* ------------------------------------------------------------------------
 * Events
 * ------------------------------------------------------------------------
 */

/* A stream without position begins here: no shard may find another place. */
static void
begin_shards(Consumer *c, int64 seq)
{
	atp_begin("beginning the stream");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		atp_cursor_begin(c->name, c->sub->ep->scope, seq);
	atp_commit();
	report_idle(c);
	c->cursor = c->handed = seq;
}

/* What was decoded goes to the workers.  broken: with the message that the stream is dropped for. */
static void
hand_batch(Consumer *c, bool broken)
{
	AtpBatch   *batch = c->batch;

	if (c->handed < 0 && batch->nevents > 0)
		begin_shards(c, batch->events[0].seq - 1);
	atp_status_skips(batch->skips);
	if (batch->nevents > 0 || broken)
	{
		atp_shards_hand(c->shards, batch, c->handed, c->position.last, broken);
		c->handed = c->position.last;
	}
	atp_batch_reset(batch);
}

static void
note_progress(Consumer *c)
{
	c->failures = 0;
	atp_crash_progress();
}

/* What the workers have committed. */
static void
collect(Consumer *c)
{
	if (atp_shards_collect(c->shards, &c->cursor))
		note_progress(c);
	if (atp_shards_failed(c->shards))
		leave(c, "one of its workers ended", true);
}

/* Everything decoded so far into the tables. */
static void
apply_batch(Consumer *c)
{
	AtpBatch   *batch = c->batch;
	AtpStreamProgress progress;
	AtpApplied	result;
	const char *reason;

	if (batch->nmessages == 0)
		return;
	if (c->shards != NULL)
	{
		hand_batch(c, false);
		return;
	}
	if (batch->nevents == 0 && batch->letters == NIL)
	{
		/* nothing but messages that do not count */
		atp_status_skips(batch->skips);
		atp_batch_reset(batch);
		return;
	}
	progress = atp_stream_progress(c->sub, 0, c->layout, c->cursor, c->position.last);
	result = atp_apply(c->sub, c->source->sink, c->statements, batch, &progress.base, &reason);
	c->cursor = progress.position;
	switch (result)
	{
		case ATP_APPLIED:
			break;
		case ATP_APPLY_GONE:
			leave(c, "the extension was dropped", false);
			break;
		case ATP_APPLY_CURSOR_MOVED:
			leave(c, "its cursor was set", true);
			break;
		case ATP_APPLY_STOP:
			stop(c, reason);
			break;
	}
	atp_status_batch(batch->skips);
	report_idle(c);
	c->stats_pending = true;
	if (batch->nevents > 0)
		note_progress(c);
	c->purging |= batch->purge;
	atp_batch_reset(batch);
}

/* The same, and it is there when this returns: the cursor is what was decoded. */
static void
settle(Consumer *c)
{
	apply_batch(c);
	while (c->shards != NULL && !atp_shards_idle(c->shards))
	{
		collect(c);
		if (!atp_shards_idle(c->shards))
			atp_wait(NULL, 0, SETTLE_LOOK_MS);
	}
}

/* How long events that tell whose clock is wrong are waited for. */
static int
clock_wait_ms(const Consumer *c)
{
	return CLOCK_WAIT_MS << Min(c->failures, CLOCK_WAIT_DOUBLINGS);
}

/*
 * A message that the stream is not dropped for yet: what comes after it may tell
 * that it is wrong itself.  Whoever wrote it could keep the stream from going on,
 * if the connection ended before that has come.
 */
static bool
may_wait(Consumer *c, const char *why)
{
	if (c->undecided == NULL)
	{
		c->undecided = MemoryContextStrdup(c->conn_cxt, why);
		c->undecided_since = atp_now();
	}
	return !atp_batch_full(c->batch) && atp_remaining(atp_now(), c->undecided_since, clock_wait_ms(c)) > 0;
}

/* Move an existing connection on. */
static void
run_stream(Consumer *c)
{
	AtpBatch   *batch = c->batch;
	AtpConnState before = atp_conn_state(c->conn);
	AtpConnState state;
	AtpVerdict	verdict = {.drop = ATP_DROP_NONE};
	int			messages = batch->nmessages;
	uint64		bytes;

	state = atp_conn_step(c->conn);
	bytes = atp_conn_bytes(c->conn);
	/* until the stream is open there is one limit for all, however slowly its answer trickles */
	if (bytes > c->counted_bytes && state == ATP_CONN_OPEN)
		c->last_data = atp_now();
	if (before != ATP_CONN_OPEN && state == ATP_CONN_OPEN)
	{
		atp_status_state(ATP_STATE_STREAMING);
		report_idle(c);
		ereport(LOG, (errmsg("atproto subscription \"%s\" connected to %s, cursor %s",
							 c->name, c->sub->ep->scope, cursor_text(c))));
	}
	if (batch->nmessages > messages || bytes > c->counted_bytes)
		atp_status_received(batch->nmessages - messages, bytes - c->counted_bytes);
	c->counted_bytes = bytes;

	if (batch->ndecoded < batch->nmessages)
		verdict = atp_decode(c->decoder, batch, &c->position, c->shards ? ATP_DECODE_HEADS : ATP_DECODE_ALL);
	if (verdict.drop != ATP_DROP_CLOCK)
		c->undecided = NULL;
	else if (state == ATP_CONN_OPEN && may_wait(c, verdict.why))
		return;
	if (verdict.drop == ATP_DROP_NONE && state == ATP_CONN_CLOSED)
		verdict = (AtpVerdict) {.drop = atp_conn_drop(c->conn), .why = atp_conn_error(c->conn)};
	if (verdict.drop == ATP_DROP_NONE)
		return;

	/* keep what is good; the words outlive the batch */
	verdict.why = MemoryContextStrdup(c->conn_cxt, verdict.why);
	if (c->shards != NULL && (verdict.drop == ATP_DROP_FRAME || verdict.drop == ATP_DROP_SEQ))
		hand_batch(c, true);
	if (verdict.error == ATP_SERVER_ERROR_FUTURE_CURSOR)
	{
		settle(c);
		stop(c, verdict.why);	/* E-45 */
	}
	drop_stream(c, verdict.drop, verdict.why);
}

static void
sooner(long *timeout, long ms)
{
	if (*timeout < 0 || ms < *timeout)
		*timeout = ms;
}

/* Time limits of the open connection (E-06); returns how long to wait for the next. */
static long
watch_stream(Consumer *c, AtpTime now)
{
	long		timeout = -1;
	bool		open = atp_conn_state(c->conn) == ATP_CONN_OPEN;
	int			limit = open ? atp_idle_timeout_ms : ANSWER_TIMEOUT_MS;

	if (limit > 0)
	{
		if (atp_remaining(now, c->last_data, limit) == 0)
		{
			drop_stream(c, ATP_DROP_IDLE, !open ? "the server does not answer"
						: atp_conn_choked(c->conn) ? "the server does not read the answers to its pings"
						: "nothing came from the server for too long");
			return 0;
		}
		sooner(&timeout, atp_remaining(now, c->last_data, limit));
	}
	if (open && atp_ping_interval_ms > 0)
	{
		AtpTime		last = Max(c->last_data, c->last_ping);

		if (atp_remaining(now, last, atp_ping_interval_ms) == 0)
		{
			atp_conn_ping(c->conn);
			c->last_ping = last = now;
		}
		sooner(&timeout, atp_remaining(now, last, atp_ping_interval_ms));
	}
	return timeout;
}

/* Is there memory for what may come? */
static bool
can_receive(Consumer *c)
{
	return c->shards == NULL || c->batch->buffer != NULL || atp_shards_lend(c->shards, c->batch);
}

/*
 * Is it time to apply, or to hand over, what has come?  Workers that have
 * something to do get more when it is a full batch.
 */
static bool
batch_is_due(Consumer *c)
{
	if (c->batch->nmessages == 0 || c->undecided != NULL)
		return false;
	if (atp_batch_full(c->batch))
		return true;
	return (c->shards == NULL || atp_shards_idle(c->shards)) &&
		atp_remaining(atp_now(), c->batch->since, atp_batch_delay_ms) == 0;
}

static void
wait_for_more(Consumer *c)
{
	AtpSocketWait sockets[ATP_WAIT_SOCKETS];
	int			nsockets = 0;
	long		timeout = -1;
	long		limit = -1;
	AtpTime		now = atp_now();

	/* what nobody listened to, while a batch was applied, was not silent */
	c->last_data = Min(now, c->last_data + (now - c->listened));
	if (c->conn != NULL)
		limit = watch_stream(c, now);
	if (c->conn != NULL)
		nsockets = atp_conn_sockets(c->conn, sockets, &timeout);
	else
		sooner(&timeout, atp_remaining(now, c->retry_at, 0));
	if (limit >= 0)
		sooner(&timeout, limit);
	if (c->undecided != NULL)
		sooner(&timeout, Min(atp_remaining(now, c->undecided_since, clock_wait_ms(c)), SETTLE_LOOK_MS));
	else if (c->shards != NULL && !atp_shards_idle(c->shards))
		sooner(&timeout, SETTLE_LOOK_MS);
	else if (c->batch->nmessages > 0)
		sooner(&timeout, atp_remaining(now, c->batch->since, atp_batch_delay_ms));
	else if (c->stats_pending)
		sooner(&timeout, STATS_DELAY_MS);
	atp_wait(sockets, nsockets, timeout);
	c->listened = atp_now();
}

static void
purge(Consumer *c)
{
	c->purging = atp_purge(c->sub, c->source->sink, c->statements, c->loop_cxt);
	report_idle(c);
}

static void
run(Consumer *c)
{
	for (;;)
	{
		MemoryContextSwitchTo(c->loop_cxt);
		MemoryContextReset(c->loop_cxt);
		atp_serve_interrupts();
		if (atp_config_changed())
		{
			/* what is decoded was decoded under the present settings; what is not comes again */
			if (c->undecided != NULL)
				drop_stream(c, ATP_DROP_CLOCK, c->undecided);
			settle(c);
			read_subscription(c);
			report_idle(c);
		}
		if (c->shards != NULL)
			collect(c);
		if (c->level >= 0 && c->position.last >= c->level)
		{
			settle(c);
			leave(c, "the number of its workers changes", true);
		}
		if (!can_receive(c))
		{
			atp_wait(NULL, 0, SETTLE_LOOK_MS);
			continue;
		}

		if (c->conn == NULL && atp_now() >= c->retry_at)
			connect_stream(c);
		if (c->conn != NULL)
			run_stream(c);
		if (batch_is_due(c))
		{
			apply_batch(c);
			/* one bounded step between two batches */
			if (c->purging)
				purge(c);
			continue;
		}
		if (c->purging && c->batch->nmessages == 0)
		{
			purge(c);
			continue;
		}
		if (c->stats_pending && c->batch->nmessages == 0 &&
			atp_remaining(atp_now(), c->last_data, STATS_DELAY_MS) == 0)
		{
			pgstat_report_stat(true);
			c->stats_pending = false;
		}
		wait_for_more(c);
	}
}

/* ------------------------------------------------------------------------
 * Start
 * ------------------------------------------------------------------------
 */
/*
 * When a consumer dies, its workers still bring to its end what they are at.
 * Until then their cursors are theirs.
 */
static void
wait_for_workers(Consumer *c)
{
	MemoryContext old = MemoryContextSwitchTo(c->loop_cxt);

	while (atp_has_workers(c->name))
	{
		pgstat_report_activity(STATE_IDLE, "waiting for the workers before");
		atp_wait(NULL, 0, SETTLE_LOOK_MS);
		MemoryContextReset(c->loop_cxt);
	}
	MemoryContextSwitchTo(old);
}

/* So that somebody can log in and mend what crashes the server. */
static void
wait_after_crash(const char *name)
{
	int			crashes = atp_crash_begin(name);
	int			delay = atp_crash_delay(crashes);
	AtpTime		begin = atp_now();
	long		left;

	if (crashes == 0)
		return;
	atp_status_error(ATP_DROP_NONE, psprintf("the server crashed while this ran: %d times in a row, waiting for %d seconds",
										   crashes, delay / 1000));
	atp_status_state(ATP_STATE_WAITING);
	pgstat_report_activity(STATE_IDLE, "waiting after a crash");
	while ((left = atp_remaining(atp_now(), begin, delay)) > 0)
		atp_wait(NULL, 0, left);
	atp_status_state(ATP_STATE_STARTING);
}

void
atp_consumer_main(Datum arg)
{
	StartInfo	start;
	Consumer	c = {0};

	memcpy(&start, MyBgworkerEntry->bgw_extra, sizeof(start));
	atp_process_begin();
	atp_status_report_end(start.database, start.owner, start.name);
	if (!start.managed)
		atp_process_ends_with_database();
	BackgroundWorkerInitializeConnectionByOid(start.database, start.owner, 0);
	atp_process_connected(psprintf("atproto %s", start.name));
	c.name = start.name;
	c.managed = start.managed;

	if (TransactionIdIsValid(start.wait_for))
	{
		StartTransactionCommand();
		XactLockTableWait(start.wait_for, NULL, NULL, XLTW_None);
		CommitTransactionCommand();
	}
	if (!atp_claim(c.name))
		leave(&c, "another process consumes it", false);
	c.loop_cxt = AllocSetContextCreate(TopMemoryContext, "atproto loop", ALLOCSET_DEFAULT_SIZES);
	wait_for_workers(&c);
	atp_status_attach(c.name);
	wait_after_crash(c.name);
	c.conn_cxt = AllocSetContextCreate(TopMemoryContext, "atproto connection", ALLOCSET_DEFAULT_SIZES);
	c.batch = atp_batch_create(TopMemoryContext);
	c.drop_seq = -1;
	c.purging = true;			/* whatever was left by the process before */
	(void) atp_config_changed();
	read_subscription(&c);
	if (GetDatabaseEncoding() != PG_UTF8)
		stop(&c, "the database's encoding is not UTF8");
	atp_dial_init();
	run(&c);
}

bool
atp_consumer_start(const AtpSubscription *sub, bool managed, TransactionId wait_for,
				   BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker;
	StartInfo	start = {.database = MyDatabaseId, .owner = sub->owner, .wait_for = wait_for,
	.managed = managed};

	StaticAssertStmt(sizeof(StartInfo) <= BGW_EXTRALEN, "start information must fit into bgw_extra");
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
