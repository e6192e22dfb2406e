/*
 * apply.c
 *		A batch into the tables, with its cursor, in one transaction.
 *
 * What the events do to the tables is the family's business; here are the
 * transaction, the search for what the database refuses, gaps and the cursor.
 *
 * A batch in which something is refused is applied in pieces, each a transaction
 * with a bounded number of subtransactions, and so are the next ones, in steps
 * that follow from how often something was refused.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "executor/spi.h"
#include "injection.h"
#include "stream/family.h"
#include "tables/apply.h"
#include "tables/direct.h"
#include "tables/fault.h"
#include "tables/letter.h"
#include "tables/record.h"
#include "tables/statements.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* So many batches are applied with statements after direct writing met a conflict. */
#define AFTER_CONFLICT	16

/* What is kept of more subtransactions than this, other sessions have to look up on disk. */
#define SUBTRANSACTIONS_MAX	64

/*
 * So many events in a row of which rows are refused and none is accepted, of so many
 * repositories: then it is not the rows' fault.  Rows are not counted: with 200 in a
 * commit, a handful of accounts could make so many between two of others.
 */
#define REFUSED_EVENTS	100
#define REFUSED_REPOS	5

/* Steps are no smaller because of what was refused before. */
#define STEP_MIN	16

typedef enum Way
{
	WAY_DIRECT,					/* all at once, new rows directly where direct.h allows it */
	WAY_STATEMENTS,				/* all at once */
	WAY_PIECES
} Way;

/* What this process has learnt from the batches before. */
typedef struct Learnt
{
	int			with_statements;	/* batches yet: where one row was there already, the next ones often are */
	int			step;			/* events that are tried at once in pieces; 0: all, there is nothing to fear */
	/* events of which rows were refused since one was accepted */
	int			refused;
	int64		refused_seq;	/* the last one */
	uint32		repos[REFUSED_REPOS];
	int			nrepos;
} Learnt;

static Learnt learnt;

/* ------------------------------------------------------------------------
 * What the database refuses
 * ------------------------------------------------------------------------
 */

/* Like atp_attempt(), for what lies in the row. */
static ErrorData *
attempt(Apply *a, AtpStep step, int first, int second)
{
	int64		changes = a->rows - a->idle;
	ErrorData  *error = atp_attempt(a, step, first, second);

	if (error == NULL)
	{
		a->kept++;
		/* who removes nothing meets no trigger */
		if (a->rows - a->idle > changes)
			learnt.refused = learnt.nrepos = 0;
	}
	else if (atp_fault_of(error->sqlerrcode) != ATP_FAULT_ROW)
		ReThrowError(error);
	return error;
}

/* Whatever is written is refused: that is nobody's row. */
static void
count_refused(const AtpSettings *settings, const AtpEvent *event, const char *why)
{
	int			repos = settings->ndids > 0 ? Min(settings->ndids, REFUSED_REPOS) : REFUSED_REPOS;
	uint32		repo = event->key;
	int			i = 0;

	if (learnt.refused > 0 && event->seq > 0 && event->seq == learnt.refused_seq)
		return;
	learnt.refused++;
	learnt.refused_seq = event->seq;
	/* streams without repositories have key 0 */
	while (i < learnt.nrepos && (learnt.repos[i] != repo || repo == 0))
		i++;
	if (i == learnt.nrepos && i < REFUSED_REPOS)
		learnt.repos[learnt.nrepos++] = repo;
	if (learnt.refused >= REFUSED_EVENTS && learnt.nrepos >= repos)
		ereport(ERROR,
				(errcode(ATP_ERRCODE_STOP),
				 errmsg("the database refused all of the last %d events: %s", learnt.refused, why)));
}

static void
refuse(Apply *a, const AtpEvent *event, AtpSpan path, const ErrorData *error)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);
	AtpLetter  *letter = atp_batch_new_letter(a->batch, "apply", event->message, event->seq);

	strlcpy(letter->sqlstate, unpack_sql_state(error->sqlerrcode), sizeof(letter->sqlstate));
	letter->text = atp_error_text(error);
	letter->did = event->did;
	letter->path = path;
	a->refused++;
	MemoryContextSwitchTo(old);
	count_refused(&a->sub->settings, event, letter->text);
}

/* The whole event, or what is left of it without its rows. */
static void
refuse_event(Apply *a, const AtpEvent *event, const ErrorData *error)
{
	refuse(a, event, a->family->name ? a->family->name(event) : (AtpSpan) {NULL, 0}, error);
}

static void
ask(Apply *a, int index, int unused)
{
	a->accepted = a->family->accepts == NULL || a->family->accepts(a, index);
}

