/*
 * apply.c
 *		A batch into the tables, with its progress, in one transaction.
 *
 * What the events do to the tables is the sink's business; here are the
 * transaction, and the search for what the database refuses.
 *
 * A batch in which something is refused is applied in pieces, each a transaction
 * with a bounded number of subtransactions, and so are the next ones, in steps
 * that follow from how often something was refused.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/transaction.h"
#include "common/injection.h"
#include "miscadmin.h"
#include "stream/rev_cache.h"
#include "tables/apply/apply.h"
#include "tables/base/derived.h"
#include "tables/direct/direct_insert.h"
#include "tables/base/error_class.h"
#include "tables/repos/dead_letter.h"
#include "tables/records/link_rows.h"
#include "tables/base/node_mark.h"
#include "tables/base/progress.h"
#include "tables/apply/suspect.h"
#include "tables/base/table_locks.h"
#include "tables/repos/multi_source.h"
#include "tables/apply/validate.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* So many batches are applied with statements after writing into the heap met a conflict. */
#define AFTER_CONFLICT	16

/* What is kept of more subtransactions than this, other sessions have to look up on disk. */
#define SUBTRANSACTIONS_MAX	64

/*
 * So many events in a row of which rows are refused and none is accepted, of so many
 * repositories: then it is not the rows' fault.  Rows are not counted: with 200 in a
 * commit, a handful of accounts could make so many between two of others.
 */
#define REFUSED_EVENTS	100
#define REFUSED_REPOS	ATP_SUSPECT_REPOS

/* Steps are no smaller because of what was refused before. */
#define STEP_MIN	16

typedef enum Way
{
	WAY_HEAP,					/* all at once, new rows without statements where heap.h allows it */
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

/* What was done so far. */
typedef struct Done
{
	int64		puts;
	int64		removed;
	int64		skipped;
} Done;

static Done
done_so_far(const AtpApply *a)
{
	Done		done = {a->rows - a->idle - a->removed, a->removed, 0};

	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		done.skipped += a->skips[i];
	return done;
}

/* How many events of a step, if it is about events as a whole, were neither ignored nor passed over. */
static int64
states_written(const AtpApply *a, AtpStep step, int first, int second, int64 skipped)
{
	int64		n = -skipped;

	if (step != a->sink->apply && step != a->sink->apply_rest)
		return 0;
	for (int i = first; i < (step == a->sink->apply ? second : first + 1); i++)
		if (!a->batch->events[i].ignored)
			n++;
	return n;
}

/* What passes speaks for the tables. */
static void
note_passed(AtpApply *a, AtpStep step, int first, int second, Done before)
{
	Done		done = done_so_far(a);

	if (done.puts > before.puts)
		atp_suspects_pass(a->suspects, ATP_PASSED_PUT);
	if (done.removed > before.removed)
		atp_suspects_pass(a->suspects, ATP_PASSED_REMOVED);
	if (states_written(a, step, first, second, done.skipped - before.skipped) > 0)
		atp_suspects_pass(a->suspects, ATP_PASSED_STATE);
	/* who removes nothing meets no trigger */
	if (done.puts > before.puts || done.removed > before.removed)
		learnt.refused = learnt.nrepos = 0;
}

/* Like atp_attempt(), for what may lie in the row. */
static ErrorData *
attempt(AtpApply *a, AtpStep step, int first, int second)
{
	Done		before = done_so_far(a);
	ErrorData  *error = atp_attempt(a, step, first, second);

	if (error == NULL)
	{
		a->kept++;
		note_passed(a, step, first, second, before);
	}
	else if (!atp_error_may_be_row(a, error))
		ReThrowError(error);
	return error;
}

/* How many repositories there must be before what they all meet is not their fault. */
static int
repos_needed(const AtpSettings *settings)
{
	return settings->ndids > 0 ? Min(settings->ndids, REFUSED_REPOS) : REFUSED_REPOS;
}

/* Whatever is written is refused: that is nobody's row. */
static void
count_refused(const AtpSettings *settings, const AtpEvent *event, ErrorData *error)
{
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
	if (learnt.refused < REFUSED_EVENTS || learnt.nrepos < repos_needed(settings))
		return;
	/* then it is what its class says */
	if (atp_fault_of(error->sqlerrcode) != ATP_FAULT_ROW)
		ReThrowError(error);
	ereport(ERROR,
			(errcode(ATP_ERRCODE_STOP),
			 errmsg("the database refused all of the last %d events: %s", learnt.refused, atp_error_text(error))));
}

/* row: that of the batch; -1: what else the event changes. */
static void
refuse(AtpApply *a, AtpEvent *event, int row, AtpSpan path, ErrorData *error)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);
	AtpLetter  *letter = atp_batch_new_letter(a->batch, "apply", event->message, event->seq);
	AtpPassed	kind = row < 0 ? ATP_PASSED_STATE : ATP_PASSED_PUT;

	strlcpy(letter->sqlstate, unpack_sql_state(error->sqlerrcode), sizeof(letter->sqlstate));
	letter->text = atp_error_text(error);
	letter->did = event->did;
	letter->path = path;
	letter->event = event;
	a->refused++;
	MemoryContextSwitchTo(old);
	if (row >= 0 && (a->sink->uses & ATP_USE_REPOS) && a->batch->rows[row].record.action == ATP_DELETE)
		kind = ATP_PASSED_REMOVED;
	if (atp_fault_of(error->sqlerrcode) != ATP_FAULT_ROW)
		atp_suspects_add(a->suspects, kind, (int) (event - a->batch->events), row, error);
	count_refused(&a->sub->settings, event, error);
}

