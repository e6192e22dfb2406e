/*
 * shard_worker.c
 *		An apply worker: decodes and applies the events of the repositories in its
 *		shard, for a subscription with several workers.
 *
 * A worker takes batches from shared memory as a consumer takes them from its connection, and
 * processes them in the same way, with a cursor of its own.  After a crash the consumer reads the
 * stream from the lowest of the workers' cursors, and each worker passes over events up to its own
 * cursor.
 */
#include "postgres.h"

#include "common/compat.h"
#include "config/claim.h"
#include "config/cursor.h"
#include "config/extension.h"
#include "config/free_disk.h"
#include "config/transaction.h"
#include "miscadmin.h"
#include "net/wait.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "process/status/process.h"
#include "process/workers/ring.h"
#include "process/workers/shard_worker.h"
#include "process/status/status.h"
#include "source.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "stream/decode.h"
#include "tables/base/history.h"
#include "tables/apply/apply.h"
#include "tables/apply/release.h"
#include "tables/base/statements.h"
#include "utils/memutils.h"

#define FULL_DISK_MS	1000	/* held events are released later, while a volume is nearly full */

typedef struct Worker
{
	AtpRing    *ring;
	int			shard;
	AtpSubscription *sub;
	const AtpStreamKind *source;
	AtpStatements *statements;
	AtpDecoder *decoder;
	AtpBatch   *batch;
	int64		cursor;			/* position committed; -1: no position yet */
	AtpReleaser releaser;		/* for held events of the worker's shard */
} Worker;

/* End the worker.  The consumer notices the end, and decides what to do. */
pg_noreturn static void
worker_ends(const char *why)
{
	ereport(LOG, (errmsg("%s ends: %s", MyBgworkerEntry->bgw_name, why)));
	proc_exit(0);
}

/* Stop the subscription until an operator decides.  The consumer hears of this as of any change of the row. */
pg_noreturn static void
stop_subscription(Worker *w, const char *reason)
{
	(void) atp_process_stop_subscription(w->sub, reason);
	worker_ends(reason);
}

static void
leave_ring(dsm_segment *segment, Datum worker)
{
	Worker	   *w = (Worker *) DatumGetPointer(worker);

	atp_ring_leave(w->ring, w->shard);
}

static void
attach_ring(Worker *w, dsm_handle handle)
{
	dsm_segment *segment = dsm_attach(handle);

	/* the consumer has ended already */
	if (segment == NULL)
		proc_exit(0);
	dsm_pin_mapping(segment);
	w->ring = dsm_segment_address(segment);
	on_dsm_detach(segment, leave_ring, PointerGetDatum(w));
	atp_ring_join(w->ring, w->shard);
}

static void
read_settings(Worker *w, const char *name)
{
	AtpHistory	history;
	bool		same;

	atp_begin("reading the subscription");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		w->sub = atp_subscription_get(name, TopMemoryContext);
	/* the row must be the version the consumer read: changed settings apply from a known event on */
	if (w->sub != NULL && w->sub->has_archive && atp_history_get(name, &history))
		w->sub->settings.archived_until = history.again_until;
	if (w->sub != NULL)
		atp_free_disk_watch(w->sub->target);
	same = w->sub != NULL && w->sub->version == w->ring->version &&
		atp_cursor_of_shard(name, w->sub->ep->scope, w->shard, w->ring->layout, &w->cursor);
	atp_commit();
	if (!same)
		worker_ends("the subscription changed");
	w->statements = atp_statements_create(w->sub->target, w->shard);
	w->source = w->sub->source;
	w->decoder = atp_decoder_create(TopMemoryContext, w->source->format);
	w->releaser = atp_releaser(w->shard, w->ring->nworkers, w->ring->layout);
	atp_decoder_settings(w->decoder, &w->sub->settings);
}

/* Decode the messages of this worker's shard that are not committed yet. */
static void
decode_share(Worker *w, const AtpRingBatch *from)
{
	AtpBatch   *batch = w->batch;
	AtpPosition position = {.last = w->cursor, .rewind = w->source->rewind};
	AtpVerdict	verdict;
	int			n = from->nmessages - (from->broken ? 1 : 0);

	for (int i = 0; i < n; i++)
	{
		const AtpRingMessage *message = &from->messages[i];

		/* if positions can go back, events committed before are recognized later, by their repository's state */
		if (message->shard == w->shard && (message->seq > w->cursor || w->source->rewind > 0))
			atp_batch_add_shared(batch, (AtpBytes) {from->bytes + message->offset, message->len});
	}
	verdict = atp_decode(w->decoder, batch, &position, ATP_DECODE_ROWS);
	if (verdict.drop != ATP_DROP_NONE)
		elog(ERROR, "an event that the consumer accepted is not acceptable: %s", verdict.why);
	batch->time = from->time;
	batch->passed_at = from->passed_at;
	for (int i = 0; i < from->ngaps; i++)
		if (from->gaps[i].before > w->cursor)
			atp_batch_new_gap(batch, &from->gaps[i]);
	if (w->shard != 0)
		return;
	if (from->broken)
	{
		const AtpRingMessage *message = &from->messages[n];

		/*
		 * the broken message at the end of the batch becomes a dead letter: its position follows all events of
		 * the batch, not only the events of this shard
		 */
		position.last = from->last;
		atp_batch_add_shared(batch, (AtpBytes) {from->bytes + message->offset, message->len});
		(void) atp_decode(w->decoder, batch, &position, ATP_DECODE_ROWS);
	}
}

