/*
 * shards.c
 *		The consumer's side of a subscription with several workers: see shards.h.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "process/status/process.h"
#include "process/workers/ring.h"
#include "process/workers/shard_worker.h"
#include "process/workers/shards.h"
#include "process/status/status.h"
#include "storage/dsm.h"
#include "utils/memutils.h"

struct AtpShards
{
	dsm_segment *segment;
	AtpRing    *ring;
	uint64		collected;		/* batches */
	int			nworkers;
	BackgroundWorkerHandle *workers[ATP_WORKERS_MAX];
};

static void
close_ring(dsm_segment *segment, Datum ring)
{
	atp_ring_close((AtpRing *) DatumGetPointer(ring));
}

static bool
start_worker(AtpShards *shards, const AtpSubscription *sub, int shard)
{
	BackgroundWorker worker;
	AtpShardWorkerStart start = {.database = MyDatabaseId, .owner = sub->owner, .shard = shard};

	StaticAssertStmt(sizeof(AtpShardWorkerStart) <= BGW_EXTRALEN, "start information must fit into bgw_extra");
	strlcpy(start.id, sub->id, sizeof(start.id));
	strlcpy(start.name, sub->name, sizeof(start.name));
	atp_process_describe(&worker, "atproto apply worker", psprintf("%s/%d", sub->name, shard),
						 "atp_shard_worker_main");
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(shards->segment));
	memcpy(worker.bgw_extra, &start, sizeof(start));
	return RegisterDynamicBackgroundWorker(&worker, &shards->workers[shard]);
}

AtpShards *
atp_shards_start(const AtpSubscription *sub, int nworkers, int layout)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	AtpShards  *shards = palloc0(sizeof(AtpShards));

	if (nworkers > ATP_WORKERS_MAX)
		elog(ERROR, "%d workers are too many", nworkers);
	shards->segment = dsm_create(sizeof(AtpRing), 0);
	dsm_pin_mapping(shards->segment);
	shards->ring = dsm_segment_address(shards->segment);
	atp_ring_init(shards->ring, nworkers, sub->version, layout);
	on_dsm_detach(shards->segment, close_ring, PointerGetDatum(shards->ring));
	for (; shards->nworkers < nworkers; shards->nworkers++)
		if (!start_worker(shards, sub, shards->nworkers))
		{
			atp_shards_end(shards);
			shards = NULL;
			break;
		}
	MemoryContextSwitchTo(old);
	return shards;
}

void
atp_shards_end(AtpShards *shards)
{
	atp_ring_close(shards->ring);
	/* wait, so that the next workers find the claims free */
	for (int i = 0; i < shards->nworkers; i++)
	{
		(void) WaitForBackgroundWorkerShutdown(shards->workers[i]);
		pfree(shards->workers[i]);
	}
	dsm_detach(shards->segment);
	pfree(shards);
}

bool
atp_shards_lend(AtpShards *shards, AtpBatch *batch)
{
	if (!atp_ring_has_room(shards->ring, shards->collected))
		return false;
	atp_batch_lend(batch, atp_ring_next(shards->ring)->bytes);
	return true;
}

static void
add_message(AtpRing *ring, AtpRingBatch *to, AtpBytes message, int64 seq, uint32 key)
{
	to->messages[to->nmessages++] = (AtpRingMessage) {
		.seq = seq,
		.offset = message.ptr - to->bytes,
		.len = message.len,
		.shard = key % ring->nworkers,
	};
}

void
atp_shards_hand(AtpShards *shards, AtpBatch *batch, int64 begin, bool set_back, int64 last, int64 last_row, bool broken, const int64 *uncounted)
{
	AtpRing    *ring = shards->ring;
	AtpRingBatch *to = atp_ring_next(ring);
	ListCell   *lc;

	to->begin = begin;
	to->set_back = set_back;
	to->last = last;
	to->last_row = last_row;
	to->time = batch->time;
	to->passed_at = batch->passed_at;
	to->broken = broken;
	to->nmessages = to->ngaps = 0;
	memset(to->skips, 0, sizeof(to->skips));
	memcpy(to->uncounted, uncounted, sizeof(to->uncounted));
	for (int i = 0; i < batch->nevents; i++)
		add_message(ring, to, batch->events[i].message, batch->events[i].seq, batch->events[i].key);
	if (broken)
		add_message(ring, to, batch->messages[batch->ndecoded - 1], 0, 0);
	foreach(lc, batch->gaps)
		to->gaps[to->ngaps++] = *(const AtpGap *) lfirst(lc);
	atp_batch_lend(batch, NULL);
	atp_ring_hand(ring);
}

bool
atp_shards_collect(AtpShards *shards, int64 *cursor)
{
	AtpRingBatch *batch;
	bool		any = false;
	int64		released[ATP_SKIP_COUNT];

	atp_ring_take_names(shards->ring);
	if (atp_ring_take_skips(shards->ring, released))
		atp_status_skips(released);
	while ((batch = atp_ring_finished(shards->ring, shards->collected)) != NULL)
	{
		int64		skips[ATP_SKIP_COUNT] = {0};

		for (int w = 0; w < shards->nworkers; w++)
			for (int i = 0; i < ATP_SKIP_COUNT; i++)
				skips[i] += batch->skips[w][i];
		atp_status_batch(skips);
		*cursor = batch->last;
		shards->collected++;
		any = true;
	}
	return any;
}

bool
atp_shards_idle(const AtpShards *shards)
{
	return pg_atomic_read_u64(&shards->ring->handed) == shards->collected;
}

void
atp_shards_purge(AtpShards *shards)
{
	atp_ring_ask_purge(shards->ring);
}

bool
atp_shards_failed(AtpShards *shards)
{
	for (int i = 0; i < shards->nworkers; i++)
	{
		pid_t		pid;

		/* the second condition finds a worker that ended before it joined, and so could not set "ended" */
		if (pg_atomic_read_u32(&shards->ring->worker[i].ended) != 0 ||
			(shards->ring->worker[i].latch == NULL &&
			 GetBackgroundWorkerPid(shards->workers[i], &pid) == BGWH_STOPPED))
			return true;
	}
	return false;
}
