/*
 * apply.c
 *		A batch into the tables, with its cursor, in one transaction.
 *
 * What the events do to the tables is the family's business; here are the
 * transaction, the search for what the database refuses, dead letters, gaps and
 * the cursor.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "stream/apply.h"
#include "stream/apply_repos.h"
#include "stream/catalog.h"
#include "stream/direct.h"
#include "stream/family.h"
#include "stream/injection.h"
#include "stream/statements.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

/* So many batches are applied with statements after direct writing met a conflict. */
#define AFTER_CONFLICT	16

/* ------------------------------------------------------------------------
 * What the database refuses
 * ------------------------------------------------------------------------
 */

/*
 * Does the error lie in the row, so that trying again would meet it again?
 * Not: lost connections, wrong transaction states, serialization failures,
 * resources, locks, operator intervention, system and internal errors.
 */
static bool
lies_in_data(int sqlstate)
{
	switch (ERRCODE_TO_CATEGORY(sqlstate))
	{
		case MAKE_SQLSTATE('0', '8', '0', '0', '0'):
		case MAKE_SQLSTATE('2', '5', '0', '0', '0'):
		case MAKE_SQLSTATE('4', '0', '0', '0', '0'):
		case MAKE_SQLSTATE('5', '3', '0', '0', '0'):
		case MAKE_SQLSTATE('5', '5', '0', '0', '0'):
		case MAKE_SQLSTATE('5', '7', '0', '0', '0'):
		case MAKE_SQLSTATE('5', '8', '0', '0', '0'):
		case MAKE_SQLSTATE('F', '0', '0', '0', '0'):
		case MAKE_SQLSTATE('X', 'X', '0', '0', '0'):
			return false;
		default:
			return true;
	}
}

typedef void (*Step) (Apply *a, int, int);

/* Run a step in a subtransaction.  NULL, or the error that lies in the data. */
static ErrorData *
attempt(Apply *a, Step step, int lo, int hi)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	Apply		before = *a;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		step(a, lo, hi);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(a->batch->cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	if (error != NULL)
	{
		*a = before;
		if (!lies_in_data(error->sqlerrcode))
			ReThrowError(error);
	}
	return error;
}

static void
refuse(Apply *a, const AtpEvent *event, AtpSpan path, const ErrorData *error)
{
	AtpLetter  *letter = atp_batch_new_letter(a->batch, "apply", event->message, event->seq);

	strlcpy(letter->sqlstate, unpack_sql_state(error->sqlerrcode), sizeof(letter->sqlstate));
	letter->text = error->message ? error->message : "unknown error";
	letter->did = event->did;
	letter->path = path;
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
	Apply		before = *a;
	bool		accepted;

	if ((error = attempt(a, ask, index, 0)) != NULL)
	{
		refuse(a, event, (AtpSpan) {NULL, 0}, error);
		return;
	}
	accepted = a->accepted;
	/* what was skipped is counted by the rest */
	*a = before;
	for (int r = 0; accepted && r < event->nrows; r++)
	{
		int			row = event->first_row + r;

		if ((error = attempt(a, a->family->apply_row, row, index)) != NULL)
			refuse(a, event, a->batch->rows[row].path, error);
	}
	if (a->family->apply_rest != NULL &&
		(error = attempt(a, a->family->apply_rest, index, 0)) != NULL)
		refuse(a, event, (AtpSpan) {NULL, 0}, error);
}

/* Events [lo, hi), halving where something fails. */
static void
apply_halving(Apply *a, int lo, int hi)
{
	if (lo == hi || attempt(a, a->family->apply, lo, hi) == NULL)
		return;
	if (hi - lo == 1)
		apply_single(a, lo);
	else
	{
		int			mid = lo + (hi - lo) / 2;

		apply_halving(a, lo, mid);
		apply_halving(a, mid, hi);
	}
}

/* ------------------------------------------------------------------------
 * The transaction
 * ------------------------------------------------------------------------
 */

