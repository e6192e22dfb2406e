/*
 * consumer_batch.c
 *		From received events to the tables: the consumer applies a batch itself, or
 *		passes it to its workers (shards.h).  With workers, the cursor follows when all
 *		workers have committed.
 */
#include "postgres.h"

#include "config/cursor.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "net/wait.h"
#include "process/consumer/consumer_private.h"
#include "process/status/crash_backoff.h"
#include "tables/apply/apply.h"
#include "tables/plc/plc_request.h"
#include "tables/repos/held.h"
#include "types/foreign_time.h"

#define PURGE_LOOK_MS	(5 * 60 * 1000)
#define DEFER_MAX_MS	200
#define HISTORY_MS		500		/* rows of an archive wait so long for more (H-40) */
#define DEFER_LOOK_MS	10
#define WASTED_FEW		8		/* events that are old without another source: a stream may repeat some */

/* The longest delay of a batch, as a multiple of atproto.batch_delay. */
#define DELAYS_MAX	10

/* Below this number of events a second, most of the cost of events is the cost of their transactions. */
#define FEW			1500

bool
atp_consumer_can_receive(Consumer *c)
{
	return c->shards == NULL || c->batch->buffer != NULL || atp_shards_lend(c->shards, c->batch);
}

/* Is the batch full, or its delay over? */
static bool
is_complete(const Consumer *c)
{
	return atp_batch_full(c->batch) || atp_remaining(atp_now(), c->batch->since, atp_consumer_batch_delay(c)) == 0;
}

/*
 * Two sources that bring the same events at the same time would both decode them, and one of them in vain.
 * So a source that is mostly the second waits a little, until the last messages received are known
 * (rev_cache.h): then the first source has committed them, and all before.
 */
long
atp_consumer_defers(Consumer *c)
{
	long		left;

	if (!atp_status_is_second() || c->state != ATP_STATE_STREAMING || c->batch->ndecoded == c->batch->nmessages)
	{
		c->deferred = 0;
		c->decides = false;
		return 0;
	}
	if (c->decides || !is_complete(c))
		return 0;
	if (c->deferred == 0)
		c->deferred = atp_now();
	left = atp_remaining(atp_now(), c->deferred, DEFER_MAX_MS);
	c->decides = left == 0 || atp_decode_is_known(c->decoder, c->batch);
	return c->decides ? 0 : Min(left, DEFER_LOOK_MS);
}

bool
atp_consumer_is_deferring(const Consumer *c)
{
	return atp_status_is_second() && c->state == ATP_STATE_STREAMING && !c->decides;
}

void
atp_consumer_leads(Consumer *c)
{
	c->decides = false;
	c->deferred = 0;
	atp_status_follows(false);
}

/*
 * Decide after a batch whether this source follows a faster one.  A source that brings new events must not
 * follow. cached: the number of events that rev_cache.h recognized as old before they were decoded; events found
 * to be old only after decoding were wasted work.
 */
static void
choose_pace(Consumer *c, int64 cached)
{
	const AtpBatch *batch = c->batch;
	int64		wasted = batch->skips[ATP_SKIP_OLD] - cached;
	bool		second = atp_status_is_second();

	if (second && (!OidIsValid(batch->shared) || (wasted <= batch->nevents / 8 && cached < batch->nevents / 2)))
		atp_consumer_leads(c);
	else if (!second && OidIsValid(batch->shared) && wasted > WASTED_FEW + batch->nevents / 8)
		atp_status_follows(true);
}

/*
 * Would applying the batch write nothing but the cursor, because filters exclude its events, or another
 * source has brought them?
 */
static bool
only_moves(const AtpBatch *batch)
{
	return batch->ndecoded == batch->nmessages && batch->nwanted == 0 && batch->letters == NIL && batch->gaps == NIL;
}

/*
 * Three reasons to wait longer than atproto.batch_delay.  Where transactions are slow, events wait as long as
 * the last transaction took, so that its fixed cost is paid less often.  A batch that only moves the cursor
 * waits longest, since no reader waits for its rows.  And when few events come, but not seldom, a batch waits
 * until two delays after the last transaction, which halves the number of transactions.  A page of a directory
 * waits for nothing: the next one is on its way, and comes while this one is applied.
 */
