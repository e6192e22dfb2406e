/*
 * release_progress.c
 *		The progress of a batch of held events: lock and remove their rows.
 *
 * apply.c calls these callbacks in the transaction that writes the rows of the events.  Invariant: the progress is
 * the removal of the rows from atproto.held_event, in the same transaction, so each event counts exactly once.
 */
#include "postgres.h"

#include "common/injection.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "executor/spi.h"
#include "tables/apply/release_batch.h"
#include "tables/base/rows.h"
#include "types/types.h"
#include "utils/builtins.h"

enum
{
	FORGET_NAMED,				/* id[] */
	LOCK_HELD,					/* target, did[], rev[], subscription[], endpoint[], seq[] */
	FIND_LOCKED,				/* the parameters of LOCK_HELD -> n */
	AWAIT_HELD,					/* the parameters of LOCK_HELD */
	FIND_HELD,					/* the parameters of LOCK_HELD */
	REMOVE_HELD,				/* the parameters of LOCK_HELD */
	LOCK_SUBSCRIPTIONS,			/* names */
	FIND_SUBSCRIPTIONS,			/* names */
	AWAIT_SUBSCRIPTION,			/* name */
	FIND_LAYOUT					/* subscription, endpoint, shard, layout */
};

#define KEYS	{ATP_TYPE_TEXT, ATP_ARRAY(ATP_TYPE_DID), ATP_ARRAY(ATP_TYPE_TID), ATP_ARRAY(ATP_TYPE_TEXT), ATP_ARRAY(ATP_TYPE_TEXT), \
	ATP_ARRAY(ATP_TYPE_INT8)}
#define NKEYS	6
#define BY_KEY	" FROM unnest($2, $3, $4, $5, $6) WITH ORDINALITY u (did, rev, subscription, endpoint, seq, n) JOIN atproto.held_event h" \
	" ON h.target = $1::name AND h.did OPERATOR(@.=) u.did AND h.rev OPERATOR(@.=) u.rev" \
	" AND h.subscription = u.subscription AND h.endpoint = u.endpoint AND h.seq = u.seq"

static const AtpStatement statements[] = {
	[FORGET_NAMED] = {
		"DELETE FROM atproto.held_release WHERE id = ANY ($1)",
		SPI_OK_DELETE, {ATP_ARRAY(ATP_TYPE_INT8)}
	},
	[LOCK_HELD] = {"SELECT" BY_KEY ATP_ORDER_OF_HELD " FOR UPDATE OF h SKIP LOCKED", SPI_OK_SELECT, KEYS},
	/* the first of the rows that is locked elsewhere */
	[FIND_LOCKED] = {
		"WITH l AS MATERIALIZED (SELECT u.n" BY_KEY " FOR UPDATE OF h SKIP LOCKED)"
		" SELECT u.n" BY_KEY " WHERE u.n NOT IN (SELECT n FROM l) ORDER BY u.n LIMIT 1",
		SPI_OK_SELECT, KEYS, {ATP_TYPE_INT8}
	},
	[AWAIT_HELD] = {"SELECT" BY_KEY " FOR UPDATE OF h", SPI_OK_SELECT, KEYS},
	[FIND_HELD] = {"SELECT" BY_KEY, SPI_OK_SELECT, KEYS},
	[REMOVE_HELD] = {
		"DELETE FROM atproto.held_event WHERE ctid = ANY (ARRAY (SELECT h.ctid" BY_KEY "))", SPI_OK_DELETE, KEYS
	},
	[LOCK_SUBSCRIPTIONS] = {
		"SELECT FROM atproto.subscription WHERE name = ANY ($1) FOR KEY SHARE SKIP LOCKED", SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_TEXT)}
	},
	[FIND_SUBSCRIPTIONS] = {"SELECT FROM atproto.subscription WHERE name = ANY ($1)", SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_TEXT)}},
	[AWAIT_SUBSCRIPTION] = {"SELECT FROM atproto.subscription WHERE name = $1 FOR KEY SHARE", SPI_OK_SELECT, {ATP_TYPE_TEXT}},
	[FIND_LAYOUT] = {
		"SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 AND shard = $3 AND layout = $4",
		SPI_OK_SELECT, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT4, ATP_TYPE_INT4}
	},
};

