/*
 * consumer_loop.c
 *		The consumer's main loop: serve interrupts, follow the subscription's row,
 *		advance the connection, decode messages, apply the batch when it is due, wait.
 *
 * Every transaction begins and ends inside a function called here, so no transaction is open during
 * the wait.
 */
#include "postgres.h"

#include "config/watch.h"
#include "net/http.h"
#include "net/poll.h"
#include "net/wait.h"
#include "pgstat.h"
#include "process/consumer/consumer_private.h"
#include "process/status/process.h"
#include "storage/latch.h"
#include "tables/repos/held.h"
#include "utils/memutils.h"

#define NAP_MS		50			/* milliseconds of a nap; the end of a connection is noticed so much later at most */
#define LITTLE		(64 * 1024) /* bytes since the last wait, below which a nap is allowed */

/*
 * The subscription's row, or its cursor, may have been changed: finish what was received under the old settings,
 * read the row again, and connect anew if the request has changed.
 */
static void
follow_settings(Consumer *c)
{
	AtpState	before;

	/* decode the messages already received, because the server would not send them again */
	atp_consumer_leads(c);
	if (c->state == ATP_STATE_STREAMING && c->batch->ndecoded < c->batch->nmessages)
		atp_consumer_receive(c);
	/*
	 * Decoded events are applied under the settings with which they were decoded.  Dropping an undecided
	 * message is safe: the new connection receives the message again.
	 */
	if (c->state == ATP_STATE_UNDECIDED)
		atp_consumer_drop(c, ATP_DROP_CLOCK, c->undecided_why);
	before = c->state;
	atp_consumer_flush(c);
	atp_consumer_read_settings(c);
	atp_consumer_is_flushed(c, before);
	if (c->conn != NULL)
		atp_consumer_ask_anew(c);
	/* the filters are part of the plan */
	atp_consumer_history_drop(c);
}

static bool
connection_is_due(const Consumer *c)
{
	return c->state == ATP_STATE_STARTING ||
		(c->state == ATP_STATE_WAITING && atp_now() >= c->waiting_until);
}

/*
 * What ended the last connection may have ended a node of Citus, too.  A consumer that starts has looked at the
 * nodes before the loop.
 */
static void
connect_to_stream(Consumer *c)
{
	if (c->state == ATP_STATE_WAITING && c->has_nodes)
		atp_consumer_look_at_nodes(c);
	if (atp_consumer_has_history(c))
		atp_consumer_history_begin(c);
	else
		atp_consumer_connect(c);
}

static bool
statistics_are_due(const Consumer *c)
{
	return c->stats_pending && c->batch->nmessages == 0 &&
		atp_remaining(atp_now(), c->last_data, ATP_STATS_DELAY_MS) == 0;
}

static void
set_sooner(long *timeout, long ms)
{
	if (*timeout < 0 || (ms >= 0 && ms < *timeout))
		*timeout = ms;
}

/* How long the batch may stay unapplied, in milliseconds; -1: nothing is pending. */
static long
batch_may_stay(const Consumer *c, AtpTime now)
{
	if (c->state == ATP_STATE_UNDECIDED)
		return Min(atp_remaining(now, c->undecided_since, atp_consumer_undecided_ms(c)), ATP_LOOK_MS);
	if (c->shards != NULL && !atp_shards_idle(c->shards))
		return ATP_LOOK_MS;
	if (c->batch->nmessages > 0)
		return atp_remaining(now, c->batch->since, atp_consumer_batch_delay(c));
	return c->stats_pending ? ATP_STATS_DELAY_MS : -1;
}

/*
 * May the process wait without looking at the socket?  Yes if little data comes and a batch is waiting for
 * its delay anyway: then a nap misses nothing, and saves a wake-up for each event.  Data arriving meanwhile
 * stays in the kernel's buffer, which has room for more than LITTLE.
 */
static bool
may_nap(Consumer *c, const AtpSocketWait *sockets, int nsockets)
{
	uint64		bytes = atp_conn_bytes(c->conn);
	bool		little = bytes >= c->heard_bytes && bytes - c->heard_bytes < LITTLE;

	c->heard_bytes = bytes;
	for (int i = 0; i < nsockets; i++)
		if (sockets[i].events != WL_SOCKET_READABLE)
			return false;
	return little && c->batch->nmessages > 0 && atp_conn_state(c->conn) == ATP_CONN_OPEN;
}

/* M-31: has the process committed all that the stream of a directory has brought?  A page of a directory is followed by other pages. */
static bool
all_is_stored(const Consumer *c)
{
	return c->source->pages != NULL && c->state == ATP_STATE_STREAMING && !c->by_pages && c->shards == NULL &&
		c->batch->nmessages == 0 && c->batch->nopen == 0;
}

