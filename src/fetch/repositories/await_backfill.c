/*
 * await_backfill.c
 *		SQL: CALL atproto.await_backfill(): waits until a subscription's lists are read and the
 *		listed repositories are fetched.
 *
 * A job fetches a repository for a target, not for a subscription.  So the jobs of all
 * subscriptions to the target count.  Jobs queued both after the call and after the end of the
 * lists do not count: the stream queues jobs for ever.
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/compat.h"
#include "config/option.h"
#include "config/spi.h"
#include "executor/spi.h"
#include "fetch/repositories/list_rows.h"
#include "fetch/engine/waiting.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "common/quotable.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(atp_await_backfill);

/* Between two progress notices. */
#define NOTICE_MS	5000

/* After this time without any process that could fetch, the call ends: most causes last until a restart of the server. */
#define UNSERVED_MS	10000

/* Pause between two looks: so many times the duration of a look, within these bounds. */
#define PAUSE_FACTOR		10
#define PAUSE_MIN_MS	100
#define PAUSE_MAX_MS	5000

/* The rate is computed over so many notices. */
#define RATE_NOTICES	2

#define BAR			30

typedef struct Backfill
{
	const char *name;
	Oid			role;			/* the calling role */
	TimestampTz since;			/* time of the call */
	AtpTime		begin;

	/* results of the last look */
	int64		lists;
	int64		ended;
	int64		listed;
	int64		left;
	int64		failed;			/* jobs that failed, and are not tried again soon */
	int64		done;
	int64		records;
	const char *trouble;		/* why the backfill makes no progress; NULL: no reason known */
	bool		unserved;		/* no process can run in the database, so the fetcher will never
								 * start */
	AtpTime		served;			/* the last look at which a process could run, or the begin */
	bool		rests;			/* a list waits for its next try */
	const char *given_up;		/* some lists that were given up before their end; NULL: all were
								 * read */

	int64		done_before;

	/* the last notices, latest first: how many repositories had been fetched, and the time */
	int			ntold;
	int64		told_done[RATE_NOTICES];
	AtpTime		told_at[RATE_NOTICES];
} Backfill;

/*
 * Errors and hosts are private to the subscription's owner: the function looks only at
 * subscriptions whose owner's rights the caller has.
 */
#define OF_HIS	" AND pg_has_role($2, owner::oid, 'USAGE')"

/*
 * A job counts as failed if it is put off for long, or waits for an event, or if its host is in
 * backoff after failures (after the backoff a single trial tests the host, however many jobs wait).
 * Jobs of accounts that are not active count neither as waiting nor as failed: such a job stays in
 * repo_problem until the account is active.
 */
#define IS_FAILED \
	"(j.state IN ('throttled', 'suspended') OR (j.state = 'queued' AND (j.tries > 0 AND j.next_try > now() + interval '5 s'" \
	" OR COALESCE(j.host IN (SELECT h.host FROM atproto.host h WHERE h.failures >= 5 AND h.backoff_until > now() + interval '5 s'), false))))"

/*
 * A host's own list counts as ended if the list has failed and is put off for long: of very many
 * hosts, some never answer.
 */
#define HOST_FAILED \
	"(e.named_at IS NOT NULL AND e.finished_at IS NULL AND e.tries > 0 AND e.next_try > now() + interval '5 s' AND e.error <> $4)"

/* The first lists that meet a condition, with their errors. */
#define LISTS_WITH_ERRORS(condition, more) \
	"array_to_string((array_agg(e.source || ': ' || e.error" more " ORDER BY e.source) FILTER (WHERE e.error IS NOT NULL AND " condition "))[:5], '; ')"

/* A list that failed may have to wait for an hour: say until when. */
#define NEXT_TRY	" || CASE WHEN e.next_try > now() + interval '1 s' THEN '; next try at ' || date_trunc('second', e.next_try) ELSE '' END"

/*
 * The cause, so that a user need not look elsewhere: no process can run; the fetcher could not start, or crashed; lists that
 * failed; a storm; the first repository that waits for its next try.  The fetcher's state alone is no cause: a fetcher ends
 * when nothing is due for a minute.
 */
