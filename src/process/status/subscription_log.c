/*
 * subscription_log.c
 *		The log of a subscription: see subscription_log.h.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "identity/identity.h"
#include "process/status/subscription_log.h"
#include "common/shared.h"
#include "stream/unknown.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define ROWS_MAX		1000	/* rows of a subscription; older rows are deleted */
#define NAMES_MAX		"200"	/* of these, rows with unknown names, which servers and accounts choose; see write_name() */
#define DETAIL_MAX		500		/* bytes */
#define AGAIN_MS		60000	/* a repetition within this time is counted in the same row */
#define WRITE_MS		10000	/* least time between two writes of counts */

/*
 * number of latest rows in which a failing process looks for the rows of the failure before: failed, started,
 * connected, ...
 */
#define CYCLE_MAX		8
#define TOKENS_MAX		20		/* new rows at once ... */
#define TOKEN_MS		6000	/* ... and one more after each interval of this length */

/* The last row of a kind of event, as in the table or to be written. */
typedef struct Line
{
	int64		number;			/* the row's number; 0: not in the table yet */
	int64		times;			/* occurrences not written yet; 0: nothing to write */
	TimestampTz first;
	TimestampTz last;
	AtpTime		noted;
	int64		seq;			/* -1: none */
	char		detail[DETAIL_MAX + 1]; /* empty: no detail */
} Line;

struct AtpLog
{
	const char *name;
	Line		lines[ATP_LOGGED_COUNT];
	int			tokens;
	AtpTime		token_at;		/* when the last token was given */

	/*
	 * since its start, this process has noted only events which the process before had noted, too, beginning
	 * with "failed"
	 */
	bool		repeats;
	bool		has_new;		/* some line is a new row ... */
	bool		has_more;		/* ... or has a count to add */
	AtpTime		written;		/* time of the last write, or of the last attempt */
	bool		refused;		/* the last attempt wrote nothing */
};

static const char *const names[] = {
	[ATP_LOGGED_FAILED] = "failed",
	[ATP_LOGGED_STARTED] = "started",
	[ATP_LOGGED_CONNECTED] = "connected",
	[ATP_LOGGED_CAUGHT_UP] = "caught up",
	[ATP_LOGGED_SETTINGS] = "settings changed",
	[ATP_LOGGED_DROPPED] = "dropped",
	[ATP_LOGGED_PAUSED] = "paused",
	[ATP_LOGGED_STOPPED] = "stopped",
	[ATP_LOGGED_NODE] = "node behind",
	[ATP_LOGGED_ENDED] = "ended",
};

AtpLog *
atp_log_create(const char *name)
{
	AtpLog	   *log = MemoryContextAllocZero(TopMemoryContext, sizeof(AtpLog));

	log->name = name;
	log->tokens = TOKENS_MAX;
	log->token_at = atp_now();
	return log;
}

/* Take a token for a new row; false: all are used up. */
static bool
take_token(AtpLog *log, AtpTime now)
{
	int64		more = (now - log->token_at) / (TOKEN_MS * INT64CONST(1000));

	if (more > 0)
	{
		log->tokens = Min(log->tokens + more, TOKENS_MAX);
		log->token_at += more * TOKEN_MS * INT64CONST(1000);
	}
	if (log->tokens == 0)
		return false;
	log->tokens--;
	return true;
}

/* Does an event repeat this line? */
static bool
is_again(const Line *line, const char *detail, AtpTime now)
{
	if (line->noted == 0)
		return false;
	/* a line not yet written takes further occurrences: its row would be lost otherwise */
	if (line->number == 0 && line->times > 0)
		return true;
	return strncmp(line->detail, detail, DETAIL_MAX) == 0 && atp_remaining(now, line->noted, AGAIN_MS) > 0;
}