/* Act on the result of applying: continue, end, or stop. */
static void
obey_result(Worker *w, AtpApplied result, const char *reason)
{
	switch (result)
	{
		case ATP_APPLIED:
			break;
		case ATP_APPLY_GONE:
			worker_ends("the extension was dropped or changed");
			break;
		case ATP_APPLY_CURSOR_MOVED:
			worker_ends("its cursor was set");
			break;
		case ATP_APPLY_STOP:
			stop_subscription(w, reason);
			break;
	}
}

static void
apply_share(Worker *w, AtpRingBatch *from)
{
	AtpStreamProgress progress;
	const char *reason = NULL;

	if (w->cursor < 0 || from->set_back)
		w->cursor = from->begin;
	decode_share(w, from);
	progress = atp_stream_progress(w->sub, w->shard, w->ring->layout, w->cursor, Max(from->last, w->cursor));
	/* the consumer has noted the gaps */
	progress.noted = true;
	progress.decoder = w->sub->has_archive ? w->decoder : NULL;
	progress.last_row = from->last_row;
	if (w->shard == 0)
		progress.skips.uncounted = from->uncounted;
	if (from->last > w->cursor || w->batch->nevents > 0 || w->batch->letters != NIL)
	{
		AtpApplied	result = atp_apply(w->sub, w->source->sink, w->statements, w->batch, &progress.base, &reason);

		obey_result(w, result, reason);
	}
	w->cursor = progress.position;
	atp_release_note(&w->releaser, w->batch);
	atp_decoder_shares(w->decoder, w->batch->shared);
	memcpy(from->skips[w->shard], w->batch->skips, sizeof(w->batch->skips));
	if (w->batch->purge)
		atp_ring_ask_purge(w->ring);
	atp_ring_add_names(w->ring);
	atp_batch_reset(w->batch);
}

static void
release_events(Worker *w, MemoryContext cxt)
{
	int64		skips[ATP_SKIP_COUNT] = {0};
	const char *reason = NULL;
	AtpApplied	result = atp_release(&w->releaser, w->sub, w->source->sink, w->decoder, w->statements, cxt, skips, &reason);

	obey_result(w, result, reason);
	atp_ring_add_skips(w->ring, skips);
}

/* Milliseconds until held events of the shard are to be looked at; -1: there are none. */
static long
release_due(const Worker *w)
{
	AtpTime		now = atp_now();
	long		due = atp_stream_kind_holds(w->source) ? atp_release_due(&w->releaser, now) : -1;

	return due == 0 && atp_free_disk_fault(now) != NULL ? FULL_DISK_MS : due;
}

/* Milliseconds until the worker has work without a new batch. */
static long
may_sleep(const Worker *w, bool stats_pending)
{
	long		due = release_due(w);

	if (!stats_pending)
		return due;
	return due < 0 ? ATP_STATS_DELAY_MS : Min(due, ATP_STATS_DELAY_MS);
}

pg_noreturn static void
worker_loop(Worker *w)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto loop", ALLOCSET_DEFAULT_SIZES);
	bool		stats_pending = false;

	for (;;)
	{
		AtpRingBatch *batch;

		MemoryContextSwitchTo(cxt);
		MemoryContextReset(cxt);
		atp_serve_interrupts();
		if (pg_atomic_read_u32(&w->ring->closed) != 0)
			proc_exit(0);
		if ((batch = atp_ring_work(w->ring, w->shard)) != NULL)
		{
			apply_share(w, batch);
			atp_ring_done(w->ring, w->shard);
			stats_pending = true;
		}
		/* one bounded step between two batches, so that batches do not wait long */
		if (w->shard == 0 && atp_ring_take_purge(w->ring))
		{
			if (atp_purge(w->sub, w->source->sink, w->statements, cxt))
				atp_ring_ask_purge(w->ring);
			continue;
		}
		if (release_due(w) == 0)
		{
			release_events(w, cxt);
			stats_pending = true;
			continue;
		}
		if (batch != NULL)
			continue;
		pgstat_report_activity(STATE_IDLE, "waiting for events");
		atp_wait(NULL, 0, may_sleep(w, stats_pending));
		if (stats_pending && atp_ring_work(w->ring, w->shard) == NULL)
		{
			pgstat_report_stat(true);
			stats_pending = false;
		}
	}
}

void
atp_shard_worker_main(Datum arg)
{
	AtpShardWorkerStart start;

	/* not on the stack: exit callbacks use it after an ERROR has left this function */
	Worker	   *w = MemoryContextAllocZero(TopMemoryContext, sizeof(Worker));

	memcpy(&start, MyBgworkerEntry->bgw_extra, sizeof(start));
	atp_process_begin();
	atp_status_report_end(start.database, start.owner, start.id, start.name);
	BackgroundWorkerInitializeConnectionByOid(start.database, start.owner, 0);
	atp_process_connected(psprintf("atproto %s/%d", start.name, start.shard));
	w->shard = start.shard;
	attach_ring(w, DatumGetUInt32(arg));
	if (!atp_claim_worker(start.name, start.shard))
		worker_ends("another process does the same");
	w->batch = atp_batch_create(TopMemoryContext);
	read_settings(w, start.name);
	worker_loop(w);
}