int
atp_consumer_batch_delay(const Consumer *c)
{
	int64		delay = Max(atp_batch_delay_ms, Min(c->applied_in / 1000, DELAYS_MAX * atp_batch_delay_ms));

	if (c->by_pages && c->pages.lines == 0)
		return 0;
	if (c->state == ATP_STATE_HISTORY)
		return HISTORY_MS;
	if (only_moves(c->batch))
		return DELAYS_MAX * atp_batch_delay_ms;
	if ((int64) c->batch->nmessages * 1000 < (int64) FEW * atp_batch_delay_ms)
		delay = Max(delay, (c->applied_at - c->batch->since) / 1000 + 2 * atp_batch_delay_ms);
	return (int) delay;
}

/*
 * While a worker is busy, the workers get the next batch only when it is full, because each batch costs a
 * transaction in every worker.
 */
bool
atp_consumer_batch_is_due(const Consumer *c)
{
	if (c->batch->nmessages == 0 || c->batch->ndecoded < c->batch->nmessages || c->state == ATP_STATE_UNDECIDED)
		return false;
	if (atp_batch_full(c->batch))
		return true;
	return (c->shards == NULL || atp_shards_idle(c->shards)) &&
		atp_remaining(atp_now(), c->batch->since, atp_consumer_batch_delay(c)) == 0;
}

/*
 * A stream without a cursor begins: write one position into the cursors of all shards, so that no worker
 * begins elsewhere after a crash.
 */
static void
begin_shards(Consumer *c, int64 seq)
{
	atp_begin("beginning the stream");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		atp_cursor_begin(c->name, c->sub->ep->scope, seq);
	atp_commit();
	atp_consumer_report(c);
	c->cursor = c->handed = seq;
}

static void
note_pace(Consumer *c)
{
	const AtpBatch *batch = c->batch;

	if (batch->nevents > 0 && atp_status_note_lag(batch->time == 0 ? 0 : atp_foreign_time(batch->time), batch->nevents))
		atp_consumer_note(c, ATP_LOGGED_CAUGHT_UP, NULL);
}

/*
 * The stream is read from the oldest event the server has.  The server has forgotten the events between the former
 * cursor and this event.  Tell gap.c which event is the oldest: only gaps that begin after this event are read again.
 */
static void
note_oldest(Consumer *c)
{
	AtpGap		forgotten = {.after = c->gaps.left};

	if (c->handed != 0 || c->batch->nevents == 0)
		return;
	forgotten.before = c->batch->events[0].seq;
	if (forgotten.after >= 0 && forgotten.before > forgotten.after + 1)
		atp_batch_new_gap(c->batch, &forgotten);
	if (!c->gaps.open)
		return;
	atp_begin("looking for gaps that are read again");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		/* M-12: the pages of a directory begin with its first operation, whatever number the operation has */
		atp_gap_begins(c->name, c->sub->ep->scope, c->source->pages != NULL ? 1 : c->batch->events[0].seq);
		c->gaps = atp_gap_watch(c->name, c->sub->ep->scope, 0);
	}
	atp_commit();
}

bool
atp_consumer_gap_is_over(const Consumer *c)
{
	return c->gaps.next >= 0 && c->cursor >= c->gaps.next;
}

void
atp_consumer_close_gap(Consumer *c)
{
	c->gaps.next = -1;
	atp_begin("closing gaps");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		atp_gap_close(c->name);
		c->gaps = atp_gap_watch(c->name, c->sub->ep->scope, c->cursor);
	}
	atp_commit();
	atp_consumer_report(c);
}

/* Count skips of messages of which this process applies nothing; the next transaction writes the counts. */
static void
count_later(Consumer *c, const int64 *skips)
{
	atp_status_skips(skips);
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		c->uncounted[i] += skips[i];
	c->stats_pending = true;
}

