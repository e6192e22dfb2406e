/*
 * host_table.c
 *		Reads and writes atproto.host: a host's backoff outlives the process, and operators
 *		see the hosts' state in the table.
 */
#include "postgres.h"

#include "common/compat.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "fetch/engine/host_private.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_reset_backoff);

#define WRITE_MS		1000	/* at most one write in so many milliseconds */
#define WRITE_MAX		256		/* hosts in a transaction */
#define FORGET_MS		60000
#define KEPT			"10000" /* rows at most: strangers choose the names, so the number of hosts
								 * is not bounded by us */

static AtpTime written = 0;
static AtpTime forgotten = 0;
static bool resets = false;		/* at the last look, rows had the mark of reset_backoff() */

/* Take over the backoff that an earlier process wrote, and that the host refuses parts. */
static void
take_row(AtpTuple row)
{
	char	   *name = atp_get_text(row, "host");
	AtpHost    *host = atp_host_get(name);

	if (host == NULL)
		return;
	host->limiter.backoff_until = atp_now() + atp_get_int8(row, "wait") * INT64CONST(1000);
	host->whole_until = atp_now() + atp_get_int8(row, "whole") * INT64CONST(1000);
	strlcpy(host->whole_reason, atp_get_text(row, "whole_reason"), sizeof(host->whole_reason));
	host->limiter.failures = atp_get_int4(row, "failures");
	host->limiter.backoffs = atp_get_int4(row, "backoffs");
}

void
atp_host_begin(void)
{
	AtpResult	rows;

	atp_begin("reading the hosts");
	/* no host is left alone for more than an hour, even if the system clock was set */
	rows = atp_query("SELECT host, failures, backoffs,"
					 " (extract(epoch FROM greatest(least(backoff_until - now(), interval '1 hour'), interval '0')) * 1000)::bigint AS wait,"
					 " (extract(epoch FROM greatest(least(whole_until - now(), interval '1 day'), interval '0')) * 1000)::bigint AS whole,"
					 " COALESCE(whole_reason, '') AS whole_reason"
					 " FROM atproto.host WHERE backoff_until > now() OR whole_until > now()"
					 " ORDER BY backoff_until > now() DESC NULLS LAST, updated_at DESC LIMIT 2000", ATP_NO_ARGS);
	for (uint64 i = 0; i < rows.n; i++)
		take_row(atp_result_row(rows, i));
	atp_result_free(rows);
	atp_commit();
}

/*
 * Does a session hold a lock on the host's row?  The session may keep the lock for long, so the row
 * is written at a later call.
 */
static bool
is_locked(const AtpHost *host)
{
	return atp_run("WITH free AS (SELECT host FROM atproto.host WHERE host = $1 FOR UPDATE SKIP LOCKED)"
				   " SELECT FROM atproto.host WHERE host = $1 AND NOT EXISTS (SELECT FROM free)",
				   ATP_ARGS(atp_text_arg(host->name))) > 0;
}

static void
write_row(AtpHost *host, AtpTime now)
{
	int64		backoff_ms = host->limiter.backoff_until > now ? (host->limiter.backoff_until - now) / 1000 : -1;
	int64		whole_ms = host->whole_until > now ? (host->whole_until - now) / 1000 : -1;

	(void) atp_run("INSERT INTO atproto.host AS h (host, requests, bytes, refused, failures, backoffs, backoff_until, backoff_reason,"
				   "  limit_total, limit_remaining, answered_at, whole_until, whole_reason)"
				   " VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $7 >= 0 THEN now() + $7 * interval '1 ms' END, $8,"
				   "  nullif($9, -1), nullif($10, -1), CASE WHEN $11 = 1 THEN now() END,"
				   "  CASE WHEN $12 >= 0 THEN now() + $12 * interval '1 ms' END, $13)"
				   " ON CONFLICT (host) DO UPDATE SET requests = h.requests + $2, bytes = h.bytes + $3,"
				   "  refused = h.refused + $4, failures = $5, backoffs = $6,"
				   "  backoff_until = excluded.backoff_until, backoff_reason = coalesce($8, h.backoff_reason),"
				   "  limit_total = coalesce(excluded.limit_total, h.limit_total),"
				   "  limit_remaining = coalesce(excluded.limit_remaining, h.limit_remaining),"
				   "  answered_at = coalesce(excluded.answered_at, h.answered_at), whole_until = excluded.whole_until,"
				   "  whole_reason = coalesce($13, h.whole_reason), updated_at = now()",
				   ATP_ARGS(atp_text_arg(host->name), atp_int8_arg(host->requests), atp_int8_arg(host->bytes),
							atp_int8_arg(host->refused), atp_int4_arg(host->limiter.failures),
							atp_int4_arg(host->limiter.backoffs), atp_int8_arg(backoff_ms),
							atp_text_arg(host->reason[0] != '\0' ? host->reason : NULL),
							atp_int8_arg(host->limit), atp_int8_arg(host->remaining), atp_int4_arg(host->answered),
							atp_int8_arg(whole_ms), atp_text_arg(whole_ms >= 0 ? host->whole_reason : NULL)));
	host->requests = host->bytes = host->refused = 0;
	host->answered = host->dirty = false;
}