#define TROUBLE \
	" CASE WHEN j.waiting + l.lists - l.ended > 0 THEN COALESCE(w.why," \
	"  CASE WHEN f.state = 'waiting' THEN 'the fetcher cannot start: ' || f.last_error END," \
	"  l.trouble," \
	"  (SELECT 'too many repositories came out of step at once: only those that sessions ask for are fetched until ' || date_trunc('second', max(m.until))" \
	"   FROM atproto.repo_storm m WHERE m.owner = s.owner AND m.host = '' AND m.until > now() HAVING count(*) > 0)," \
	"  (SELECT b.did::text || ': ' || b.error || '; next try at ' || date_trunc('second', b.next_try) FROM atproto.repo_job b WHERE b.subscription = s.name" \
	"   AND b.state = 'queued' AND b.error IS NOT NULL AND b.next_try > now() ORDER BY b.next_try LIMIT 1)) END AS trouble," \
	" w.why IS NOT NULL AND j.waiting + l.lists - l.ended > 0 AS unserved, l.rests"

#define LOOK_SQL \
	"SELECT s.enabled, s.stopped, s.backfill, l.lists, l.ended, l.listed, l.given_up, j.waiting, j.failed, t.done, t.records," TROUBLE \
	" FROM atproto.subscription s," \
	" LATERAL (SELECT count(*) AS lists, count(*) FILTER (WHERE e.finished_at IS NOT NULL OR " HOST_FAILED ") AS ended, COALESCE(sum(e.seen), 0)::bigint AS listed, max(e.finished_at) AS last," \
	"   " LISTS_WITH_ERRORS("e.finished_at IS NULL AND NOT " HOST_FAILED, NEXT_TRY) " AS trouble," \
	"   count(*) FILTER (WHERE e.finished_at IS NULL AND e.error IS NOT NULL AND e.next_try > now() + interval '1 s') > 0 AS rests," \
	"   " LISTS_WITH_ERRORS("(e.finished_at IS NOT NULL OR " HOST_FAILED ")", "") " AS given_up" \
	"  FROM atproto.wanted_list w LEFT JOIN atproto.enumeration e USING (subscription, source) WHERE w.subscription = s.name) l," \
	" LATERAL (SELECT count(*) FILTER (WHERE NOT " IS_FAILED ") AS waiting, count(*) FILTER (WHERE " IS_FAILED " AND j.state <> 'suspended') AS failed" \
	"  FROM atproto.repo_job j WHERE j.target = s.target AND j.queued_at <= GREATEST(l.last, $3)) j," \
	" LATERAL (SELECT COALESCE(sum(r.repositories), 0)::bigint AS done, COALESCE(sum(r.records), 0)::bigint AS records" \
	"  FROM atproto.repo_total r JOIN atproto.subscription o ON o.name = r.subscription WHERE o.target = s.target) t," \
	" LATERAL (SELECT atproto.why_not_served() AS why OFFSET 0) w," \
	" atproto.stat_fetcher f WHERE s.name = $1" OF_HIS

/* ------------------------------------------------------------------------
 * Looking
 * ------------------------------------------------------------------------
 */
static void
check_subscription(const Backfill *b, AtpResult found)
{
	AtpTuple	row;
	char	   *stopped;

	if (found.n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("subscription \"%s\" does not exist", atp_quotable(b->name)),
				 errhint("The view \"%s\" has the names.", "atproto.stat_subscription")));
	row = atp_result_row(found, 0);
	stopped = atp_get_text_or_null(row, "stopped");
	if (strcmp(atp_get_text(row, "backfill"), "none") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("subscription \"%s\" fetches no repositories", b->name),
				 errhint("Set \"backfill\" to \"repair\", or more: UPDATE atproto.subscription SET backfill = 'repair' WHERE name = %s.", quote_literal_cstr(b->name))));
	if (stopped != NULL || !atp_get_bool(row, "enabled"))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("subscription \"%s\" is %s", b->name, stopped != NULL ? "stopped" : "paused"),
				 stopped != NULL ? errdetail("%s", stopped) : 0,
				 errhint("Its lists are read after atproto.resume().")));
}

/* Read the progress, into the current memory context. */
static void
read_progress(Backfill *b)
{
	int			nest = atp_waiting_step();
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query(LOOK_SQL, ATP_ARGS(atp_text_arg(b->name), (AtpArg) {ObjectIdGetDatum(b->role), OIDOID, false},
													 atp_time_arg(b->since), atp_text_arg(ATP_LIST_NOTE)));
	AtpTuple	row;

	atp_owner_end(caller);
	check_subscription(b, found);
	row = atp_result_row(found, 0);
	b->lists = atp_get_int8(row, "lists");
	b->ended = atp_get_int8(row, "ended");
	b->listed = atp_get_int8(row, "listed");
	b->left = atp_get_int8(row, "waiting");
	b->failed = atp_get_int8(row, "failed");
	b->done = atp_get_int8(row, "done");
	b->records = atp_get_int8(row, "records");
	b->trouble = atp_get_text_or_null(row, "trouble");
	b->unserved = atp_get_bool(row, "unserved");
	if (!b->unserved)
		b->served = atp_now();
	b->rests = atp_get_bool(row, "rests");
	b->given_up = atp_get_text_or_null(row, "given_up");
	atp_result_free(found);
	AtEOXact_GUC(false, nest);
}

