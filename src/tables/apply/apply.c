/*
 * apply.c
 *		Apply a batch to the tables, and move its progress in the same transaction.
 *
 * What the events do to the tables is the sink's task.  This file runs the transactions, and decides what follows an error;
 * apply_pieces.c finds the rows that the database refuses.  Invariant: rows, dead letters and progress are committed
 * together.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/clock.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/transaction.h"
#include "common/injection.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "stream/rev_cache.h"
#include "tables/apply/apply.h"
#include "tables/apply/apply_pieces.h"
#include "tables/base/blocked.h"
#include "tables/base/derived.h"
#include "tables/direct/direct.h"
#include "tables/base/error_class.h"
#include "tables/repos/dead_letter.h"
#include "tables/base/node_mark.h"
#include "tables/records/link_count.h"
#include "tables/base/progress.h"
#include "tables/base/sweep.h"
#include "tables/apply/suspect.h"
#include "tables/apply/sweep_end.h"
#include "tables/base/table_locks.h"
#include "tables/repos/multi_source.h"
#include "tables/apply/validate.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* The number of batches applied with statements after a direct insert has met a conflict. */
#define AFTER_CONFLICT	16

/* Pauses between attempts while a session has a row locked that the batch needs: each is twice as long as the one before. */
#define PAUSE_MIN_MS	50
#define PAUSE_MAX_MS	1600

typedef enum ApplyWay
{
	WAY_DIRECT,					/* all events at once; new rows go directly into the table where direct.h allows */
	WAY_STATEMENTS,				/* all events at once, with SQL statements */
	WAY_PIECES
} ApplyWay;

/* batches still to be applied with statements: after one duplicate row, more duplicates often follow */
static int	with_statements;

/* The tables that the transaction needs.  Tables that the stream does not fill need not exist. */
static int
tables_used(const AtpApply *a)
{
	int			uses = a->sink->uses;

	if (uses & ATP_USE_REPOS)
		uses |= atp_derived_uses(a->sub);
	if ((uses & ATP_USE_REPOS) && atp_sweep_known(a->sub->target) == ATP_SWEEP_SHARED)
		uses |= ATP_USE_SWEEP;
	return uses;
}

/*
 * Does the letter belong to an event that is not applied now?  A held event will be decoded again, and makes its letter
 * again; letters of ignored or false events are obsolete.
 */
static bool
is_void(const AtpDeadLetter *letter)
{
	return letter->event != NULL && letter->event->verdict.judged != ATP_JUDGED_TRUE && letter->stage != atp_stage_signature;
}

/* Does the letter belong to this transaction, which ends before event a->hi and reaches sequence number seq? */
static bool
is_due(const AtpApply *a, const AtpDeadLetter *letter, int64 seq)
{
	if (a->hi == a->batch->nevents)
		return true;
	if (letter->event != NULL)
		return letter->event < &a->batch->events[a->hi];
	/* a stream without sequence numbers (D30): seq of every letter is 0, so all letters are due */
	return letter->seq <= Max(seq, 0);
}

/* The letters of this transaction; *rest is set to the batch's remaining letters. */
static List *
letters_until(AtpApply *a, int64 seq, List **rest)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);
	List	   *letters = NIL;
	ListCell   *lc;

	*rest = NIL;
	foreach(lc, a->batch->letters)
	{
		AtpDeadLetter *letter = lfirst(lc);

		if (!is_due(a, letter, seq))
			*rest = lappend(*rest, letter);
		else if (is_void(letter))
			a->skips[ATP_SKIP_INVALID]--;
		else
			letters = lappend(letters, letter);
	}
	MemoryContextSwitchTo(old);
	return letters;
}

/* Does an event change a job, or request a status?  Both have a foreign key to the subscription's row. */
static bool
has_requests(const AtpApply *a)
{
	bool		has = false;

	for (int i = a->lo; i < a->hi && !has; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		has = !event->ignored && (event->effects.fetch != ATP_FETCH_NOT || event->effects.doubts);
	}
	return has;
}