/* Store them while there is room; returns how many there was none for. */
static int64
store_letters(Apply *a)
{
	const AtpSettings *settings = &a->sub->settings;
	Datum		name = CStringGetTextDatum(a->sub->name);
	int64		refused = 0;
	int64		count,
				bytes;
	ListCell   *lc;

	if (a->batch->letters == NIL)
		return 0;
	atp_letters_kept(name, &count, &bytes);
	foreach(lc, a->batch->letters)
	{
		const AtpLetter *letter = lfirst(lc);
		Datum		args[8];
		char		nulls[9] = "        ";

		/* one that is there already only counts another attempt */
		if (!atp_letter_exists(name, letter))
		{
			if (count >= settings->max_letters ||
				bytes + (int64) letter->message.len > settings->max_letter_bytes)
			{
				refused++;
				continue;
			}
			count++;
			bytes += letter->message.len;
		}
		args[0] = name;
		args[1] = Int64GetDatum(letter->seq);
		args[2] = CStringGetTextDatum(letter->stage);
		args[3] = CStringGetTextDatum(letter->sqlstate);
		args[4] = CStringGetTextDatum(letter->text);
		args[5] = PointerGetDatum(letter->did);
		args[6] = PointerGetDatum(cstring_to_text_with_len(letter->path.ptr ? letter->path.ptr : "",
														   letter->path.len));
		args[7] = PointerGetDatum(atp_bytea(letter->message.ptr, letter->message.len));
		nulls[1] = letter->seq > 0 ? ' ' : 'n';
		nulls[5] = letter->did != NULL ? ' ' : 'n';
		(void) atp_execute(ATP_SQL_ADD_LETTER, args, nulls);
	}
	return refused;
}

static void
store_gaps(Apply *a)
{
	ListCell   *lc;

	foreach(lc, a->batch->gaps)
	{
		const AtpGap *gap = lfirst(lc);
		Datum		args[5] = {
			CStringGetTextDatum(a->sub->name), CStringGetTextDatum(a->sub->ep->scope),
			Int64GetDatum(gap->after), Int64GetDatum(gap->before), CStringGetTextDatum("OutdatedCursor")
		};

		(void) atp_execute(ATP_SQL_ADD_GAP, args, NULL);
	}
}

/* False: the cursor is not where this consumer left it. */
static bool
move_cursor(Apply *a, int64 from, int64 to, int64 refused)
{
	int64		time = a->batch->time;
	Datum		args[11] = {
		CStringGetTextDatum(a->sub->name), CStringGetTextDatum(a->sub->ep->scope),
		Int64GetDatum(from), Int64GetDatum(to), TimestampTzGetDatum(time - ATP_UNIX_TO_POSTGRES),
		Int64GetDatum(a->batch->nevents), Int64GetDatum(a->rows), Int64GetDatum(refused),
		Int32GetDatum(a->batch->shard), TimestampTzGetDatum(a->sub->created_at),
		Int32GetDatum(a->batch->layout)
	};
	char		nulls[12] = "           ";

	nulls[2] = from < 0 ? 'n' : ' ';
	nulls[3] = to < 0 ? 'n' : ' ';
	nulls[4] = time == 0 ? 'n' : ' ';
	return atp_execute(ATP_SQL_MOVE_CURSOR, args, nulls) == 1;
}

static AtpApplied
apply_once(Apply *a, int64 from, int64 to, bool halving)
{
	int			letters = list_length(a->batch->letters);
	int64		refused;

	a->rows = 0;
	memset(a->skips, 0, sizeof(a->skips));
	atp_begin("applying events");
	if (atp_extension_lock() != ATP_EXTENSION_READY)
	{
		atp_commit();
		return ATP_APPLY_GONE;
	}
	if (halving)
	{
		/* what would condemn every row is not the rows' fault */
		atp_statements_check();
		/* at commit it would be too late to see whose fault it is */
		if (SPI_execute("SET CONSTRAINTS ALL IMMEDIATE", false, 0) != SPI_OK_UTILITY)
			elog(ERROR, "could not set constraints");
		apply_halving(a, 0, a->batch->nevents);
	}
	else
		a->family->apply(a, 0, a->batch->nevents);
	refused = store_letters(a);
	if (a->family->settle != NULL)
		a->family->settle(a);
	store_gaps(a);
	ATP_INJECTION_POINT("cursor next");
	if (!move_cursor(a, from, to, refused))
	{
		SPI_finish();
		PopActiveSnapshot();
		AbortCurrentTransaction();
		a->batch->letters = list_truncate(a->batch->letters, letters);
		return ATP_APPLY_CURSOR_MOVED;
	}
	atp_commit();
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

/* The whole batch at once.  NULL, or the error for which nothing was applied. */
static ErrorData *
apply_whole(Apply *a, int64 from, int64 to, AtpApplied *result)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		*result = apply_once(a, from, to, false);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(a->batch->cxt);
		error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	return error;
}