static void
wait_for_more(Consumer *c)
{
	bool		stored;
	AtpSocketWait of_connection[ATP_WAIT_SOCKETS];
	AtpSocketWait *sockets = of_connection;
	int			nsockets = 0;
	long		timeout = -1;
	long		limit = -1;
	AtpTime		now = atp_now();

	/* time spent on applying a batch is no silence of the server: shift the limit by it */
	c->last_data = Min(now, c->last_data + (now - c->listened));
	if (c->conn != NULL)
		limit = atp_consumer_watch(c, now);
	if (c->conn != NULL)
	{
		nsockets = atp_conn_sockets(c->conn, sockets, &timeout);
		if (may_nap(c, sockets, nsockets))
		{
			nsockets = 0;
			set_sooner(&timeout, NAP_MS);
		}
	}
	if (c->archive != NULL)
	{
		int			nmore;
		AtpSocketWait *more = atp_poll_sockets(&nmore);

		sockets = memcpy(palloc(sizeof(AtpSocketWait) * (nsockets + nmore)), of_connection, sizeof(AtpSocketWait) * nsockets);
		memcpy(sockets + nsockets, more, sizeof(AtpSocketWait) * nmore);
		nsockets += nmore;
		set_sooner(&timeout, c->archive_ready && c->state != ATP_STATE_WAITING ? 0 : atp_http_timeout(now));
	}
	set_sooner(&timeout, atp_consumer_audit_due(c));
	if (c->state == ATP_STATE_WAITING)
		set_sooner(&timeout, atp_remaining(now, c->waiting_until, 0));
	set_sooner(&timeout, limit);
	set_sooner(&timeout, batch_may_stay(c, now));
	set_sooner(&timeout, atp_consumer_purge_look_due(c));
	set_sooner(&timeout, atp_log_due(c->log));
	set_sooner(&timeout, atp_consumer_nodes_look_due(c));
	if (c->batch->nmessages == 0)
	{
		set_sooner(&timeout, atp_consumer_release_due(c));
		set_sooner(&timeout, atp_consumer_logs_due(c));
	}
	c->waited_from = atp_now();
	stored = all_is_stored(c);
	if (stored)
		atp_status_waits(true);
	atp_wait(sockets, nsockets, timeout);
	if (stored)
		atp_status_waits(false);
	c->listened = atp_now();
}

void
atp_consumer_loop(Consumer *c)
{
	for (;;)
	{
		long		deferred;

		MemoryContextSwitchTo(c->loop_cxt);
		MemoryContextReset(c->loop_cxt);
		atp_serve_interrupts();
		if (atp_config_changed())
			follow_settings(c);
		if (atp_log_due(c->log) == 0)
		{
			atp_log_write(c->log);
			atp_consumer_report(c);
		}
		if (c->shards != NULL)
			atp_consumer_collect(c);
		if (atp_consumer_gap_is_over(c))
			atp_consumer_close_gap(c);
		if (c->reshard_at >= 0 && c->position.last >= c->reshard_at)
		{
			atp_consumer_flush(c);
			atp_consumer_leave(c, "the number of its workers changes", true);
		}
		if (atp_consumer_rests(c))
		{
			atp_wait(NULL, 0, ATP_LOOK_MS);
			c->listened = atp_now();
			continue;
		}
		if ((deferred = atp_consumer_defers(c)) > 0)
		{
			atp_wait(NULL, 0, deferred);
			c->listened = atp_now();
			continue;
		}
		/* there is no room to hold more labels, so read nothing, and try to release the held labels */
		if (atp_held_stalls(atp_now()) && c->batch->nmessages == 0)
		{
			if (atp_consumer_release_due(c) == 0)
				atp_consumer_release(c);
			else
				atp_wait(NULL, 0, ATP_LOOK_MS);
			c->listened = atp_now();
			continue;
		}
		if (!atp_consumer_can_receive(c))
		{
			atp_wait(NULL, 0, ATP_LOOK_MS);
			continue;
		}

		if (connection_is_due(c))
			connect_to_stream(c);
		if (c->conn != NULL)
			atp_consumer_receive(c);
		if (c->state == ATP_STATE_HISTORY)
			atp_consumer_history_read(c);
		else if (c->audit != ATP_ASK_NONE || atp_consumer_audit_due(c) == 0)
			atp_consumer_audit(c);
		else if (c->archive != NULL)
		{
			/* transfers go on while the consumer waits; without this, their news would keep it from sleeping */
			atp_http_pump();
			(void) atp_http_news();
		}
		atp_consumer_note_quiet(c);
		if (atp_consumer_purge_look_due(c) == 0)
			atp_consumer_purge_look(c);
		if (atp_consumer_nodes_look_due(c) == 0)
			atp_consumer_look_at_nodes(c);
		if (atp_consumer_batch_is_due(c))
		{
			atp_consumer_apply(c);
			/* one bounded step between two batches, so that the stream does not wait long */
			if (c->purge_due)
				atp_consumer_purge(c);
			if (atp_consumer_release_due(c) == 0)
				atp_consumer_release(c);
			if (atp_consumer_logs_due(c) == 0)
				atp_consumer_logs(c);
			continue;
		}
		if (c->purge_due && c->batch->nmessages == 0)
		{
			atp_consumer_purge(c);
			continue;
		}
		if (atp_consumer_release_due(c) == 0 && c->batch->nmessages == 0)
		{
			atp_consumer_release(c);
			continue;
		}
		if (atp_consumer_logs_due(c) == 0 && c->batch->nmessages == 0)
		{
			atp_consumer_logs(c);
			continue;
		}
		if (statistics_are_due(c))
		{
			if (c->shards == NULL)
				atp_skips_flush(c->statements, c->sub, 0, c->uncounted);
			pgstat_report_stat(true);
			c->stats_pending = false;
		}
		wait_for_more(c);
	}
}