void
atp_log_note_at(AtpLog *log, AtpLogged what, const char *detail, int64 seq, TimestampTz at)
{
	Line	   *line = &log->lines[what];
	AtpTime		now = atp_now();

	if (detail == NULL)
		detail = "";
	if (is_again(line, detail, now) || (line->noted != 0 && !take_token(log, now)))
		log->has_more = true;
	else
	{
		line->number = line->times = 0;
		line->first = at;
		log->has_new = true;
	}
	line->times++;
	line->last = at;
	line->noted = now;
	line->seq = seq;
	atp_shared_text(line->detail, sizeof(line->detail), detail);
}

void
atp_log_note(AtpLog *log, AtpLogged what, const char *detail, int64 seq)
{
	atp_log_note_at(log, what, detail, seq, atp_time_of_day());
}

long
atp_log_due(const AtpLog *log)
{
	bool		has_new = log->has_new || atp_unknown_next() != NULL;

	if (!has_new && !log->has_more)
		return -1;
	return has_new && !log->refused ? 0 : atp_remaining(atp_now(), log->written, WRITE_MS);
}

/* Order rows by the time of their events. */
static int
compare_lines(const void *a, const void *b)
{
	const Line *x = *(Line *const *) a;
	const Line *y = *(Line *const *) b;

	return x->first < y->first ? -1 : x->first > y->first ? 1 : x < y ? -1 : x > y;
}

static bool
count_up(const AtpLog *log, const Line *line, AtpArg seq, AtpArg detail)
{
	return line->number != 0 &&
		atp_run("UPDATE atproto.subscription_event SET times = times + $3, last_at = $4, seq = $5, detail = $6"
				" WHERE subscription = $1 AND number = $2",
				ATP_ARGS(atp_text_arg(log->name), atp_int8_arg(line->number), atp_int8_arg(line->times),
						 atp_time_arg(line->last), seq, detail)) > 0;
}

/*
 * A process may fail for the same reason as the processes before.  Then add the counts to the rows of the
 * last failure, found among the latest rows: new rows each time would push the log's history out of the
 * table.
 */
static bool
repeat_line(AtpLog *log, Line *line, AtpArg seq, AtpArg detail)
{
	AtpResult	found;

	if (line == &log->lines[ATP_LOGGED_FAILED] && line->number == 0)
		log->repeats = true;
	if (!log->repeats)
		return false;
	found = atp_query("SELECT number FROM atproto.subscription_event WHERE subscription = $1 AND event = $2 AND detail IS NOT DISTINCT FROM $3"
					  " AND number > (SELECT max(number) - $4 FROM atproto.subscription_event WHERE subscription = $1)"
					  " ORDER BY number DESC LIMIT 1",
					  ATP_ARGS(atp_text_arg(log->name), atp_text_arg(names[line - log->lines]), detail, atp_int8_arg(CYCLE_MAX)));
	if (found.n > 0)
		line->number = atp_get_int8(atp_result_row(found, 0), "number");
	atp_result_free(found);
	log->repeats = found.n > 0 && count_up(log, line, seq, detail);
	return log->repeats;
}

static void
write_line(AtpLog *log, Line *line)
{
	AtpArg		seq = atp_int8_arg(line->seq);
	AtpArg		detail = atp_text_arg(line->detail[0] != '\0' ? line->detail : NULL);
	AtpResult	added;

	seq.isnull = line->seq < 0;
	if (count_up(log, line, seq, detail) || repeat_line(log, line, seq, detail))
		return;
	/* a new row; or the old row has been deleted by a user */
	added = atp_query("INSERT INTO atproto.subscription_event (subscription, number, at, last_at, times, event, seq, detail)"
					  " SELECT $1, COALESCE(max(number), 0) + 1, $2, $3, $4, $5, $6, $7"
					  " FROM atproto.subscription_event WHERE subscription = $1 RETURNING number",
					  ATP_ARGS(atp_text_arg(log->name), atp_time_arg(line->first), atp_time_arg(line->last),
							   atp_int8_arg(line->times), atp_text_arg(names[line - log->lines]), seq, detail));
	line->number = atp_get_int8(atp_result_row(added, 0), "number");
	atp_result_free(added);
	atp_run("DELETE FROM atproto.subscription_event WHERE subscription = $1 AND number <= $2",
			ATP_ARGS(atp_text_arg(log->name), atp_int8_arg(line->number - ROWS_MAX)));
}