/* Write the dead letters and the sink's concluding rows, and move the progress.  False: the progress has changed elsewhere. */
static bool
store_rest(AtpApply *a, List *letters)
{
	atp_dead_letters_store(a, letters);
	if (a->sink->after_apply != NULL)
		a->sink->after_apply(a);
	if (a->sink->drop_superseded_letters != NULL)
		a->sink->drop_superseded_letters(a);
	return a->progress->move(a->progress, a);
}

/*
 * After this number of attempts to lock all tables at once, the batch waits for one table after another while it keeps
 * its locks, as an INSERT does.  Otherwise sessions that lock several of the tables all the time could keep the
 * batch waiting forever.
 */
#define LOCK_ATTEMPTS_MAX	10

typedef enum Begun
{
	BEGUN,
	BEGUN_WITHOUT,				/* no extension; the transaction has ended */
	BEGUN_IN_VAIN				/* a table is locked elsewhere; the transaction has ended, and the next attempt waits for this table first */
} Begun;

/*
 * False: PostgreSQL chose this process as deadlock victim during the wait for the table.  The process held no other
 * lock, so the caller tries again.
 */
static bool
begin_with_table(const char *activity, Oid relid)
{
	MemoryContext cxt = CurrentMemoryContext;
	volatile bool begun = false;

	PG_TRY();
	{
		atp_begin_with_table(activity, relid);
		begun = true;
	}
	PG_CATCH();
	{
		if (geterrcode() != ERRCODE_T_R_DEADLOCK_DETECTED)
			PG_RE_THROW();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	return begun;
}

/* Begin a transaction with locks on the extension and on all tables; if a lock is not available, keep none. */
static Begun
begin_locked(AtpApply *a, const char *activity)
{
	if (!begin_with_table(activity, a->lock_first))
		return BEGUN_IN_VAIN;
	if (OidIsValid(a->lock_first) && !atp_extension_lock_at_once())
	{
		/* a session that drops the extension needs this table's lock as well: waiting here could be a deadlock */
		a->lock_first = InvalidOid;
		atp_abort();
		return BEGUN_IN_VAIN;
	}
	if (atp_extension_lock() != ATP_EXTENSION_READY)
	{
		atp_commit();
		return BEGUN_WITHOUT;
	}
	a->lock_first = atp_tables_lock(a->statements, tables_used(a), a->lock_attempts >= LOCK_ATTEMPTS_MAX);
	if (!OidIsValid(a->lock_first))
	{
		a->lock_attempts = 0;
		return BEGUN;
	}
	a->lock_attempts++;
	atp_abort();
	return BEGUN_IN_VAIN;
}

/* ERROR unless the tables have values of the type that the batch has. */
static void
require_values(AtpApply *a)
{
	if (a->sink->uses & ATP_USE_REPOS)
		atp_require_values(a->statements, &a->sub->settings, tables_used(a));
}

/* Begin a transaction, however long the wait for the locks.  False: the extension does not exist. */
static bool
begin_at_last(AtpApply *a, const char *activity)
{
	Begun		begun;

	while ((begun = begin_locked(a, activity)) == BEGUN_IN_VAIN)
		CHECK_FOR_INTERRUPTS();
	return begun == BEGUN;
}

static AtpApplied
apply_once(AtpApply *a, ApplyWay way, bool *others)
{
	AtpProgress *progress = a->progress;
	AtpLocked	locked;
	List	   *letters;
	List	   *rest;
	Begun		begun;
	char	   *fault;

	a->nrev_entries = 0;
	/* not in WAY_PIECES: a subtransaction may be rolled back, and the cache must not have its revisions */
	a->shared = way != WAY_PIECES && (a->sink->uses & ATP_USE_REPOS) != 0 && atp_multi_source_is_shared(a->statements);
	a->generation = atp_rev_cache_generation();
	if ((begun = begin_locked(a, "applying events")) != BEGUN)
	{
		/* the session with the table's lock may have removed the cursor, too: the caller has to look again */
		*others = begun == BEGUN_IN_VAIN;
		return *others ? ATP_APPLY_CURSOR_MOVED : ATP_APPLY_GONE;
	}
	/* a subscription whose owner has lost the right to fill the target stops before the first write */
	if ((fault = atp_target_fault_since(a->sub->owner, a->sub->target, a->sub->target_owner)) != NULL)
		ereport(ERROR, (errcode(ATP_ERRCODE_STOP), errmsg("%s", fault)));
	require_values(a);
	atp_blocks_apply(a);
	a->nletters = list_length(a->batch->letters);
	if (way == WAY_PIECES)
	{
		/* raise errors that would meet every row here, before any row is blamed */
		atp_statements_check(a->statements, tables_used(a));
		/* deferred constraints would fail at commit, when the failing row can no longer be found */
		atp_run("SET CONSTRAINTS ALL IMMEDIATE", ATP_NO_ARGS);
		atp_pieces_apply(a);
		atp_suspects_judge(a->suspects);
	}
	else
	{
		a->hi = a->batch->nevents;
		a->sink->apply(a, a->lo, a->hi);
	}
	if (a->sink->reject_unsigned != NULL)
		a->sink->reject_unsigned(a);
	atp_link_counts_write(a);
	letters = letters_until(a, progress->reach(progress, a), &rest);
	ATP_INJECTION_POINT("cursor next");
	/* dead letters, gaps and held events have foreign keys to the subscription's row, too */
	locked = progress->lock(progress, a, letters != NIL || a->batch->gaps != NIL || a->skips[ATP_SKIP_HELD] > 0 || has_requests(a));
	*others = locked == ATP_LOCKED_BY_OTHERS;
	if (locked != ATP_LOCKED || !store_rest(a, letters))
	{
		atp_abort();
		return ATP_APPLY_CURSOR_MOVED;
	}
	atp_nodes_mark(a->statements, a->sub);
	atp_commit();
	if (a->nrev_entries > 0)
		atp_rev_cache_put(a->generation, a->batch->shared, a->rev_entries, a->nrev_entries);
	progress->moved(progress);
	a->batch->letters = rest;
	if (way != WAY_PIECES)
		atp_pieces_note_whole(a);
	return ATP_APPLIED;
}

static void
error_context(void *arg)
{
	AtpApply   *a = arg;

	if (a->batch->nevents > 0)
		errcontext("applying events " INT64_FORMAT " to " INT64_FORMAT " of subscription \"%s\"",
				   a->batch->events[0].seq, a->batch->events[a->batch->nevents - 1].seq, a->sub->name);
}

/* In PG_CATCH: copy the error into the batch's memory, and abort the transaction. */
static ErrorData *
take_error(AtpApply *a)
{
	ErrorData  *error;

	MemoryContextSwitchTo(a->batch->cxt);
	error = CopyErrorData();
	FlushErrorState();
	AbortOutOfAnyTransaction();
	return error;
}

/* Run one transaction from event a->lo on.  Returns NULL, or the error that rolled back the transaction. */
static ErrorData *
try_once(AtpApply *a, ApplyWay way, AtpApplied *result, bool *others)
{
	MemoryContext cxt = CurrentMemoryContext;
	AtpPieces	before = atp_pieces;
	ErrorData  *volatile error = NULL;

	a->direct = way == WAY_DIRECT;
	a->nletters = list_length(a->batch->letters);
	*others = false;
	Assert(!atp_queue_wait.limited);
	atp_queue_wait = (AtpQueueWait) {.limited = true};
	a->rows = a->noop_rows = a->removed = a->subxacts = a->refused = 0;
	a->counts = NULL;
	a->ncounts = 0;
	memset(a->skips, 0, sizeof(a->skips));
	atp_suspects_begin(a->suspects);
	PG_TRY();
	{
		*result = apply_once(a, way, others);
	}
	PG_CATCH();
	{
		error = take_error(a);
	}
	PG_END_TRY();
	atp_queue_wait.limited = false;
	if (error != NULL || *others)
	{
		a->batch->letters = list_truncate(a->batch->letters, a->nletters);
		/* the rolled back events are applied again, and counted then */
		atp_pieces = before;
	}
	MemoryContextSwitchTo(cxt);
	return error;
}

/* Have the rows added that the derived tables need first.  Returns NULL, or the error that rolled back the transaction. */
static ErrorData *
prepare_derived(AtpApply *a)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	ATP_INJECTION_POINT("preparation next");
	a->prepared = true;
	PG_TRY();
	{
		/* a transaction for each step: in a single transaction, the locks of two processes could deadlock */
		for (int step = 0; step < atp_derived_steps(a->sub); step++)
			if (begin_at_last(a, "preparing derived tables"))
			{
				require_values(a);
				atp_derived_prepare_step(a, step);
				atp_nodes_mark(a->statements, a->sub);
				atp_commit();
			}
	}
	PG_CATCH();
	{
		error = take_error(a);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	return error;
}

AtpApplied
atp_apply_stop(const AtpSubscription *sub, MemoryContext cxt, const ErrorData *error, const char **reason)
{
	MemoryContext old = MemoryContextSwitchTo(cxt);

	*reason = error->sqlerrcode == ATP_ERRCODE_STOP ? atp_error_text(error)
		: psprintf("%s (SQLSTATE %s)", atp_error_text(error), unpack_sql_state(error->sqlerrcode));
	MemoryContextSwitchTo(old);
	ereport(LOG,
			(errmsg("atproto subscription \"%s\" cannot go on: %s", sub->name, *reason),
			 error->detail ? errdetail_internal("%s", error->detail) : 0,
			 error->hint ? errhint("%s", error->hint) : 0,
			 error->context ? errcontext("%s", error->context) : 0));
	return ATP_APPLY_STOP;
}

/*
 * Wait without any lock, before a batch is applied again that would have waited too long for a row of the extension's
 * tables.  The ERROR does not name the row, so this process cannot wait for the end of the session's transaction itself.
 */
static void
pause_for(AtpApply *a, const ErrorData *error, int *pause_ms)
{
	AtpTime		begun = atp_now();
	long		left;

	if (*pause_ms == PAUSE_MAX_MS / 2)
		ereport(LOG,
				(errmsg("atproto subscription \"%s\" waits for another session: %s", a->sub->name, error->message),
				 error->context ? errcontext("%s", error->context) : 0));
	pgstat_report_activity(STATE_IDLE, "waiting for a row that a session has locked");
	while ((left = atp_remaining(atp_now(), begun, *pause_ms)) > 0)
	{
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, left, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	/* the main loop looks for the events whose latch events were consumed here */
	SetLatch(MyLatch);
	*pause_ms = Min(*pause_ms * 2, PAUSE_MAX_MS);
}

/*
 * Apply events from a->lo on in one transaction, at least one event if the batch has any; repeat the transaction
 * after errors that allow a repetition.
 */
static AtpApplied
apply_some(AtpApply *a, const char **reason)
{
	ApplyWay	way = atp_pieces.step > 0 ? WAY_PIECES
		: with_statements > 0 ? WAY_STATEMENTS : WAY_DIRECT;
	AtpSuspects suspects = {
		.batch = a->batch, .target = atp_target(a->statements), .repos_max = atp_pieces_repos_needed(&a->sub->settings)
	};
	AtpApplied	result = ATP_APPLIED;
	bool		others;
	int			pause_ms = PAUSE_MIN_MS;
	ErrorData  *error;

	a->suspects = &suspects;
	if (way == WAY_STATEMENTS)
		with_statements--;
	while ((error = try_once(a, way, &result, &others)) != NULL ||
		   (others && a->progress->await(a->progress, a)))
	{
		AtpErrorClass fault;

		if (error == NULL)
			continue;
		fault = atp_error_class(error->sqlerrcode);
		if (error->sqlerrcode == ATP_ERRCODE_CONFLICT && way == WAY_DIRECT)
		{
			with_statements = AFTER_CONFLICT;
			way = WAY_STATEMENTS;
		}
		else if (error->sqlerrcode == ATP_ERRCODE_PREPARE && !a->prepared)
		{
			/* an error here cannot be blamed on an event, because the rows that are added belong to no event */
			if ((error = prepare_derived(a)) == NULL)
				continue;
			if (atp_error_class(error->sqlerrcode) == ATP_ERROR_PASSING)
				ReThrowError(error);
			return atp_apply_stop(a->sub, a->batch->cxt, error, reason);
		}
		else if (error->sqlerrcode == ATP_ERRCODE_TRY_AGAIN)
			continue;
		else if (atp_queue_wait_failed(error->sqlerrcode))
		{
			pause_for(a, error, &pause_ms);
			if (!a->progress->await(a->progress, a))
				return ATP_APPLY_CURSOR_MOVED;
		}
		else if (way != WAY_PIECES && atp_sqlstate_may_be_row(error->sqlerrcode))
		{
			way = WAY_PIECES;
			atp_pieces.step = Max((a->batch->nevents - a->lo + 1) / 2, 1);
		}
		else if (fault == ATP_ERROR_PASSING || suspects.undecided)
			ReThrowError(error);
		else
			return atp_apply_stop(a->sub, a->batch->cxt, error, reason);
	}
	return result;
}

/* Validate in a separate transaction, so that the work is done once even if transactions that write the rows are repeated. */
static void
validate_records(const AtpSubscription *sub, const AtpSink *sink, AtpBatch *batch)
{
	if (sub->settings.nvalidate == 0 || batch->nrows == 0 || !(sink->uses & ATP_USE_REPOS))
		return;
	atp_begin("judging records by their Lexicons");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		atp_validate_batch(sub, batch);
	atp_commit();
}

/* H-43: bound what is kept while a sweep runs, and empty it when the sweep has ended. */
static void
look_after_sweep(const AtpApply *a)
{
	/* a former process of the subscription may have kept deletions, and may have ended before the sweep */
	static bool keeps = true;

	if (a->sweep == ATP_SWEEP_SHARED)
		atp_sweep_bound(a->sub, a->statements);
	else if (keeps)
		atp_sweep_tidy(a->sub, a->statements);
	keeps = a->sweep == ATP_SWEEP_SHARED;
}

#ifdef ATP_INJECTION_POINTS

/* For tests: the events of this subscription's stream count as rows of its archive. */
static char *archived;

void
atp_apply_init(void)
{
	DefineCustomStringVariable("atproto.test_archived",
							   "For tests: name of a subscription whose events count as rows of an archive.",
							   NULL, &archived, "", PGC_SIGHUP, 0, NULL, NULL, NULL);
}

static void
mark_archived(const AtpSubscription *sub, AtpBatch *batch)
{
	for (int i = 0; i < batch->nevents && strcmp(sub->name, archived) == 0; i++)
		batch->events[i].archived = batch->events[i].of_archive = true;
}

#else

#define mark_archived(sub, batch)	((void) 0)

#endif

AtpApplied
atp_apply(const AtpSubscription *sub, const AtpSink *sink, AtpStatements *statements, AtpBatch *batch,
		  AtpProgress *progress, const char **reason)
{
	AtpApply	a = {.sub = sub, .sink = sink, .statements = statements, .batch = batch, .progress = progress};
	ErrorContextCallback callback = {.callback = error_context, .arg = &a};
	AtpApplied	result;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	validate_records(sub, sink, batch);
	mark_archived(sub, batch);
	do
	{
		a.lo = a.hi;
		result = apply_some(&a, reason);
		if (result == ATP_APPLIED)
			for (int i = 0; i < ATP_SKIP_COUNT; i++)
				batch->skips[i] += a.skips[i];
	} while (result == ATP_APPLIED && a.hi < batch->nevents);
	error_context_stack = callback.previous;
	if (result == ATP_APPLIED)
		look_after_sweep(&a);
	return result;
}

static void
purge_step(AtpApply *a, int unused, int unused2)
{
	atp_target_require(a->sub->owner, a->sub->target, a->sub->target_owner);
	require_values(a);
	a->accepted = a->sink->purge(a);
	atp_link_counts_write(a);
}

bool
atp_purge(const AtpSubscription *sub, const AtpSink *sink, AtpStatements *statements, MemoryContext cxt)
{
	AtpApply	a = {.sub = sub, .sink = sink, .statements = statements, .batch = &(AtpBatch) {.cxt = cxt}};
	ErrorData  *error;

	if (sink->purge == NULL || !begin_at_last(&a, "removing records of deleted accounts"))
		return false;
	if ((error = atp_attempt(&a, purge_step, 0, 0)) != NULL)
		ereport(LOG,
				(errmsg("records of deleted accounts stay, not visible, for atproto subscription \"%s\": %s",
						sub->name, error->message),
				 errdetail("The consumer tries again in some minutes, or when it starts the next time.")));
	atp_nodes_mark(a.statements, sub);
	atp_commit();
	return a.accepted;
}
