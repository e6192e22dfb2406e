/*
 * subscription_log.c
 *		What happened to a subscription: atproto.subscription_event.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "identity/identity.h"
#include "process/subscription_log.h"
#include "shared.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define ROWS_MAX		1000	/* of a subscription; older ones go */
#define DETAIL_MAX		500		/* bytes */
#define AGAIN_MS		60000	/* the same within this time is counted in the same row */
#define WRITE_MS		10000	/* between two times that counts are written */
#define CYCLE_MAX		8		/* rows that one failure after the other makes: it fails, starts, connects, ... */
#define TOKENS_MAX		20		/* new rows at once ... */
#define TOKEN_MS		6000	/* ... and one more after each such time */

/* The last row of a kind, as it is in the table or is to be. */
typedef struct Line
{
	int64		number;			/* in the table; 0: not there yet */
	int64		times;			/* that are not written yet; 0: nothing is */
	TimestampTz first;
	TimestampTz last;
	AtpTime		noted;
	int64		seq;			/* -1: none */
	char		detail[DETAIL_MAX + 1]; /* empty: none */
} Line;

struct AtpLog
{
	const char *name;
	Line		lines[ATP_LOGGED_COUNT];
	int			tokens;
	AtpTime		token_at;		/* when the last one was given */
	bool		repeats;		/* nothing has happened yet but what the process before said, too: it failed ... */
	bool		has_new;		/* a line that is not in the table ... */
	bool		has_more;		/* ... or one that is to be counted up */
	AtpTime		written;		/* last time, or tried */
	bool		refused;		/* which was in vain */
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

/* May there be one more row? */
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

/* Is it one more of what this line says? */
static bool
is_again(const Line *line, const char *detail, AtpTime now)
{
	if (line->noted == 0)
		return false;
	/* what could not be written yet keeps its place */
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
	if (!log->has_new && !log->has_more)
		return -1;
	return log->has_new && !log->refused ? 0 : atp_remaining(atp_now(), log->written, WRITE_MS);
}

/* Rows in the order in which they happened. */
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
 * A process that fails for the same reason as the one before, and so on, would leave nothing of what was
 * before: what it says is in one of the last rows, and counted there.
 */
static bool
repeat(AtpLog *log, Line *line, AtpArg seq, AtpArg detail)
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
	if (count_up(log, line, seq, detail) || repeat(log, line, seq, detail))
		return;
	/* it is new, or somebody has removed it */
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

/* Without waiting for who is about to change or remove it; false: somebody is, or has. */
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

void
atp_log_write(AtpLog *log)
{
	AtpCaller	caller;

	if (!log->has_new && !log->has_more)
		return;
	atp_begin("writing what happened to the subscription");
	log->refused = true;
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		caller = atp_as_table_owner("subscription_event");
		log->refused = !lock_subscription(log);
		if (!log->refused)
			write_lines(log);
		atp_owner_end(caller);
	}
	atp_commit();
	log->written = atp_now();
	if (log->refused)
		return;
	for (int i = 0; i < ATP_LOGGED_COUNT; i++)
		log->lines[i].times = 0;
	log->has_new = log->has_more = false;
}