/* One event that fails as a whole: each row alone, then the rest of it. */
static void
apply_single(Apply *a, int index)
{
	const AtpEvent *event = &a->batch->events[index];
	ErrorData  *error;
	int64		skips[ATP_SKIP_COUNT];
	bool		accepted;

	memcpy(skips, a->skips, sizeof(skips));
	if ((error = attempt(a, ask, index, 0)) != NULL)
	{
		refuse_event(a, event, error);
		return;
	}
	accepted = a->accepted;
	/* what was skipped is counted by the rest */
	memcpy(a->skips, skips, sizeof(skips));
	for (int r = 0; accepted && r < event->nrows; r++)
	{
		int			row = event->first_row + r;

		if ((error = attempt(a, a->family->apply_row, row, index)) != NULL)
			refuse(a, event, a->batch->rows[row].path, error);
	}
	if (a->family->apply_rest != NULL &&
		(error = attempt(a, a->family->apply_rest, index, 0)) != NULL)
		refuse_event(a, event, error);
}

/* Is the transaction large enough? */
static bool
is_full(const Apply *a)
{
	return a->kept >= SUBTRANSACTIONS_MAX && a->hi > a->lo;
}

/* Events [lo, hi), halving where something fails; a->hi says how far it came. */
static void
apply_halving(Apply *a, int lo, int hi)
{
	int			mid = lo + (hi - lo) / 2;

	if (is_full(a))
		return;
	if (attempt(a, a->family->apply, lo, hi) == NULL)
		a->hi = hi;
	else if (hi - lo == 1)
	{
		apply_single(a, lo);
		a->hi = hi;
	}
	else
	{
		apply_halving(a, lo, mid);
		if (a->hi == mid)
			apply_halving(a, mid, hi);
	}
}

static void
apply_piece(Apply *a)
{
	int			n = a->batch->nevents;

	a->hi = a->lo;
	while (a->hi < n && !is_full(a))
		apply_halving(a, a->hi, Min(a->hi + learnt.step, n));
	/* a step that fails half of the time */
	if (a->refused > 0)
		learnt.step = Max((a->hi - a->lo) / (2 * a->refused), STEP_MIN);
	else if ((learnt.step *= 2) >= ATP_BATCH_MESSAGES)
		learnt.step = 0;
}

/* ------------------------------------------------------------------------
 * The transaction
 * ------------------------------------------------------------------------
 */
static void
store_gaps(Apply *a)
{
	ListCell   *lc;

	/* a connection begins with its gap: it is before the batch's first event */
	foreach(lc, a->lo == 0 ? a->batch->gaps : NIL)
	{
		const AtpGap *gap = lfirst(lc);
		Datum		args[5] = {
			CStringGetTextDatum(a->sub->name), CStringGetTextDatum(a->sub->ep->scope),
			Int64GetDatum(gap->after), Int64GetDatum(gap->before), CStringGetTextDatum("OutdatedCursor")
		};

		(void) atp_execute(ATP_SQL_ADD_GAP, args, NULL);
	}
}

/* What names the cursor, of this shard. */
static void
cursor_args(const Apply *a, Datum *args)
{
	args[0] = CStringGetTextDatum(a->sub->name);
	args[1] = CStringGetTextDatum(a->sub->ep->scope);
	args[2] = Int32GetDatum(a->batch->shard);
}

/*
 * Lock what comes after the rows, without waiting: who has it may want the
 * tables next that this transaction has written to (BEGIN; unsubscribe(); DROP
 * SCHEMA), and would be the one whom the deadlock ends.
 */
static bool
lock_cursor(Apply *a, const List *letters)
{
	Datum		args[3];

	cursor_args(a, args);
	if (atp_execute(ATP_SQL_LOCK_CURSOR, args, NULL) > 0 &&
		/* letters and gaps refer to it */
		((letters == NIL && a->batch->gaps == NIL) ||
		 atp_execute(ATP_SQL_LOCK_SUBSCRIPTION, args, NULL) > 0))
		return true;
	/* what a trigger has removed in this transaction is nobody else's */
	a->locked = atp_execute(ATP_SQL_FIND_CURSOR, args, NULL) > 0;
	return false;
}

/* Wait, with no other lock, for who has it.  False: there is none any more. */
static bool
await_cursor(const Apply *a)
{
	MemoryContext cxt = CurrentMemoryContext;
	Datum		args[3];
	bool		there = false;

	atp_begin("waiting for a change of the subscription");
	cursor_args(a, args);
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		there = atp_execute(ATP_SQL_AWAIT_CURSOR, args, NULL) > 0;
	atp_commit();
	MemoryContextSwitchTo(cxt);
	return there;
}