AtpApplied
atp_apply(const AtpSubscription *sub, AtpBatch *batch, int64 *cursor, int64 seq)
{
	/* where one row was there already, the next ones often are: with statements at once */
	static int	batches_with_statements = 0;
	Apply		a = {.sub = sub, .batch = batch, .family = atp_family_of(sub->ep->nsid)};
	ErrorContextCallback callback = {.callback = error_context, .arg = &a};
	ErrorData  *error;
	AtpApplied	result = ATP_APPLIED;
	MemoryContext cxt = CurrentMemoryContext;

	callback.previous = error_context_stack;
	error_context_stack = &callback;
	a.direct = batches_with_statements == 0;
	batches_with_statements -= a.direct ? 0 : 1;
	error = apply_whole(&a, *cursor, seq, &result);
	if (error != NULL && error->sqlerrcode == ATP_ERRCODE_CONFLICT)
	{
		batches_with_statements = AFTER_CONFLICT;
		a.direct = false;
		error = apply_whole(&a, *cursor, seq, &result);
	}
	if (error != NULL)
	{
		if (!lies_in_data(error->sqlerrcode))
			ReThrowError(error);
		a.direct = false;
		result = apply_once(&a, *cursor, seq, true);
		MemoryContextSwitchTo(cxt);
	}
	error_context_stack = callback.previous;
	if (result == ATP_APPLIED)
	{
		*cursor = seq;
		for (int i = 0; i < ATP_SKIP_COUNT; i++)
			batch->skips[i] += a.skips[i];
	}
	return result;
}

static void
purge(Apply *a, int unused, int unused2)
{
	a->accepted = atp_purge_repos();
}

bool
atp_purge(const AtpSubscription *sub, MemoryContext cxt)
{
	Apply		a = {.sub = sub, .batch = &(AtpBatch) {.cxt = cxt}};
	ErrorData  *error;

	if (atp_family_of(sub->ep->nsid) != &atp_repos_family)
		return false;
	atp_begin("removing records of deleted accounts");
	if (atp_extension_lock() == ATP_EXTENSION_READY && (error = attempt(&a, purge, 0, 0)) != NULL)
		ereport(LOG,
				(errmsg("records of deleted accounts stay, not visible, for atproto subscription \"%s\": %s",
						sub->name, error->message),
				 errdetail("The consumer tries again when it starts the next time.")));
	atp_commit();
	return a.accepted;
}

const char *
atp_apply_again(const AtpSubscription *sub, AtpBatch *batch, AtpSpan path)
{
	Apply		a = {.sub = sub, .batch = batch, .family = atp_family_of(sub->ep->nsid)};
	ErrorData  *error = NULL;

	if (path.len == 0)
		error = attempt(&a, a.family->apply, 0, batch->nevents);
	for (int r = 0; path.len > 0 && error == NULL && r < batch->nrows; r++)
	{
		AtpSpan		row = batch->rows[r].path;

		if (row.len == path.len && memcmp(row.ptr, path.ptr, path.len) == 0 &&
			(a.family->is_newer == NULL || !a.family->is_newer(&batch->rows[r])))
			error = attempt(&a, a.family->apply_row, r, 0);
	}
	if (error != NULL)
		return error->message ? error->message : "unknown error";
	if (path.len == 0 && batch->nevents > 0 && !batch->events[0].ignored &&
		a.skips[ATP_SKIP_OLD] + a.skips[ATP_SKIP_INACTIVE] == 0)
		return NULL;
	return a.rows > 0 ? NULL : "obsolete";
}
