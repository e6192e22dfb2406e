/*
 * task_clock.c
 *		The fetcher's task that notices that the system clock was set back, and makes due at once
 *		what the fetcher would leave alone until the clock has come to the former time again.
 *
 * A job that failed while the clock was a year ahead has its next try in a year.  The process sees
 * the clock go back while the process runs; rows of atproto.host with a time in the future tell that
 * the clock was set back before the process began.
 */
#include "postgres.h"

#include "config/spi.h"
#include "config/transaction.h"
#include "fetch/engine/task.h"
#include "fetch/repositories/make_due.h"

#define LOOK_MS		60000	/* between two looks at the table */
#define MARGIN_S	60		/* a clock that is set back by less delays nothing for long */

static AtpTime looked;			/* 0: not yet */
static TimestampTz seen;		/* the latest time of day that this process has seen */

/* SQL: a time in the future becomes the present time; infinity stays, and so does NULL. */
#define PAST(column)	column " = CASE WHEN " column " > now() AND " column " < 'infinity' THEN now() ELSE " column " END"

static const AtpWaiting kinds[] = {
	ATP_WAITING("atproto.identity", "next_try > now() OR asked_at > now() OR resolved_at > now() OR denied_at > now()",
				PAST("next_try") ", " PAST("asked_at") ", " PAST("resolved_at") ", " PAST("denied_at")),
	ATP_WAITING("atproto.identity", "handle_state = 'unreachable' AND handle_next > now()", "handle_next = 'epoch'"),
	ATP_WAITING("atproto.identity_request", "next_try > now()", "next_try = 'epoch'"),
	ATP_WAITING("atproto.handle_request", "next_try > now()", "next_try = 'epoch'"),
	/* the limits of fetches count the former fetches as of now */
	ATP_WAITING("atproto.repo_fetched", "at[1] > now()",
				"at = (SELECT array_agg(LEAST(a, now()) ORDER BY a DESC) FROM unnest(t.at) a)"),
	ATP_WAITING("atproto.repo_job", "state IN ('queued', 'throttled') AND (next_try > now() AND next_try < 'infinity' OR doubted_at > now() OR queued_at > now())",
				PAST("next_try") ", " PAST("doubted_at") ", " PAST("queued_at")),
	ATP_WAITING("atproto.status_request", "answered_at IS NULL AND next_try > now()", "next_try = 'epoch'"),
	ATP_WAITING("atproto.enumeration", "next_try > now() OR finished_at > now()", PAST("next_try") ", " PAST("finished_at")),
	ATP_WAITING("atproto.audit_state", "next_at > now()", PAST("next_at")),
	ATP_WAITING("atproto.zstd_dictionary", "due_at > now() + interval '1 day'", PAST("due_at")),
	/* last: a process that ends before leaves these rows to tell the next process */
	ATP_WAITING("atproto.host", "updated_at > now()",
				"updated_at = now(), backoff_until = LEAST(backoff_until, now() + interval '1 hour')"),
};

/* A clock that was set back makes no work by itself: the other tasks want the process. */
static bool
clock_wanted(void)
{
	return false;
}

static bool
has_future_rows(void)
{
	bool		has;

	atp_begin("looking at the clock");
	has = atp_run("SELECT FROM atproto.host WHERE updated_at > now() + make_interval(secs => $1) LIMIT 1", ATP_ARGS(atp_int4_arg(MARGIN_S))) > 0;
	atp_commit();
	return has;
}

static long
step_clock(AtpTime now)
{
	TimestampTz day = atp_time_of_day();
	bool		back = seen - day > MARGIN_S * INT64CONST(1000000);
	long		left = looked == 0 ? 0 : atp_remaining(now, looked, LOOK_MS);

	seen = back ? day : Max(seen, day);
	if (!back && left > 0)
		return left;
	looked = now;
	if (back || has_future_rows())
	{
		ereport(LOG, (errmsg("the system clock was set back: the atproto fetcher does not wait for the times that were noted before")));
		atp_make_due(kinds, lengthof(kinds), "making due what waits for a time of the former clock");
	}
	return LOOK_MS;
}

const AtpTask atp_clock_task = {.name = "clock", .wanted = clock_wanted, .step = step_clock, .kinds = 0};