/* False: the cursor is not where this consumer left it. */
static bool
move_cursor(Apply *a, int64 from, int64 to)
{
	int64		time = a->hi == a->batch->nevents ? a->batch->time : a->batch->events[a->hi - 1].time;
	Datum		args[10] = {
		CStringGetTextDatum(a->sub->name), CStringGetTextDatum(a->sub->ep->scope),
		Int64GetDatum(from), Int64GetDatum(to), TimestampTzGetDatum(time - ATP_UNIX_TO_POSTGRES),
		Int64GetDatum(a->hi - a->lo), Int64GetDatum(a->rows), Int32GetDatum(a->batch->shard),
		TimestampTzGetDatum(a->sub->created_at), Int32GetDatum(a->batch->layout)
	};
	char		nulls[11] = "          ";

	nulls[2] = from < 0 ? 'n' : ' ';
	nulls[3] = to < 0 ? 'n' : ' ';
	nulls[4] = time == 0 ? 'n' : ' ';
	return atp_execute(ATP_SQL_MOVE_CURSOR, args, nulls) == 1;
}

/* A table that the stream does not fill may be missing. */
static int
tables_used(const Apply *a)
{
	int			uses = a->family->uses;

	if (uses == ATP_USE_REPOS && a->sub->settings.events != ATP_EVENTS_NONE)
		uses |= ATP_USE_EVENTS;
	return uses;
}

/* Where the stream is after this transaction, when it is seq after the batch.  Without numbers (D30) it is nowhere. */
static int64
position_after(const Apply *a, int64 from, int64 seq)
{
	int64		last;

	if (a->hi == a->batch->nevents)
		return seq;
	last = a->batch->events[a->hi - 1].seq;
	return last > 0 ? Max(from, last) : from;
}

/* Letters of this transaction; the others of the batch go to *rest. */
static List *
letters_until(const Apply *a, int64 seq, List **rest)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);
	List	   *letters = NIL;
	ListCell   *lc;

	*rest = NIL;
	foreach(lc, a->batch->letters)
	{
		AtpLetter  *letter = lfirst(lc);

		/* without numbers (D30) all of them: what was refused in this transaction is among them */
		if (a->hi == a->batch->nevents || letter->seq <= Max(seq, 0))
			letters = lappend(letters, letter);
		else
			*rest = lappend(*rest, letter);
	}
	MemoryContextSwitchTo(old);
	return letters;
}

/* Everything but the events' rows. */
static bool
store_rest(Apply *a, List *letters, int64 from, int64 to)
{
	atp_letters_store(a, letters);
	if (a->family->settle != NULL)
		a->family->settle(a);
	store_gaps(a);
	return move_cursor(a, from, to);
}

static AtpApplied
apply_once(Apply *a, Way way, int64 *cursor, int64 seq)
{
	List	   *letters;
	List	   *rest;
	int64		to;

	atp_begin("applying events");
	if (atp_extension_lock() != ATP_EXTENSION_READY)
	{
		atp_commit();
		return ATP_APPLY_GONE;
	}
	if (way == WAY_PIECES)
	{
		/* what would condemn every row is not the rows' fault */
		atp_statements_check(tables_used(a));
		/* at commit it would be too late to see whose fault it is */
		if (SPI_execute("SET CONSTRAINTS ALL IMMEDIATE", false, 0) != SPI_OK_UTILITY)
			elog(ERROR, "could not set constraints");
		apply_piece(a);
	}
	else
	{
		a->hi = a->batch->nevents;
		a->family->apply(a, a->lo, a->hi);
	}
	to = position_after(a, *cursor, seq);
	letters = letters_until(a, to, &rest);
	ATP_INJECTION_POINT("cursor next");
	if (!lock_cursor(a, letters) || !store_rest(a, letters, *cursor, to))
	{
		SPI_finish();
		PopActiveSnapshot();
		AbortCurrentTransaction();
		return ATP_APPLY_CURSOR_MOVED;
	}
	atp_commit();
	*cursor = to;
	a->batch->letters = rest;
	if (way != WAY_PIECES && a->rows > a->idle)
		learnt.refused = learnt.nrepos = 0;
	return ATP_APPLIED;
}

static void
error_context(void *arg)
{
	Apply	   *a = arg;

	if (a->batch->nevents > 0)
		errcontext("applying events " INT64_FORMAT " to " INT64_FORMAT " of subscription \"%s\"",
				   a->batch->events[0].seq, a->batch->events[a->batch->nevents - 1].seq, a->sub->name);
}