/*
 * Errors of the first failed jobs, of subscriptions whose owner's rights the caller has; *next_try: when the first failed
 * job is tried again, NULL: not known.
 */
static char *
list_failures(const Backfill *b, char **next_try)
{
	int			nest = atp_waiting_step();
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT string_agg(did || ': ' || COALESCE(error, CASE state WHEN 'queued' THEN 'its host has failed, and rests' ELSE state END), E'\\n' ORDER BY n)"
								  "  FILTER (WHERE n <= 5) AS failures, date_trunc('second', min(next_try))::text AS next_try"
								  " FROM (SELECT j.did::text AS did, j.error, j.state, row_number() OVER (ORDER BY j.queued_at) AS n, GREATEST(j.next_try, h.backoff_until) AS next_try"
								  "  FROM atproto.repo_job j JOIN atproto.subscription o ON o.name = j.subscription LEFT JOIN atproto.host h ON h.host = j.host"
								  "  WHERE j.target = (SELECT target FROM atproto.subscription WHERE name = $1" OF_HIS ")" OF_HIS " AND " IS_FAILED " AND j.state <> 'suspended') f",
								  ATP_ARGS(atp_text_arg(b->name), (AtpArg) {ObjectIdGetDatum(b->role), OIDOID, false}));
	char	   *failures = atp_get_text_or_null(atp_result_row(found, 0), "failures");

	*next_try = atp_get_text_or_null(atp_result_row(found, 0), "next_try");

	atp_owner_end(caller);
	atp_result_free(found);
	AtEOXact_GUC(false, nest);
	return failures;
}

/* ------------------------------------------------------------------------
 * Saying
 * ------------------------------------------------------------------------
 */

/*
 * Append the part that is done.  While lists are still read, the total is unknown, and the lists'
 * progress is shown.
 */
static void
append_bar(StringInfo text, const Backfill *b, int64 done)
{
	int64		all = done + b->left + b->failed;
	int			full = (int) (all == 0 ? BAR : done * BAR / all);

	if (b->ended < b->lists)
	{
		appendStringInfo(text, INT64_FORMAT " of " INT64_FORMAT " lists read, " INT64_FORMAT " entries so far; ", b->ended, b->lists, b->listed);
		return;
	}
	appendStringInfoChar(text, '[');
	for (int i = 0; i < BAR; i++)
		appendStringInfoChar(text, i < full ? '#' : '.');
	appendStringInfo(text, "] %d %%; ", (int) (all == 0 ? 100 : done * 100 / all));
}

/*
 * Repositories a second, over the last notices.  The rate since the call would be too high at the
 * end: after the fast hosts are done, only repositories of slow hosts are left.
 */
static double
note_rate(Backfill *b, int64 done)
{
	AtpTime		now = atp_now();
	bool		before = b->ntold > 0;
	int64		from = before ? b->told_done[b->ntold - 1] : 0;
	double		seconds = (now - (before ? b->told_at[b->ntold - 1] : b->begin)) / 1e6;

	b->ntold = Min(b->ntold + 1, RATE_NOTICES);
	for (int i = b->ntold - 1; i > 0; i--)
	{
		b->told_done[i] = b->told_done[i - 1];
		b->told_at[i] = b->told_at[i - 1];
	}
	b->told_done[0] = done;
	b->told_at[0] = now;
	return seconds > 0 ? Max(done - from, 0) / seconds : 0;
}

/* A time left, in the unit that a reader wants. */
static char *
time_left(double seconds)
{
	if (seconds < 120)
		return psprintf("%.0f s", seconds);
	if (seconds < 2 * 3600)
		return psprintf("%.0f min", seconds / 60);
	return psprintf("%.1f h", seconds / 3600);
}

/* What the user may do about the trouble; NULL: nothing, or the trouble says so. */
static char *
hint_of(const Backfill *b)
{
	return b->rests && !b->unserved ? psprintf("SELECT atproto.read_lists(%s) has them read at once.", quote_literal_cstr(b->name)) : NULL;
}

