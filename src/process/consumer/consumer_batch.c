/*
 * consumer_batch.c
 *		What the consumer received, into the tables: by itself, or by its workers.
 *
 * With workers the batch goes to them (shards.h), and the cursor follows when they
 * have committed.
 */
#include "postgres.h"

#include "config/cursor.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "net/wait.h"
#include "process/consumer/consumer_private.h"
#include "process/status/crash_backoff.h"
#include "tables/apply/apply.h"
#include "types/types.h"

#define PURGE_LOOK_MS	(5 * 60 * 1000)
#define DEFER_MAX_MS	200
#define DEFER_LOOK_MS	10
#define WASTED_FEW		8			/* a stream may have some old events of its own */

/* So many times atproto.batch_delay, at most. */
#define DELAYS_MAX	10

/* Events a second that are few: most of what they cost are their transactions. */
#define FEW			1500

bool
atp_consumer_can_receive(Consumer *c)
{
	return c->shards == NULL || c->batch->buffer != NULL || atp_shards_lend(c->shards, c->batch);
}

/* Has the batch what it is going to have? */
static bool
is_complete(const Consumer *c)
{
	return atp_batch_full(c->batch) || atp_remaining(atp_now(), c->batch->since, atp_consumer_batch_delay(c)) == 0;
}

/*
 * Two sources that bring the same at the same time would both decode it, and one of them for
 * nothing.  Who is mostly the second waits a little, until what it has received last is known: then the
 * first one has committed it (recent.h), and what was before it.
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

/* Who brings news waits for nobody.  cached: events that were known to be old before they were decoded. */
static void
adapt(Consumer *c, int64 cached)
{
	const AtpBatch *batch = c->batch;
	int64		wasted = batch->skips[ATP_SKIP_OLD] - cached;
	bool		second = atp_status_is_second();

	if (second && (!OidIsValid(batch->shared) || (wasted <= batch->nevents / 8 && cached < batch->nevents / 2)))
		atp_consumer_leads(c);
	else if (!second && OidIsValid(batch->shared) && wasted > WASTED_FEW + batch->nevents / 8)
		atp_status_follows(true);
}

/* Nothing but the cursor would be written: events of others, or that another source has brought. */
static bool
only_moves(const AtpBatch *batch)
{
	return batch->ndecoded == batch->nmessages && batch->nwanted == 0 && batch->letters == NIL && batch->gaps == NIL;
}

/*
 * Where transactions are slow, events wait as long as the last one took: what each of them
 * costs, however few its rows, is paid less often.  So it is where nobody waits for any; and where
 * few events come, but not seldom, there are half as many.
 */
int
atp_consumer_batch_delay(const Consumer *c)
{
	int64		delay = Max(atp_batch_delay_ms, Min(c->applied_in / 1000, DELAYS_MAX * atp_batch_delay_ms));

	if (only_moves(c->batch))
		return DELAYS_MAX * atp_batch_delay_ms;
	if ((int64) c->batch->nmessages * 1000 < (int64) FEW * atp_batch_delay_ms)
		delay = Max(delay, (c->applied_at - c->batch->since) / 1000 + 2 * atp_batch_delay_ms);
	return (int) delay;
}

/*
 * Workers that have something to do get no more until the batch is full: each
 * batch is a transaction for each of them.
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

/* A stream without position begins here: no shard may find another place. */
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

	if (batch->nevents > 0 && atp_status_pace(batch->time == 0 ? 0 : batch->time - ATP_UNIX_TO_POSTGRES, batch->nevents))
		atp_consumer_note(c, ATP_LOGGED_CAUGHT_UP, NULL);
}

