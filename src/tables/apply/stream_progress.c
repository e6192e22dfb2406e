/*
 * stream_progress.c
 *		The progress of a stream: move its cursor, and write the gaps that the stream has reported.
 *
 * apply.c calls these callbacks in the transaction that writes the rows.  Invariant: the cursor moves only from the
 * position at which this process left the cursor.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/transaction.h"
#include "stream/decode.h"
#include "tables/base/gap.h"
#include "tables/base/progress.h"
#include "tables/base/sweep.h"
#include "types/foreign_time.h"
#include "utils/builtins.h"

/* subscription, endpoint, shard */
#define CURSOR_ARGS	{ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT4}

/* SKIP LOCKED: no row is returned if a concurrent session has locked the cursor's row */
static const AtpStatement lock_cursor = {
	"SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 AND shard = $3"
	" FOR NO KEY UPDATE SKIP LOCKED",
	SPI_OK_SELECT, CURSOR_ARGS
};

static const AtpStatement lock_subscription = {
	"SELECT FROM atproto.subscription WHERE name = $1 FOR KEY SHARE SKIP LOCKED",
	SPI_OK_SELECT, {ATP_TYPE_TEXT}
};

static const AtpStatement find_cursor = {
	"SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 AND shard = $3",
	SPI_OK_SELECT, CURSOR_ARGS
};

/* these wait for concurrent locks, each in a transaction of its own: a session that has locked one of the rows may want the other */
static const AtpStatement await_subscription = {
	"SELECT FROM atproto.subscription WHERE name = $1 FOR KEY SHARE",
	SPI_OK_SELECT, {ATP_TYPE_TEXT}
};

static const AtpStatement await_cursor = {
	"SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 AND shard = $3 FOR NO KEY UPDATE",
	SPI_OK_SELECT, CURSOR_ARGS
};

/* more: further assignments; the last argument: the types of their parameters */
#define MOVE_CURSOR(more, ...) { \
	"UPDATE atproto.cursor c SET seq = $4, last_row = $13, left_at = NULL, event_time = COALESCE($5, event_time)," \
	" events = events + $6, record_ops = record_ops + $7," more \
	" updated_at = now()" \
	" WHERE subscription = $1 AND endpoint = $2 AND shard = $8 AND seq IS NOT DISTINCT FROM $3" \
	/*
	 * After a re-sharding, or a change of the target or the target's name, the cursor has a new layout, and this process must not
	 * move the cursor: held events, jobs and requests of its batch name the former target.
	 */ \
	" AND layout = $10" \
	/* a second process under the subscription's former name may have noted other settings before the name came back */ \
	" AND settings IS NOT DISTINCT FROM $12" \
	/* the subscription may have been removed and created again under its name, or two may have exchanged their names: id differs */ \
	/* what a batch has written for its owner is the next owner's only if it was there when the owner changed (held_leave.c) */ \
	/* a change of the stream ends begun refills: a batch of the former stream would begin one that no later event ends */ \
	" AND EXISTS (SELECT FROM atproto.subscription s WHERE s.name = $1 AND s.id::text = $9 AND s.owner::oid = $11 AND s.endpoint = $2)", \
	SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_INT8, ATP_TYPE_TIMESTAMP, ATP_TYPE_INT8, \
	ATP_TYPE_INT8, ATP_TYPE_INT4, ATP_TYPE_TEXT, ATP_TYPE_INT4, ATP_TYPE_OID, ATP_TYPE_BYTEA, ATP_TYPE_INT8, __VA_ARGS__} \
}
static const AtpStatement move_cursor = MOVE_CURSOR("", ATP_TYPE_END);

/* MOVE_CURSOR for a transaction with skips to be counted. */
static const AtpStatement move_and_count = MOVE_CURSOR(" skips = " ATP_SKIPS_SUM("c.skips", "$14::jsonb") ",", ATP_TYPE_TEXT);

static const AtpStatement add_gap = {
	"INSERT INTO atproto.gap (subscription, endpoint, after_seq, before_seq, reason) VALUES ($1, $2, $3, $4, $5)",
	SPI_OK_INSERT, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_INT8, ATP_TYPE_TEXT}
};

static const AtpStatement read_from_gap = {
	"UPDATE atproto.cursor SET read_from = $4 WHERE subscription = $1 AND endpoint = $2 AND shard = $3",
	SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT4, ATP_TYPE_INT8}
};

static const AtpStatement note_passed = {
	"UPDATE atproto.cursor SET passed_at = GREATEST(passed_at, $4) WHERE subscription = $1 AND endpoint = $2 AND shard = $3",
	SPI_OK_UPDATE, {ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_INT4, ATP_TYPE_TIMESTAMP}
};

/* A stream without sequence numbers (D30) has no position: next stays at -1. */
static int64
reach_of_stream(AtpProgress *progress, const AtpApply *a)
{
	AtpStreamProgress *p = (AtpStreamProgress *) progress;

	p->next = p->last;
	if (a->hi < a->batch->nevents)
	{
		int64		last = Min(a->batch->events[a->hi - 1].seq, p->last);

		p->next = last > 0 ? Max(p->position, last) : p->position;
	}
	return p->next;
}

/* The key of this shard's cursor. */
static void
cursor_args(const AtpStreamProgress *p, Datum *args)
{
	args[0] = CStringGetTextDatum(p->sub->name);
	args[1] = CStringGetTextDatum(p->sub->ep->scope);
	args[2] = Int32GetDatum(p->shard);
}