/* Parameters with the keys of the rows of events [lo, hi); only_done: without events that wait on.  Returns the number of keys. */
static int
key_args(const AtpHeldBatch *held, AtpStatements *set, int lo, int hi, bool only_done, Datum *args)
{
	static const AtpType types[] = {ATP_TYPE_DID, ATP_TYPE_TID, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_END};
	AtpRows    *rows = atp_rows_create(set, types, hi - lo);

	for (int i = lo; i < hi; i++)
	{
		const AtpHeldRow *row = &held->rows[i];

		if (only_done && !held->batch->events[i].ignored && held->batch->events[i].verdict.judged == ATP_JUDGED_HELD)
			continue;
		atp_put_ref(rows, row->did);
		atp_put(rows, AtpTidGetDatum(row->rev), false);
		atp_put_ref(rows, row->subscription);
		atp_put_ref(rows, row->endpoint);
		atp_put(rows, Int64GetDatum(row->seq), false);
	}
	args[0] = CStringGetTextDatum(atp_target(set));
	atp_rows_bind(rows, args + 1);
	return rows->n;
}

static int64
reach_of_release(AtpProgress *progress, const AtpApply *a)
{
	return PG_INT64_MAX;
}

/* The subscriptions in takes, as a parameter. */
static Datum
takes_arg(const AtpHeldBatch *held, const AtpApply *a)
{
	return atp_array(a->statements, ATP_TYPE_TEXT, held->by.takes, NULL, held->by.ntakes);
}

/* Are all events and subscriptions of the batch still there?  The batch was read for these subscriptions. */
static bool
all_are_there(const AtpHeldBatch *held, const AtpApply *a, Datum *args, int n)
{
	Datum		subscriptions = takes_arg(held, a);

	return atp_held_execute(a->statements, &statements[FIND_HELD], args, NULL) == n &&
		atp_held_execute(a->statements, &statements[FIND_SUBSCRIPTIONS], &subscriptions, NULL) == held->by.ntakes;
}

/*
 * The target, or its name, may have changed since this process read the subscription.  Then jobs and requests of the batch would name the
 * former target.
 */
static bool
has_same_target(const AtpHeldBatch *held, const AtpApply *a)
{
	Datum		args[4] = {
		CStringGetTextDatum(a->sub->name), CStringGetTextDatum(a->sub->ep->scope), Int32GetDatum(held->shard), Int32GetDatum(held->layout)
	};

	return atp_held_execute(a->statements, &statements[FIND_LAYOUT], args, NULL) > 0;
}

static AtpLocked
lock_held(AtpProgress *progress, const AtpApply *a, bool letters)
{
	const AtpHeldBatch *held = (const AtpHeldBatch *) progress;

	/* a dead letter refers to the subscription that received the event, so lock all subscriptions in takes */
	Datum		subscriptions = takes_arg(held, a);
	Datum		args[NKEYS];
	int			n = key_args(held, a->statements, a->lo, a->hi, false, args);

	if (atp_held_execute(a->statements, &statements[LOCK_HELD], args, NULL) == n &&
		(!letters || atp_held_execute(a->statements, &statements[LOCK_SUBSCRIPTIONS], &subscriptions, NULL) == held->by.ntakes))
		return has_same_target(held, a) ? ATP_LOCKED : ATP_LOCKED_NOTHING;
	return all_are_there(held, a, args, n) ? ATP_LOCKED_BY_OTHERS : ATP_LOCKED_NOTHING;
}