/* From event a->lo on.  NULL, or the error for which nothing was applied. */
static ErrorData *
try_once(Apply *a, Way way, int64 *cursor, int64 seq, AtpApplied *result)
{
	MemoryContext cxt = CurrentMemoryContext;
	int			letters = list_length(a->batch->letters);
	Learnt		before = learnt;
	ErrorData  *volatile error = NULL;

	a->direct = way == WAY_DIRECT;
	a->locked = false;
	a->rows = a->idle = a->kept = a->refused = 0;
	memset(a->skips, 0, sizeof(a->skips));
	PG_TRY();
	{
		*result = apply_once(a, way, cursor, seq);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(a->batch->cxt);
		error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	if (error != NULL || a->locked)
	{
		a->batch->letters = list_truncate(a->batch->letters, letters);
		/* it is done again, and then counted */
		learnt = before;
	}
	MemoryContextSwitchTo(cxt);
	return error;
}

static AtpApplied
stop(Apply *a, const ErrorData *error, const char **reason)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);

	*reason = error->sqlerrcode == ATP_ERRCODE_STOP ? atp_error_text(error)
		: psprintf("%s (SQLSTATE %s)", atp_error_text(error), unpack_sql_state(error->sqlerrcode));
	MemoryContextSwitchTo(old);
	ereport(LOG,
			(errmsg("atproto subscription \"%s\" cannot go on: %s", a->sub->name, *reason),
			 error->detail ? errdetail_internal("%s", error->detail) : 0,
			 error->hint ? errhint("%s", error->hint) : 0,
			 error->context ? errcontext("%s", error->context) : 0));
	return ATP_APPLY_STOP;
}

/* Events from a->lo on, at least one of them if there is any. */
static AtpApplied
apply_some(Apply *a, int64 *cursor, int64 seq, const char **reason)
{
	Way			way = learnt.step > 0 ? WAY_PIECES
		: learnt.with_statements > 0 ? WAY_STATEMENTS : WAY_DIRECT;
	AtpApplied	result = ATP_APPLIED;
	ErrorData  *error;

	if (way == WAY_STATEMENTS)
		learnt.with_statements--;
	while ((error = try_once(a, way, cursor, seq, &result)) != NULL || (a->locked && await_cursor(a)))
	{
		AtpFault	fault;

		if (error == NULL)
			continue;
		fault = atp_fault_of(error->sqlerrcode);
		if (error->sqlerrcode == ATP_ERRCODE_CONFLICT && way == WAY_DIRECT)
		{
			learnt.with_statements = AFTER_CONFLICT;
			way = WAY_STATEMENTS;
		}
		else if (fault == ATP_FAULT_ROW && way != WAY_PIECES)
		{
			way = WAY_PIECES;
			learnt.step = Max((a->batch->nevents - a->lo + 1) / 2, 1);
		}
		else if (fault == ATP_FAULT_PASSING)
			ReThrowError(error);
		else
			return stop(a, error, reason);
	}
	return result;
}

AtpApplied
atp_apply(const AtpSubscription *sub, AtpBatch *batch, int64 *cursor, int64 seq, const char **reason)
{
	Apply		a = {.sub = sub, .batch = batch, .family = atp_family_of(sub->ep->nsid)};
	ErrorContextCallback callback = {.callback = error_context, .arg = &a};
	AtpApplied	result;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	do
	{
		a.lo = a.hi;
		result = apply_some(&a, cursor, seq, reason);
		if (result == ATP_APPLIED)
			for (int i = 0; i < ATP_SKIP_COUNT; i++)
				batch->skips[i] += a.skips[i];
	} while (result == ATP_APPLIED && a.hi < batch->nevents);
	error_context_stack = callback.previous;
	return result;
}

static void
purge(Apply *a, int unused, int unused2)
{
	a->accepted = atp_purge_repos(a->sub);
}

bool
atp_purge(const AtpSubscription *sub, MemoryContext cxt)
{
	Apply		a = {.sub = sub, .batch = &(AtpBatch) {.cxt = cxt}};
	ErrorData  *error;

	if (atp_family_of(sub->ep->nsid) != &atp_repos_family)
		return false;
	atp_begin("removing records of deleted accounts");
	if (atp_extension_lock() == ATP_EXTENSION_READY && (error = atp_attempt(&a, purge, 0, 0)) != NULL)
		ereport(LOG,
				(errmsg("records of deleted accounts stay, not visible, for atproto subscription \"%s\": %s",
						sub->name, error->message),
				 errdetail("The consumer tries again when it starts the next time.")));
	atp_commit();
	return a.accepted;
}