/*
 * Before a batch with gaps: end the refills that have written records, and note the gaps for all workers.  Without
 * workers the batch notes the gaps itself.  If worker 0 noted the gaps in its own transactions, worker 1 could
 * commit events after a gap first; and if the cursor of worker 0 was after the gap already, worker 0 would note nothing.
 */
static void
note_gaps(Consumer *c)
{
	ListCell   *lc;

	if (c->batch->gaps == NIL)
		return;
	atp_begin("noting a gap");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		atp_refills_jump(c->sub);
		foreach(lc, c->batch->gaps)
		{
			const AtpGap *gap = lfirst(lc);

			if (c->shards != NULL)
				atp_gap_missed(c->name, c->sub->ep->scope, gap->after, gap->before);
		}
	}
	atp_commit();
	atp_consumer_report(c);
}

/*
 * M-14: a stream that was joined without a position has begun, so from now on it brings each operation: the logs are asked for again.
 * A transaction before that of the first event: after a crash between the two there is no position, and the stream is joined anew.
 */
static void
begin_logs(Consumer *c)
{
	if (c->source->pages == NULL || c->cursor >= 0 || c->batch->nevents == 0)
		return;
	atp_begin("asking for logs of accounts");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		atp_plc_request_named(c->sub, true);
	atp_commit();
	c->logs.waits = true;
}

static void
hand_batch(Consumer *c, bool broken)
{
	AtpBatch   *batch = c->batch;

	if (c->handed < 0 && batch->nevents > 0)
	{
		begin_logs(c);
		begin_shards(c, Min(batch->events[0].seq, c->position.last) - 1);
	}
	count_later(c, batch->skips);
	note_pace(c);
	note_oldest(c);
	note_gaps(c);
	if (batch->nevents > 0 || broken)
	{
		c->last_row = atp_consumer_last_row(c);
		atp_shards_hand(c->shards, batch, c->handed, c->set_back, c->position.last, c->last_row, broken, c->uncounted);
		memset(c->uncounted, 0, sizeof(c->uncounted));
		c->handed = c->position.last;
		c->set_back = false;
	}
	atp_batch_reset(batch);
}

void
atp_consumer_hand_broken(Consumer *c)
{
	hand_batch(c, true);
}

static void
note_progress(Consumer *c)
{
	c->failures = 0;
	atp_crash_progress();
}

void
atp_consumer_collect(Consumer *c)
{
	if (atp_shards_collect(c->shards, &c->cursor))
		note_progress(c);
	/*
	 * A worker also ends when the settings change while it starts.  Reading the settings again here would not do: batches
	 * that were handed to the worker, and the batch in the ring's memory, have to be received once more anyway.
	 */
	if (atp_shards_failed(c->shards))
		atp_consumer_leave(c, "one of its workers ended", true);
}

/* Act on the result of applying: continue, end, or stop. */
static void
obey_result(Consumer *c, AtpApplied result, const char *reason)
{
	switch (result)
	{
		case ATP_APPLIED:
			break;
		case ATP_APPLY_GONE:
			atp_consumer_leave(c, "the extension was dropped or changed", false);
			break;
		case ATP_APPLY_CURSOR_MOVED:
			atp_consumer_leave(c, "its cursor was set", true);
			break;
		case ATP_APPLY_STOP:
			atp_consumer_stop(c, reason);
			break;
	}
}