static AtpLocked
lock_progress(AtpProgress *progress, const AtpApply *a, bool letters)
{
	Datum		args[3];

	cursor_args((AtpStreamProgress *) progress, args);
	if (atp_execute(a->statements, &lock_cursor, args, NULL) > 0 &&
		(!letters || atp_execute(a->statements, &lock_subscription, args, NULL) > 0))
		return ATP_LOCKED;
	/*
	 * Not locked, but visible: a concurrent session has the lock.  Not visible: the cursor was removed, perhaps by a
	 * trigger in this transaction.
	 */
	return atp_execute(a->statements, &find_cursor, args, NULL) > 0 ? ATP_LOCKED_BY_OTHERS : ATP_LOCKED_NOTHING;
}

static bool
await_row(AtpProgress *progress, const AtpApply *a, const AtpStatement *statement)
{
	Datum		args[3];
	bool		there = false;

	atp_begin("waiting for a change of the subscription");
	cursor_args((AtpStreamProgress *) progress, args);
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		there = atp_execute(a->statements, statement, args, NULL) > 0;
	atp_commit();
	return there;
}

static bool
await_progress(AtpProgress *progress, const AtpApply *a)
{
	return await_row(progress, a, &await_subscription) && await_row(progress, a, &await_cursor);
}

static void
store_gaps(const AtpStreamProgress *p, const AtpApply *a)
{
	ListCell   *lc;

	foreach(lc, a->batch->gaps)
	{
		const AtpGap *gap = lfirst(lc);
		Datum		args[5] = {
			CStringGetTextDatum(p->sub->name), CStringGetTextDatum(p->sub->ep->scope),
			Int64GetDatum(gap->after), Int64GetDatum(gap->before), CStringGetTextDatum("OutdatedCursor")
		};

		if (!p->noted && !atp_gap_grow(p->sub->name, p->sub->ep->scope, gap->after, gap->before))
			(void) atp_execute(a->statements, &add_gap, args, NULL);
		cursor_args(p, args);
		args[3] = Int64GetDatum(gap->before - 1);
		(void) atp_execute(a->statements, &read_from_gap, args, NULL);
	}
}

/*
 * The digest of the row at p->next; 0: not known.  A batch in pieces may end after each of its pieces, when the process is killed: without the
 * digest, the next process could not compare the row at the position, and would read rows again that are in the tables.
 */
static int64
row_at_next(const AtpStreamProgress *p, const AtpApply *a)
{
	int64		seq = 0;
	int64		row;

	if (p->next == p->last)
		return p->last_row;
	if (p->decoder == NULL || a->hi == 0)
		return 0;
	row = atp_message_digest(p->decoder, a->batch->events[a->hi - 1].message, &seq);
	return seq == p->next ? row : 0;
}

/* H-43: the end of a sweep waits for the other streams of the target.  A shard without events has passed the time, too. */
static void
pass_time(const AtpStreamProgress *p, const AtpApply *a)
{
	static TimestampTz written = 0;
	TimestampTz passed_at = a->batch->passed_at;
	Datum		args[4];

	if (passed_at == 0 || passed_at < written + USECS_PER_SEC || a->hi < a->batch->nevents ||
		!(a->sink->uses & ATP_USE_REPOS) || atp_sweep_of(p->sub->target) != ATP_SWEEP_SHARED)
		return;
	cursor_args(p, args);
	args[3] = TimestampTzGetDatum(passed_at);
	(void) atp_execute(a->statements, &note_passed, args, NULL);
	written = passed_at;
}

static bool
move_progress(AtpProgress *progress, const AtpApply *a)
{
	AtpStreamProgress *p = (AtpStreamProgress *) progress;
	int64		row = row_at_next(p, a);
	int64		time = a->hi == a->batch->nevents ? a->batch->time : a->batch->events[a->hi - 1].time;
	Datum		args[14];
	char		nulls[15] = "              ";
	int64		more[ATP_SKIP_COUNT];

	pass_time(p, a);
	/* the server reports a gap at the start of a connection, so the gap precedes the batch's first event */
	if (a->lo == 0)
		store_gaps(p, a);
	args[0] = CStringGetTextDatum(p->sub->name);
	args[1] = CStringGetTextDatum(p->sub->ep->scope);
	args[2] = Int64GetDatum(p->position);
	args[3] = Int64GetDatum(p->next);
	args[4] = TimestampTzGetDatum(atp_foreign_time(time));
	args[5] = Int64GetDatum(a->hi - a->lo);
	args[6] = Int64GetDatum(a->rows);
	args[7] = Int32GetDatum(p->shard);
	args[8] = CStringGetTextDatum(p->sub->id);
	args[9] = Int32GetDatum(p->layout);
	args[10] = ObjectIdGetDatum(p->sub->owner);
	args[11] = PointerGetDatum(p->sub->digest);
	args[12] = Int64GetDatum(row);
	nulls[2] = p->position < 0 ? 'n' : ' ';
	nulls[3] = p->next < 0 ? 'n' : ' ';
	nulls[4] = time == 0 ? 'n' : ' ';
	nulls[12] = row == 0 ? 'n' : ' ';
	if (!atp_skips_due(&p->skips, a->batch->skips, a->skips, more))
		return atp_execute(a->statements, &move_cursor, args, nulls) == 1;
	args[13] = atp_skips_arg(more);
	return atp_execute(a->statements, &move_and_count, args, nulls) == 1;
}

static void
note_moved(AtpProgress *progress)
{
	AtpStreamProgress *p = (AtpStreamProgress *) progress;

	p->position = p->next;
	atp_skips_written(&p->skips, true);
}

AtpStreamProgress
atp_stream_progress(const AtpSubscription *sub, int shard, int layout, int64 position, int64 last)
{
	return (AtpStreamProgress) {
		.base = {.reach = reach_of_stream, .lock = lock_progress, .await = await_progress, .move = move_progress, .moved = note_moved},
		.sub = sub, .shard = shard, .layout = layout, .position = position, .last = last,
	};
}