/* From the oldest event on that the server has: gaps are read again that begin after this one. */
static void
note_oldest(Consumer *c)
{
	if (!c->gaps.open || c->handed != 0 || c->batch->nevents == 0)
		return;
	atp_begin("looking for gaps that are read again");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		atp_gap_begins(c->name, c->sub->ep->scope, c->batch->events[0].seq);
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

/* Of messages that this process applies nothing of: the next transaction writes the counts. */
static void
count_later(Consumer *c, const int64 *skips)
{
	atp_status_skips(skips);
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		c->uncounted[i] += skips[i];
	c->stats_pending = true;
}

static void
hand_batch(Consumer *c, bool broken)
{
	AtpBatch   *batch = c->batch;

	if (c->handed < 0 && batch->nevents > 0)
		begin_shards(c, Min(batch->events[0].seq, c->position.last) - 1);
	count_later(c, batch->skips);
	note_pace(c);
	note_oldest(c);
	if (batch->nevents > 0 || broken)
	{
		atp_shards_hand(c->shards, batch, c->handed, c->position.last, broken, c->uncounted);
		memset(c->uncounted, 0, sizeof(c->uncounted));
		c->handed = c->position.last;
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
	if (atp_shards_failed(c->shards))
		atp_consumer_leave(c, "one of its workers ended", true);
}

/* What became of it decides whether the consumer goes on. */
static void
obey(Consumer *c, AtpApplied result, const char *reason)
{
	switch (result)
	{
		case ATP_APPLIED:
			break;
		case ATP_APPLY_GONE:
			atp_consumer_leave(c, "the extension was dropped", false);
			break;
		case ATP_APPLY_CURSOR_MOVED:
			atp_consumer_leave(c, "its cursor was set", true);
			break;
		case ATP_APPLY_STOP:
			atp_consumer_stop(c, reason);
			break;
	}
}

/* One transaction, or several pieces. */
static void
apply_batch(Consumer *c)
{
	AtpBatch   *batch = c->batch;
	AtpStreamProgress progress = atp_stream_progress(c->sub, 0, c->layout, c->cursor, c->position.last);
	AtpTime		begun = atp_now();
	int64		cached = batch->skips[ATP_SKIP_OLD];
	const char *reason;
	AtpApplied	result;

	note_oldest(c);
	progress.skips.uncounted = c->uncounted;
	result = atp_apply(c->sub, c->source->sink, c->statements, batch, &progress.base, &reason);
	c->applied_at = atp_now();
	c->applied_in = c->applied_at - begun;
	c->cursor = c->handed = progress.position;
	obey(c, result, reason);
	atp_status_batch(batch->skips);
	note_pace(c);
	atp_consumer_report(c);
	c->stats_pending = true;
	if (batch->nevents > 0)
		note_progress(c);
	c->purge_due |= batch->purge;
	atp_release_note(&c->releaser, batch);
	adapt(c, cached);
	atp_batch_reset(batch);
}

void
atp_consumer_apply(Consumer *c)
{
	AtpBatch   *batch = c->batch;

	if (batch->nmessages == 0)
		return;
	Assert(c->state == ATP_STATE_STREAMING || c->state == ATP_STATE_SETTLING);
	if (c->shards != NULL)
		hand_batch(c, false);
	else if (batch->nevents > 0 || batch->letters != NIL)
		apply_batch(c);
	else
	{
		/* nothing but messages that do not count */
		count_later(c, batch->skips);
		atp_batch_reset(batch);
	}
}

void
atp_consumer_settle(Consumer *c)
{
	atp_consumer_is_settling(c);
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
	if (c->shards != NULL || c->state == ATP_STATE_UNDECIDED || !(c->source->is_signed || c->source->by_repo))
		return -1;
	return atp_release_due(&c->releaser, atp_now());
}

void
atp_consumer_release(Consumer *c)
{
	int64		skips[ATP_SKIP_COUNT] = {0};
	const char *reason = NULL;

	obey(c, atp_release(&c->releaser, c->sub, c->source->sink, c->decoder, c->statements, c->loop_cxt, skips, &reason),
		 reason);
	atp_status_skips(skips);
	atp_consumer_report(c);
	c->stats_pending = true;
}