/*
 * Lock the subscription's row without waiting.  False: a session is changing or removing the row, or the row
 * is gone.
 */
static bool
lock_subscription(const AtpLog *log)
{
	return atp_run("SELECT FROM atproto.subscription WHERE name = $1 FOR KEY SHARE SKIP LOCKED",
				   ATP_ARGS(atp_text_arg(log->name))) > 0;
}

static void
write_lines(AtpLog *log)
{
	Line	   *lines[ATP_LOGGED_COUNT];
	int			n = 0;

	for (int i = 0; i < ATP_LOGGED_COUNT; i++)
		if (log->lines[i].times > 0)
			lines[n++] = &log->lines[i];
	qsort(lines, n, sizeof(Line *), compare_lines);
	for (int i = 0; i < n; i++)
		write_line(log, lines[i]);
}

/* What an unknown name is a name of, and what becomes of the messages with it. */
static char *
describe_name(const AtpUnknownName *name)
{
	const char *fate = name->applied ? "ignored" : "such messages are not applied";

	if (name->of == ATP_OF_COUNT)
		return name->more ? pstrdup("further unknown kinds of messages are not listed")
			: psprintf("kind \"%s\": %s", name->name, fate);
	if (name->more)
		return psprintf("further unknown members of %s are not listed", atp_member_of_name(name->of));
	return psprintf("member \"%s\" of %s: %s", name->name, atp_member_of_name(name->of), fate);
}

/*
 * S-14: a row for the first sight of each unknown name: a process that starts again meets the names again.  A member that
 * qualifies has its row beyond the limit, too: only this version and atproto.qualifying_names choose such names.
 */
static void
write_name(const AtpLog *log, const AtpUnknownName *name)
{
	AtpArg		seq = atp_int8_arg(name->seq);

	seq.isnull = name->seq <= 0;
	atp_run("INSERT INTO atproto.subscription_event (subscription, number, at, last_at, times, event, seq, detail)"
			" SELECT $1, COALESCE(max(number), 0) + 1, $2, $2, 1, 'unknown name', $3, $4"
			" FROM atproto.subscription_event WHERE subscription = $1"
			" HAVING ($5 OR count(*) FILTER (WHERE event = 'unknown name') < " NAMES_MAX ")"
			" AND count(*) FILTER (WHERE event = 'unknown name' AND detail = $4) = 0",
			ATP_ARGS(atp_text_arg(log->name), atp_time_arg(atp_time_of_day()), seq, atp_text_arg(describe_name(name)),
					 atp_bool_arg(name->of != ATP_OF_COUNT && !name->applied)));
}

/* Write some of the names; the next call writes more. */
static const AtpUnknownName *
write_names(const AtpLog *log)
{
	const AtpUnknownName *name = atp_unknown_next();

	if (name != NULL)
		write_name(log, name);
	return name;
}

void
atp_log_write(AtpLog *log)
{
	AtpCaller	caller;
	const AtpUnknownName *name = NULL;

	if (!log->has_new && !log->has_more && atp_unknown_next() == NULL)
		return;
	atp_begin("writing what happened to the subscription");
	log->refused = true;
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		caller = atp_as_table_owner("subscription_event");
		log->refused = !lock_subscription(log);
		if (!log->refused)
		{
			write_lines(log);
			name = write_names(log);
		}
		atp_owner_end(caller);
	}
	atp_commit();
	log->written = atp_now();
	if (log->refused)
		return;
	if (name != NULL)
		atp_unknown_told(name);
	for (int i = 0; i < ATP_LOGGED_COUNT; i++)
		log->lines[i].times = 0;
	log->has_new = log->has_more = false;
}