/* The whole event, or what is left of it without its rows. */
static void
refuse_event(AtpApply *a, AtpEvent *event, ErrorData *error)
{
	refuse(a, event, -1, a->sink->name ? a->sink->name(event) : (AtpSpan) {NULL, 0}, error);
	/* whatever the verdict on it would have been */
	event->judged = ATP_JUDGED_TRUE;
}

static void
ask(AtpApply *a, int index, int unused)
{
	a->accepted = a->sink->accepts == NULL || a->sink->accepts(a, index);
}

/* One event that fails as a whole: each row alone, then the rest of it. */
static void
apply_single(AtpApply *a, int index)
{
	AtpEvent   *event = &a->batch->events[index];
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

		if ((error = attempt(a, a->sink->apply_row, row, index)) != NULL)
		{
			refuse(a, event, row, a->batch->rows[row].path, error);
			event->lacking = true;
		}
	}
	if (a->sink->apply_rest != NULL &&
		(error = attempt(a, a->sink->apply_rest, index, 0)) != NULL)
		refuse_event(a, event, error);
}

/* Is the transaction large enough? */
static bool
is_full(const AtpApply *a)
{
	return a->kept >= SUBTRANSACTIONS_MAX && a->hi > a->lo;
}

/* Events [lo, hi), halving where something fails; a->hi says how far it came. */
static void
apply_halving(AtpApply *a, int lo, int hi)
{
	int			mid = lo + (hi - lo) / 2;

	if (is_full(a))
		return;
	if (attempt(a, a->sink->apply, lo, hi) == NULL)
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
apply_piece(AtpApply *a)
{
	int			n = a->batch->nevents;

	a->hi = a->lo;
	while (a->hi < n && !is_full(a))
		apply_halving(a, a->hi, Min(a->hi + learnt.step, n));
	/* a step that fails half of the time */
	if (a->refused > 0)
		learnt.step = Max((a->hi - a->lo) / (2 * a->refused), STEP_MIN);
	else if ((learnt.step *= 2) >= ATP_BATCH_EVENTS)
		learnt.step = 0;
}

/* ------------------------------------------------------------------------
 * The transaction
 * ------------------------------------------------------------------------
 */
/* A table that the stream does not fill may be missing. */
static int
tables_used(const AtpApply *a)
{
	int			uses = a->sink->uses;

	if (uses & ATP_USE_REPOS)
		uses |= atp_derived_uses(a->sub);
	return uses;
}

/* Is it about what an event says that is not taken?  Then it comes again with the event, if it does. */
static bool
is_void(const AtpLetter *letter)
{
	return letter->event != NULL && letter->event->judged != ATP_JUDGED_TRUE && letter->stage != atp_stage_signature;
}

/* Of this transaction, which comes to an event, or to a sequence number? */
static bool
is_due(const AtpApply *a, const AtpLetter *letter, int64 seq)
{
	if (a->hi == a->batch->nevents)
		return true;
	if (letter->event != NULL)
		return letter->event < &a->batch->events[a->hi];
	/* without numbers (D30) all of them: what was refused in this transaction is among them */
	return letter->seq <= Max(seq, 0);
}

/* Letters of this transaction; the others of the batch go to *rest. */
static List *
letters_until(AtpApply *a, int64 seq, List **rest)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);
	List	   *letters = NIL;
	ListCell   *lc;

	*rest = NIL;
	foreach(lc, a->batch->letters)
	{
		AtpLetter  *letter = lfirst(lc);

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

static bool
has_jobs(const AtpApply *a)
{
	bool		has = false;

	for (int i = a->lo; i < a->hi && !has; i++)
		has = a->batch->events[i].fetch != ATP_FETCH_NOT && !a->batch->events[i].ignored;
	return has;
}

/* Everything but the events' rows. */
static bool
store_rest(AtpApply *a, List *letters)
{
	atp_letters_store(a, letters);
	if (a->sink->conclude != NULL)
		a->sink->conclude(a);
	if (a->sink->settle != NULL)
		a->sink->settle(a);
	return a->progress->move(a->progress, a);
}

/*
 * So many times the tables are not to be had together: then others want several of them all the time,
 * and a batch waits for one after the other, as an INSERT does.
 */
#define VAIN_MAX	10

typedef enum Begun
{
	BEGUN,
	BEGUN_WITHOUT,				/* the extension is not there: there is no transaction */
	BEGUN_IN_VAIN				/* nor here; begun again, it waits for what somebody else has */
} Begun;

/* False: sessions that wait for each other have met who waits for the same table, but has none: it is not his affair. */
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

/* With the extension and all the tables, or with nothing. */
static Begun
begin(AtpApply *a, const char *activity)
{
	if (!begin_with_table(activity, a->awaited))
		return BEGUN_IN_VAIN;
	if (OidIsValid(a->awaited) && !atp_extension_lock_at_once())
	{
		/* who drops the extension wants this table, too */
		a->awaited = InvalidOid;
		atp_abort();
		return BEGUN_IN_VAIN;
	}
	if (atp_extension_lock() != ATP_EXTENSION_READY)
	{
		atp_commit();
		return BEGUN_WITHOUT;
	}
	a->awaited = atp_tables_lock(a->statements, tables_used(a), a->vain >= VAIN_MAX);
	if (!OidIsValid(a->awaited))
	{
		a->vain = 0;
		return BEGUN;
	}
	a->vain++;
	atp_abort();
	return BEGUN_IN_VAIN;
}

/* False: the extension is not there. */
static bool
begin_at_last(AtpApply *a, const char *activity)
{
	Begun		begun;

	while ((begun = begin(a, activity)) == BEGUN_IN_VAIN)
		CHECK_FOR_INTERRUPTS();
	return begun == BEGUN;
}

static AtpApplied
apply_once(AtpApply *a, Way way, bool *others)
{
	AtpProgress *progress = a->progress;
	AtpLocked	locked;
	List	   *letters;
	List	   *rest;
	Begun		begun;
	char	   *fault;

	a->nrecents = 0;
	/* a piece may be rolled back alone */
	a->shared = way != WAY_PIECES && (a->sink->uses & ATP_USE_REPOS) != 0 && atp_union_is_shared(a->statements);
	a->generation = atp_recent_generation();
	if ((begun = begin(a, "applying events")) != BEGUN)
	{
		/* who has the table may have taken the cursor away as well */
		*others = begun == BEGUN_IN_VAIN;
		return *others ? ATP_APPLY_CURSOR_MOVED : ATP_APPLY_GONE;
	}
	/* a role that has lost its rights stops here, before anything that it holds is used */
	if ((fault = atp_target_fault_since(a->sub->owner, a->sub->target, a->sub->target_owner)) != NULL)
		ereport(ERROR, (errcode(ATP_ERRCODE_STOP), errmsg("%s", fault)));
	if (way == WAY_PIECES)
	{
		/* what would condemn every row is not the rows' fault */
		atp_statements_check(a->statements, tables_used(a));
		/* at commit it would be too late to see whose fault it is */
		atp_run("SET CONSTRAINTS ALL IMMEDIATE", ATP_NO_ARGS);
		apply_piece(a);
		atp_suspects_judge(a->suspects);
	}
	else
	{
		a->hi = a->batch->nevents;
		a->sink->apply(a, a->lo, a->hi);
	}
	if (a->sink->condemn != NULL)
		a->sink->condemn(a);
	letters = letters_until(a, progress->reach(progress, a), &rest);
	ATP_INJECTION_POINT("cursor next");
	/* letters, gaps, jobs and events that wait refer to the subscription */
	locked = progress->lock(progress, a, letters != NIL || a->batch->gaps != NIL || a->skips[ATP_SKIP_HELD] > 0 || has_jobs(a));
	*others = locked == ATP_LOCKED_BY_OTHERS;
	if (locked != ATP_LOCKED || !store_rest(a, letters))
	{
		atp_abort();
		return ATP_APPLY_CURSOR_MOVED;
	}
	atp_nodes_mark(a->statements, a->sub);
	atp_commit();
	if (a->nrecents > 0)
		atp_recent_put(a->generation, a->batch->shared, a->recents, a->nrecents);
	progress->moved(progress);
	a->batch->letters = rest;
	if (way != WAY_PIECES)
		note_passed(a, a->sink->apply, a->lo, a->hi, (Done) {0});
	return ATP_APPLIED;
}

static void
error_context(void *arg)
{
	AtpApply	   *a = arg;

	if (a->batch->nevents > 0)
		errcontext("applying events " INT64_FORMAT " to " INT64_FORMAT " of subscription \"%s\"",
				   a->batch->events[0].seq, a->batch->events[a->batch->nevents - 1].seq, a->sub->name);
}

/* The error that was caught, which ends the transaction; it lives as long as the batch. */
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

/* From event a->lo on.  NULL, or the error for which nothing was applied. */
static ErrorData *
try_once(AtpApply *a, Way way, AtpApplied *result, bool *others)
{
	MemoryContext cxt = CurrentMemoryContext;
	int			letters = list_length(a->batch->letters);
	Learnt		before = learnt;
	ErrorData  *volatile error = NULL;

	a->heap = way == WAY_HEAP;
	*others = false;
	a->rows = a->idle = a->removed = a->kept = a->refused = 0;
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
	if (error != NULL || *others)
	{
		a->batch->letters = list_truncate(a->batch->letters, letters);
		/* it is done again, and then counted */
		learnt = before;
	}
	MemoryContextSwitchTo(cxt);
	return error;
}

/* NULL, or the error for which none was added. */
static ErrorData *
add_sources(AtpApply *a)
{
	static void (*const steps[]) (AtpApply *a) = {atp_link_sources_name, atp_link_sources_bring};
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	ATP_INJECTION_POINT("sources next");
	a->has_sources = true;
	PG_TRY();
	{
		/* apart: no two processes want what the other one has */
		for (int i = 0; i < lengthof(steps); i++)
			if (begin_at_last(a, "adding sources of links"))
			{
				steps[i] (a);
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

static AtpApplied
stop(AtpApply *a, const ErrorData *error, const char **reason)
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
apply_some(AtpApply *a, const char **reason)
{
	Way			way = learnt.step > 0 ? WAY_PIECES
		: learnt.with_statements > 0 ? WAY_STATEMENTS : WAY_HEAP;
	AtpSuspects suspects = {
		.batch = a->batch, .target = atp_target(a->statements), .repos_max = repos_needed(&a->sub->settings)
	};
	AtpApplied	result = ATP_APPLIED;
	bool		others;
	ErrorData  *error;

	a->suspects = &suspects;
	if (way == WAY_STATEMENTS)
		learnt.with_statements--;
	while ((error = try_once(a, way, &result, &others)) != NULL ||
		   (others && a->progress->await(a->progress, a)))
	{
		AtpFault	fault;

		if (error == NULL)
			continue;
		fault = atp_fault_of(error->sqlerrcode);
		if (error->sqlerrcode == ATP_ERRCODE_CONFLICT && way == WAY_HEAP)
		{
			learnt.with_statements = AFTER_CONFLICT;
			way = WAY_STATEMENTS;
		}
		else if (error->sqlerrcode == ATP_ERRCODE_SOURCES && !a->has_sources)
		{
			/* rows of link_source are nobody's event */
			if ((error = add_sources(a)) == NULL)
				continue;
			if (atp_fault_of(error->sqlerrcode) == ATP_FAULT_PASSING)
				ReThrowError(error);
			return stop(a, error, reason);
		}
		else if (error->sqlerrcode == ATP_ERRCODE_TRY_AGAIN)
			continue;
		else if (way != WAY_PIECES && atp_fault_may_be_row(error->sqlerrcode))
		{
			way = WAY_PIECES;
			learnt.step = Max((a->batch->nevents - a->lo + 1) / 2, 1);
		}
		else if (fault == ATP_FAULT_PASSING || suspects.undecided)
			ReThrowError(error);
		else
			return stop(a, error, reason);
	}
	return result;
}

/* In a transaction of its own: it is done once, whatever becomes of those that write the rows. */
static void
validate(const AtpSubscription *sub, const AtpSink *sink, AtpBatch *batch)
{
	if (sub->settings.nvalidate == 0 || batch->nrows == 0 || !(sink->uses & ATP_USE_REPOS))
		return;
	atp_begin("judging records by their Lexicons");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		atp_validate_batch(sub, batch);
	atp_commit();
}

AtpApplied
atp_apply(const AtpSubscription *sub, const AtpSink *sink, AtpStatements *statements, AtpBatch *batch,
		  AtpProgress *progress, const char **reason)
{
	AtpApply	a = {.sub = sub, .sink = sink, .statements = statements, .batch = batch, .progress = progress};
	ErrorContextCallback callback = {.callback = error_context, .arg = &a};
	AtpApplied	result;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	validate(sub, sink, batch);
	do
	{
		a.lo = a.hi;
		result = apply_some(&a, reason);
		if (result == ATP_APPLIED)
			for (int i = 0; i < ATP_SKIP_COUNT; i++)
				batch->skips[i] += a.skips[i];
	} while (result == ATP_APPLIED && a.hi < batch->nevents);
	error_context_stack = callback.previous;
	return result;
}

static void
purge(AtpApply *a, int unused, int unused2)
{
	atp_target_require(a->sub->owner, a->sub->target, a->sub->target_owner);
	a->accepted = a->sink->purge(a);
}

bool
atp_purge(const AtpSubscription *sub, const AtpSink *sink, AtpStatements *statements, MemoryContext cxt)
{
	AtpApply	a = {.sub = sub, .sink = sink, .statements = statements, .batch = &(AtpBatch) {.cxt = cxt}};
	ErrorData  *error;

	if (sink->purge == NULL || !begin_at_last(&a, "removing records of deleted accounts"))
		return false;
	if ((error = atp_attempt(&a, purge, 0, 0)) != NULL)
		ereport(LOG,
				(errmsg("records of deleted accounts stay, not visible, for atproto subscription \"%s\": %s",
						sub->name, error->message),
				 errdetail("The consumer tries again in some minutes, or when it starts the next time.")));
	atp_nodes_mark(a.statements, sub);
	atp_commit();
	return a.accepted;
}