/* Returns the event whose row is locked elsewhere; -1: no event's row is locked; -2: not all rows are there. */
static int
find_locked(const AtpHeldBatch *held, const AtpApply *a)
{
	Datum		args[NKEYS];
	int			event = -2;
	bool		isnull;

	atp_begin("looking for locked held events");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		int			n = key_args(held, a->statements, a->lo, held->batch->nevents, false, args);

		if (all_are_there(held, a, args, n))
		{
			event = -1;
			if (atp_held_execute(a->statements, &statements[FIND_LOCKED], args, NULL) > 0)
				event = a->lo + (int) DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull)) - 1;
		}
	}
	atp_commit();
	return event;
}

/* Wait for the row of this event of the batch. */
static void
await_event(const AtpHeldBatch *held, const AtpApply *a, int event)
{
	Datum		args[NKEYS];

	atp_begin("waiting for a change of held events");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		(void) key_args(held, a->statements, event, event + 1, false, args);
		(void) atp_held_execute(a->statements, &statements[AWAIT_HELD], args, NULL);
	}
	atp_commit();
}

static void
await_subscription(const AtpApply *a, Datum name)
{
	atp_begin("waiting for a change of a subscription");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		(void) atp_held_execute(a->statements, &statements[AWAIT_SUBSCRIPTION], &name, NULL);
	atp_commit();
}

/*
 * Wait for one row after the other, with no other row locked: the session with the lock may want the other rows.  A session
 * that had several events locked gives them back together.
 */
static bool
await_held(AtpProgress *progress, const AtpApply *a)
{
	const AtpHeldBatch *held = (const AtpHeldBatch *) progress;
	int			event = find_locked(held, a);

	if (event >= 0)
		await_event(held, a, event);
	for (int i = 0; event == -1 && i < held->by.ntakes; i++)
		await_subscription(a, held->by.takes[i]);
	return event != -2;
}

bool
atp_release_finishes(const AtpHeldBatch *held, struct varlena *did)
{
	int			last = held->batch->nmessages - 1;
	int			cmp = held->all ? -1 : atp_compare_dids(did, held->rows[last].did);

	return cmp < 0 || (cmp == 0 && held->batch->nevents > 0 && held->batch->events[last].verdict.judged == ATP_JUDGED_HELD);
}

void
atp_release_forget_named(const AtpHeldBatch *held, AtpStatements *set)
{
	Datum	   *ids = palloc(sizeof(Datum) * Max(held->nnamed, 1));
	int			n = 0;
	Datum		arg;

	for (int i = 0; i < held->nnamed; i++)
		if (DatumGetInt64(held->named[i]) != 0 && atp_release_finishes(held, held->named_dids[i]))
			ids[n++] = held->named[i];
	if (n == 0)
		return;
	arg = atp_array(set, ATP_TYPE_INT8, ids, NULL, n);
	(void) atp_held_execute(set, &statements[FORGET_NAMED], &arg, NULL);
}

static void
count_outcomes(AtpHeldBatch *held, const AtpApply *a)
{
	int64		more[ATP_SKIP_COUNT];

	held->written = !atp_skips_due(&held->skips, a->batch->skips, a->skips, more) ||
		atp_skips_add(a->statements, a->sub, held->shard, more);
}

/* in the transaction of their effects, remove the held events that were judged. */
static bool
remove_released(AtpProgress *progress, const AtpApply *a)
{
	AtpHeldBatch *held = (AtpHeldBatch *) progress;
	Datum		args[NKEYS];
	int			n = key_args(held, a->statements, a->lo, a->hi, true, args);

	if (n > 0 && atp_held_execute(a->statements, &statements[REMOVE_HELD], args, NULL) != n)
		return false;
	if (a->hi == held->batch->nevents)
		atp_release_forget_named(held, a->statements);
	count_outcomes(held, a);
	ATP_INJECTION_POINT("held events next");
	return true;
}

static void
note_removed(AtpProgress *progress)
{
	AtpHeldBatch *held = (AtpHeldBatch *) progress;

	atp_skips_written(&held->skips, held->written);
}

const AtpProgress atp_release_progress = {
	.reach = reach_of_release, .lock = lock_held, .await = await_held, .move = remove_released, .moved = note_removed
};
