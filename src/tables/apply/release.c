/*
 * release.c
 *		Release of held events: judge held events again, and apply or reject them.
 *
 * A consumer, or the apply worker of the shard, reads the held events that are due (release_find.c) into a batch, and
 * applies the batch with the code for batches of the stream.  release_progress.c removes the events' rows.
 *
 * Events are due when their repositories are queued.  In case no transaction has queued them, each process queues all held
 * events of its shard when it starts, and every SWEEP_MS.
 */
#include "postgres.h"

#include "common/injection.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "source.h"
#include "stream/decode.h"
#include "tables/apply/release_batch.h"
#include "utils/memutils.h"

#define LOOK_MS		1000
#define SWEEP_MS	(5 * 60 * 1000)
#define UNSTICK_MS	10000

/*
 * Decode each held message to an event of the batch.  The order is that of revisions, not of sequence numbers, so each
 * message is decoded with a fresh position.  The filters by account are off: they were applied at receipt.
 */
static void
decode_held(AtpHeldBatch *held, AtpDecoder *decoder, const AtpSubscription *sub)
{
	AtpBatch   *batch = held->batch;
	int			n = batch->nmessages;
	AtpSettings all = sub->settings;

	all.ndids = -1;
	all.slice.of = 0;
	atp_decoder_settings(decoder, &all);
	batch->nmessages = 0;
	for (int i = 0; i < n; i++)
	{
		AtpPosition position = atp_position_after(-1, 0);

		batch->nmessages = i + 1;
		all.verify = held->rows[i].level;
		atp_decoder_format(decoder, held->rows[i].source->format);
		(void) atp_decode(decoder, batch, &position, ATP_DECODE_HELD);
		batch->ndecoded = i + 1;
		/* no event was decoded: a user may have changed the row; an ignored event makes remove_released() remove the row */
		if (batch->nevents == i)
		{
			memset(&batch->events[i], 0, sizeof(AtpEvent));
			batch->events[batch->nevents++].ignored = true;
		}
		batch->events[i].held = &held->rows[i];
	}
	atp_decoder_settings(decoder, &sub->settings);
	atp_decoder_format(decoder, sub->source->format);
}

/* Has the step applied or dropped an event?  False: all events of the batch wait on. */
static bool
has_taken(const AtpBatch *batch)
{
	for (int i = 0; i < batch->nevents; i++)
		if (batch->events[i].ignored || batch->events[i].verdict.judged != ATP_JUDGED_HELD)
			return true;
	return false;
}

/* Has the step used up rows of the queue?  Repositories found by repo.hold or by a time limit have no row. */
static bool
has_used_queue(const AtpHeldBatch *held)
{
	for (int i = 0; i < held->nnamed; i++)
		if (DatumGetInt64(held->named[i]) != 0)
			return true;
	return false;
}

AtpReleaser
atp_releaser(int shard, int shards, int layout)
{
	return (AtpReleaser) {.shard = shard, .shards = shards, .layout = layout};
}

void
atp_release_note(AtpReleaser *r, const AtpBatch *batch)
{
	r->waits |= batch->held || batch->released;
	r->more |= batch->released;
}

long
atp_release_due(const AtpReleaser *r, AtpTime now)
{
	if (r->more || !r->swept)
		return 0;
	/* without held events known: sweep every SWEEP_MS, since further processes hold events that this process may have to release */
	return r->waits ? atp_remaining(now, r->look, LOOK_MS) : atp_remaining(now, r->sweep, SWEEP_MS);
}

AtpApplied
atp_release(AtpReleaser *r, const AtpSubscription *sub, const AtpSink *sink, AtpDecoder *decoder,
			AtpStatements *set, MemoryContext cxt, int64 *skips, const char **reason)
{
	AtpHeldBatch held = {
		.base = atp_release_progress, .shard = r->shard, .layout = r->layout, .skips.uncounted = r->uncounted
	};
	AtpApply	a = {.sub = sub, .sink = sink, .statements = set, .batch = &(AtpBatch) {.cxt = cxt}};
	AtpApplied	result = ATP_APPLIED;
	AtpExtension extension;

	r->look = atp_now();
	if (!r->swept || (!r->more && atp_remaining(r->look, r->sweep, SWEEP_MS) == 0))
	{
		r->waits = atp_release_queue_all(r, &a, false);
		r->swept = true;
		r->left = false;
		r->sweep = r->unstick = r->look;
	}
	else if (r->waits && (r->left || !(sink->uses & ATP_USE_REPOS)) && atp_remaining(r->look, r->unstick, UNSTICK_MS) == 0)
	{
		(void) atp_release_queue_all(r, &a, true);
		r->unstick = r->look;
	}
	r->more = false;
	if (!r->waits)
	{
		/* nothing waits, so there is room; the look for room below is not reached */
		atp_held_end_stall();
		return ATP_APPLIED;
	}
	held.batch = atp_batch_create(cxt);
	MemoryContextSwitchTo(held.batch->cxt);
	atp_begin("looking for held events");
	MemoryContextSwitchTo(held.batch->cxt);
	if ((extension = atp_extension_lock()) == ATP_EXTENSION_READY)
	{
		/* when the time has run out, room counts only once a labeler's key has become known */
		if (r->taken || atp_held_stalls(r->look))
			atp_held_look_for_room(&a);
		r->taken = false;
		atp_release_find(r, &a, &held);
		r->left |= held.by.ntakers > 0;
		if (held.ndids > 0)
		{
			a.batch = held.batch;
			a.progress = &held.base;
			atp_release_unhold(&a);
			if (held.batch->nmessages == 0)
				atp_release_forget_named(&held, set);
		}
	}
	atp_commit();
	if (extension != ATP_EXTENSION_READY)
		return ATP_APPLY_GONE;
	/* without a message, all events of the repositories may be left to a taker: the next look is soon enough */
	r->more = held.ndids > 0 && (held.batch->nmessages > 0 || has_used_queue(&held));
	MemoryContextSwitchTo(cxt);
	if (held.ndids > 0 && held.batch->nmessages > 0)
	{
		ATP_INJECTION_POINT("held events read");
		decode_held(&held, decoder, sub);
		result = atp_apply(sub, sink, set, held.batch, &held.base, reason);
		if (result == ATP_APPLIED)
		{
			memcpy(skips, held.batch->skips, sizeof(held.batch->skips));
			r->taken = has_taken(held.batch);
			/* false: all events of the batch wait on, and no row of the queue was used up */
			r->more = r->taken || has_used_queue(&held);
		}
		else if (result == ATP_APPLY_CURSOR_MOVED)
		{
			/* a concurrent process has released these events */
			r->more = false;
			result = ATP_APPLIED;
		}
	}
	return result;
}
