/*
 * apply_pieces.c
 *		Apply a batch in pieces, to find the rows that the database refuses.
 *
 * A piece is a transaction with a bounded number of subtransactions.  A range of events that fails is halved, until single
 * rows fail; these become dead letters, unless suspect.c finds that the cause is not in the rows.  While rows are refused,
 * the next batches are applied in pieces, too; the number of events tried at once depends on how often rows were refused.
 */
#include "postgres.h"

#include "tables/apply/apply_pieces.h"
#include "tables/base/error_class.h"

/* PostgreSQL keeps this number of subtransactions of a transaction in shared memory; for more, all sessions have to read pg_subtrans. */
#define SUBTRANSACTIONS_MAX	64

/*
 * If this number of events in a row have refused rows and no accepted row, and the events are of this number of
 * repositories, then the cause is not in the rows.  Events are counted and not rows: a commit may have 200 rows, so a
 * few accounts could refuse that many between two good events.
 */
#define REFUSED_EVENTS	100

/* Lower limit of AtpPieces.step, however many rows were refused. */
#define STEP_MIN	16

AtpPieces	atp_pieces;

/* Rows written, rows removed and events skipped so far in the transaction. */
typedef struct Done
{
	int64		puts;
	int64		removed;
	int64		skipped;
} Done;

static Done
done_so_far(const AtpApply *a)
{
	Done		done = {a->rows - a->noop_rows - a->removed, a->removed, 0};

	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		done.skipped += a->skips[i];
	return done;
}

/* The number of events in this step that have changed a repository's state; 0 for a step that applies a single row. */
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

/* After a successful step: note the kinds of rows written, which shows that the tables accept these kinds. */
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
	/* only rows that were written or removed count: without one, no trigger has run */
	if (done.puts > before.puts || done.removed > before.removed)
		atp_pieces.refused = atp_pieces.nrepos = 0;
}

/* Run a step in a subtransaction.  Returns an error whose cause may be a row; re-throws any other error. */
static ErrorData *
attempt_step(AtpApply *a, AtpStep step, int first, int second)
{
	Done		before = done_so_far(a);
	ErrorData  *error = atp_attempt(a, step, first, second);

	if (error == NULL)
	{
		a->subxacts++;
		note_passed(a, step, first, second, before);
	}
	else if (!atp_error_may_be_row(a, error))
		ReThrowError(error);
	return error;
}

int
atp_pieces_repos_needed(const AtpSettings *settings)
{
	return settings->ndids > 0 ? Min(settings->ndids, ATP_REFUSED_REPOS) : ATP_REFUSED_REPOS;
}

/* Count an event with a refused row.  If nothing else was accepted for too long, raise an ERROR: the cause is not in the rows. */
static void
count_refused(const AtpSettings *settings, const AtpEvent *event, ErrorData *error)
{
	uint32		repo = event->key;
	int			i = 0;

	if (atp_pieces.refused > 0 && event->seq > 0 && event->seq == atp_pieces.refused_seq)
		return;
	atp_pieces.refused++;
	atp_pieces.refused_seq = event->seq;
	/* events of streams without repositories have key 0, and each counts as a repository */
	while (i < atp_pieces.nrepos && (atp_pieces.repos[i] != repo || repo == 0))
		i++;
	if (i == atp_pieces.nrepos && i < ATP_REFUSED_REPOS)
		atp_pieces.repos[atp_pieces.nrepos++] = repo;
	if (atp_pieces.refused < REFUSED_EVENTS || atp_pieces.nrepos < atp_pieces_repos_needed(settings))
		return;
	/* the class of the error decides what follows */
	if (atp_error_class(error->sqlerrcode) != ATP_ERROR_ROW)
		ReThrowError(error);
	ereport(ERROR,
			(errcode(ATP_ERRCODE_STOP),
			 errmsg("the database refused all of the last %d events: %s", atp_pieces.refused, atp_error_text(error))));
}

/* Write a dead letter for a row of the batch; row -1: for the event's changes other than rows. */
static void
refuse_row(AtpApply *a, AtpEvent *event, int row, AtpSpan path, ErrorData *error)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);
	AtpDeadLetter *letter = atp_batch_new_dead_letter(a->batch, "apply", event->message, event->seq);
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
	if (atp_error_class(error->sqlerrcode) != ATP_ERROR_ROW)
		atp_suspects_add(a->suspects, kind, (int) (event - a->batch->events), row, error);
	count_refused(&a->sub->settings, event, error);
}

/* Write a dead letter for the whole event, or for its changes other than rows. */
static void
refuse_event(AtpApply *a, AtpEvent *event, ErrorData *error)
{
	refuse_row(a, event, -1, a->sink->name ? a->sink->name(event) : (AtpSpan) {NULL, 0}, error);
	/* a letter is written only for events with the verdict true (is_void() in apply.c) */
	event->verdict.judged = ATP_JUDGED_TRUE;
}

static void
ask_if_accepted(AtpApply *a, int index, int unused)
{
	a->accepted = a->sink->accepts == NULL || a->sink->accepts(a, index);
}

/* Apply an event that fails as a whole: each row in its own subtransaction, then the event's other changes. */
static void
apply_single(AtpApply *a, int index)
{
	AtpEvent   *event = &a->batch->events[index];
	ErrorData  *error;
	int64		skips[ATP_SKIP_COUNT];
	bool		accepted;

	memcpy(skips, a->skips, sizeof(skips));
	if ((error = attempt_step(a, ask_if_accepted, index, 0)) != NULL)
	{
		refuse_event(a, event, error);
		return;
	}
	accepted = a->accepted;
	/* restore the counts: apply_rest() counts the skips again */
	memcpy(a->skips, skips, sizeof(skips));
	for (int r = 0; accepted && r < event->nrows; r++)
	{
		int			row = event->first_row + r;

		if ((error = attempt_step(a, a->sink->apply_row, row, index)) != NULL)
		{
			refuse_row(a, event, row, a->batch->rows[row].path, error);
			event->lacking = true;
		}
	}
	if (a->sink->apply_rest != NULL &&
		(error = attempt_step(a, a->sink->apply_rest, index, 0)) != NULL)
		refuse_event(a, event, error);
}

/* Has the transaction enough subtransactions to be committed?  Each transaction covers at least one event. */
static bool
is_full(const AtpApply *a)
{
	return a->subxacts >= SUBTRANSACTIONS_MAX && a->hi > a->lo;
}

/* Apply events [lo, hi), and halve the range where a step fails.  a->hi is set to the end of the applied events. */
static void
apply_halving(AtpApply *a, int lo, int hi)
{
	int			mid = lo + (hi - lo) / 2;

	if (is_full(a))
		return;
	if (attempt_step(a, a->sink->apply, lo, hi) == NULL)
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

void
atp_pieces_apply(AtpApply *a)
{
	int			n = a->batch->nevents;

	a->hi = a->lo;
	while (a->hi < n && !is_full(a))
		apply_halving(a, a->hi, Min(a->hi + atp_pieces.step, n));
	/* choose a step so large that about half of the steps would fail */
	if (a->refused > 0)
		atp_pieces.step = Max((a->hi - a->lo) / (2 * a->refused), STEP_MIN);
	else if ((atp_pieces.step *= 2) >= ATP_BATCH_EVENTS)
		atp_pieces.step = 0;
}

void
atp_pieces_note_whole(AtpApply *a)
{
	note_passed(a, a->sink->apply, a->lo, a->hi, (Done) {0});
}