/* Apply the batch, in one transaction or in several. */
static void
apply_batch(Consumer *c)
{
	AtpBatch   *batch = c->batch;
	AtpStreamProgress progress = atp_stream_progress(c->sub, 0, c->layout, c->cursor, c->position.last);
	AtpTime		begun = atp_now();
	int64		cached = batch->skips[ATP_SKIP_OLD];
	const char *reason;
	AtpApplied	result;

	begin_logs(c);
	note_oldest(c);
	note_gaps(c);
	progress.skips.uncounted = c->uncounted;
	progress.decoder = c->has_history ? c->decoder : NULL;
	progress.last_row = c->last_row = atp_consumer_last_row(c);
	result = atp_apply(c->sub, c->source->sink, c->statements, batch, &progress.base, &reason);
	c->applied_at = atp_now();
	c->applied_in = c->applied_at - begun;
	c->cursor = c->handed = progress.position;
	obey_result(c, result, reason);
	atp_status_batch(batch->skips);
	if (c->source->pages != NULL)
		atp_status_committed(batch->time == 0 ? 0 : atp_foreign_time(batch->time));
	note_pace(c);
	atp_consumer_report(c);
	c->stats_pending = true;
	if (batch->nevents > 0)
		note_progress(c);
	c->purge_due |= batch->purge;
	atp_release_note(&c->releaser, batch);
	c->logs.waits |= batch->held;
	choose_pace(c, cached);
	atp_batch_reset(batch);
}

void
atp_consumer_apply(Consumer *c)
{
	AtpBatch   *batch = c->batch;

	if (batch->nmessages == 0)
		return;
	Assert(c->state == ATP_STATE_STREAMING || c->state == ATP_STATE_HISTORY || c->state == ATP_STATE_FLUSHING);
	if (c->shards != NULL)
		hand_batch(c, false);
	else if (batch->nevents > 0 || batch->letters != NIL)
		apply_batch(c);
	else
	{
		/* all messages were of kinds that do not count */
		count_later(c, batch->skips);
		atp_batch_reset(batch);
	}
}

void
atp_consumer_flush(Consumer *c)
{
	atp_consumer_is_flushing(c);
	atp_consumer_apply(c);
	while (c->shards != NULL && !atp_shards_idle(c->shards))
	{
		atp_consumer_collect(c);
		if (!atp_shards_idle(c->shards))
			atp_wait(NULL, 0, ATP_LOOK_MS);
	}
}

void
atp_consumer_purge(Consumer *c)
{
	c->purge_due = atp_purge(c->sub, c->source->sink, c->statements, c->loop_cxt);
	atp_consumer_report(c);
}

long
atp_consumer_purge_look_due(const Consumer *c)
{
	return c->source->by_repo ? atp_remaining(atp_now(), c->purge_look, PURGE_LOOK_MS) : -1;
}

void
atp_consumer_purge_look(Consumer *c)
{
	c->purge_look = atp_now();
	if (c->shards != NULL)
		atp_shards_purge(c->shards);
	else
		c->purge_due = true;
}

long
atp_consumer_release_due(const Consumer *c)
{
	if (c->shards != NULL || c->state == ATP_STATE_UNDECIDED || !atp_stream_kind_holds(c->source))
		return -1;
	return atp_release_due(&c->releaser, atp_now());
}

void
atp_consumer_release(Consumer *c)
{
	int64		skips[ATP_SKIP_COUNT] = {0};
	const char *reason = NULL;
	AtpApplied	result = atp_release(&c->releaser, c->sub, c->source->sink, c->decoder, c->statements, c->loop_cxt, skips, &reason);

	obey_result(c, result, reason);
	atp_status_skips(skips);
	atp_consumer_report(c);
	c->stats_pending = true;
}

long
atp_consumer_logs_due(const Consumer *c)
{
	return c->source->pages == NULL || c->state == ATP_STATE_UNDECIDED ? -1 : atp_plc_answers_due(&c->logs, atp_now());
}

void
atp_consumer_logs(Consumer *c)
{
	int64		skips[ATP_SKIP_COUNT] = {0};
	const char *reason = NULL;
	AtpApplied	result;

	if (!atp_plc_answers_look(&c->logs, c->sub))
		return;
	/* no worker may write an entry that waits while the answers are judged with the waiting entries */
	if (c->shards != NULL)
	{
		AtpState	before = c->state;

		atp_consumer_flush(c);
		atp_consumer_is_flushed(c, before);
	}
	result = atp_plc_answers_apply(&c->logs, c->sub, c->statements, c->layout, c->loop_cxt, skips, &reason);
	obey_result(c, result, reason);
	atp_status_skips(skips);
	atp_consumer_report(c);
	c->stats_pending = true;
}