static void
report_progress(Backfill *b, bool first)
{
	StringInfoData text;
	int64		done = Max(b->done - b->done_before, 0);
	double		rate = note_rate(b, done);
	char	   *hint = hint_of(b);

	initStringInfo(&text);
	append_bar(&text, b, done);
	appendStringInfo(&text, INT64_FORMAT " repositories fetched, " INT64_FORMAT " to go", done, b->left);
	if (b->failed > 0)
		appendStringInfo(&text, ", " INT64_FORMAT " failed", b->failed);
	if (done > 0)
		appendStringInfo(&text, ", %.1f/s", rate);
	if (rate > 0 && b->ended == b->lists && b->left > 0)
		appendStringInfo(&text, ", about %s left", time_left(b->left / rate));
	ereport(NOTICE,
			(errmsg("%s: %s", b->name, text.data),
			 /* at the first notice the fetcher may not have started yet */
			 b->trouble != NULL && (!first || b->unserved || b->rests) ? errdetail("It waits: %s", b->trouble) : 0,
			 hint != NULL ? errhint("%s", hint) : 0));
	pfree(text.data);
}

static void
tell_end(const Backfill *b)
{
	char	   *next_try = NULL;
	char	   *failures = b->failed > 0 ? list_failures(b, &next_try) : NULL;

	if (b->failed > 0)
		ereport(WARNING,
				(errmsg(INT64_FORMAT " repositories of subscription \"%s\" could not be fetched", b->failed, b->name),
				 failures != NULL ? errdetail("%s", failures) : 0,
				 errhint("They are tried again%s%s: see view \"%s\". atproto.resync() tries one at once.", next_try != NULL ? " from " : " later",
						 next_try != NULL ? next_try : "", "atproto.repo_problem")));
	if (b->given_up != NULL)
		ereport(WARNING,
				(errmsg("lists of subscription \"%s\" were not read to their end", b->name), errdetail("%s", b->given_up),
				 errhint("They are read again later: see view \"%s\". SELECT atproto.read_lists(%s) has them read at once.",
						 "atproto.repo_problem", quote_literal_cstr(b->name))));
	ereport(NOTICE,
			(errmsg("backfill of subscription \"%s\" has ended: " INT64_FORMAT " repositories were fetched, with " INT64_FORMAT " records",
					b->name, b->done, b->records)));
}

pg_noreturn static void
give_up(const Backfill *b)
{
	char	   *hint = hint_of(b);

	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("the backfill of subscription \"%s\" has not ended yet", b->name),
			 errdetail(INT64_FORMAT " of " INT64_FORMAT " lists were read; " INT64_FORMAT " repositories are to be fetched.%s%s",
					   b->ended, b->lists, b->left, b->trouble != NULL ? "\n" : "", b->trouble != NULL ? b->trouble : ""),
			 b->unserved ? 0 : errhint("It goes on: see view \"%s\".%s%s", "atproto.repo_progress", hint != NULL ? " " : "", hint != NULL ? hint : "")));
}

/* SQL: CALL atproto.await_backfill(name, timeout) */
Datum
atp_await_backfill(PG_FUNCTION_ARGS)
{
	Backfill	b = {.role = GetUserId(), .begin = atp_now(), .since = atp_time_of_day()};
	AtpTime		told = b.begin;
	int			timeout_ms = PG_ARGISNULL(1) ? -1 : atp_interval_ms(PG_GETARG_INTERVAL_P(1));
	bool		first = true;
	MemoryContext cxt;

	b.served = b.begin;
	if (PG_ARGISNULL(0))
		atp_argument_is_null("name");
	atp_waiting_begin(fcinfo, "atproto.await_backfill", "It ends transactions, so that it sees what others do.");
	/* SPI's memory outlives the transactions of a procedure */
	b.name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto await backfill", ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		AtpTime		looked = atp_now();
		int64		took_ms;

		MemoryContextReset(cxt);
		MemoryContextSwitchTo(cxt);
		read_progress(&b);
		if (first)
			b.done_before = b.done;
		if (b.ended == b.lists && b.left == 0)
			break;
		if (first || atp_remaining(atp_now(), told, NOTICE_MS) == 0)
		{
			report_progress(&b, first);
			told = atp_now();
		}
		if ((timeout_ms >= 0 && atp_remaining(atp_now(), b.begin, timeout_ms) == 0) ||
			atp_remaining(atp_now(), b.served, UNSERVED_MS) == 0)
			give_up(&b);
		first = false;
		took_ms = (atp_now() - looked) / 1000;
		atp_waiting_pause(Min(Max(took_ms * PAUSE_FACTOR, PAUSE_MIN_MS), PAUSE_MAX_MS));
	}
	tell_end(&b);
	SPI_finish();
	PG_RETURN_VOID();
}