/* End the backoff of the hosts for which a session has called atproto.reset_backoff(). */
static void
end_backoffs(void)
{
	AtpResult	rows = atp_query("UPDATE atproto.host SET reset_backoff = false WHERE host IN"
								 " (SELECT host FROM atproto.host WHERE reset_backoff FOR UPDATE SKIP LOCKED) RETURNING host", ATP_NO_ARGS);

	for (uint64 i = 0; i < rows.n; i++)
	{
		AtpHost    *host = atp_host_known(atp_get_text(atp_result_row(rows, i), "host"));

		if (host == NULL)
			continue;
		atp_host_limit_reset(&host->limiter);
		host->whole_until = 0;
	}
	atp_result_free(rows);
}

/*
 * Delete hosts without a request for seven days, and the least recently updated hosts beyond KEPT.
 */
static void
delete_old_hosts(void)
{
	(void) atp_run("DELETE FROM atproto.host WHERE ctid = ANY (ARRAY (SELECT ctid FROM atproto.host"
				   " WHERE (backoff_until IS NULL OR backoff_until < now()) AND (whole_until IS NULL OR whole_until < now()) AND updated_at <= GREATEST(now() - interval '7 days',"
				   "  (SELECT updated_at FROM atproto.host ORDER BY updated_at DESC OFFSET " KEPT " LIMIT 1))"
				   " FOR UPDATE SKIP LOCKED))", ATP_NO_ARGS);
}

void
atp_host_look(void)
{
	resets = atp_run("SELECT FROM atproto.host WHERE reset_backoff LIMIT 1", ATP_NO_ARGS) > 0;
}

long
atp_host_write(AtpTime now)
{
	AtpHost    *host = atp_host_dirty(NULL);
	bool		in_backoff = atp_host_any_in_backoff(now);
	bool		full = atp_remaining(now, forgotten, FORGET_MS) == 0;
	long		left = atp_remaining(now, written, WRITE_MS);
	bool		locked = false;

	/* reset_backoff() has woken the fetcher, if it was called, and matters at once only where a host is in backoff or refuses parts */
	if (host == NULL && !in_backoff && !full && !resets && !atp_host_any_refuses_parts(now))
		return -1;
	if (left > 0)
		return left;
	written = now;
	atp_begin("writing the hosts");
	/*
	 * a role that may call reset_backoff() may also lock the table: the fetcher must not wait for a lock
	 * of any user
	 */
	if (!ConditionalLockRelationOid(atp_relation("host"), RowExclusiveLock))
	{
		atp_commit();
		return WRITE_MS;
	}
	end_backoffs();
	resets = false;
	for (int i = 0; host != NULL && i < WRITE_MAX; i++)
	{
		if (is_locked(host))
			locked = true;
		else
			write_row(host, now);
		host = atp_host_dirty(host);
	}
	if (full)
		delete_old_hosts();
	atp_commit();
	if (full)
		forgotten = now;
	return host != NULL || in_backoff || locked ? WRITE_MS : -1;
}

bool
atp_host_is_written(void)
{
	return atp_host_dirty(NULL) == NULL;
}

/* SQL: atproto.reset_backoff(host) */
Datum
atp_reset_backoff(PG_FUNCTION_ARGS)
{
	uint64		n;

	SPI_connect();
	n = atp_run("UPDATE atproto.host SET backoff_until = NULL, failures = 0, backoffs = 0, whole_until = NULL, reset_backoff = true WHERE host = $1",
				ATP_ARGS(ATP_FUNCTION_ARG(0, TEXTOID)));
	atp_wake_fetcher();
	SPI_finish();
	PG_RETURN_BOOL(n > 0);
}
