/*
 * shards.c
 *		A subscription with several workers, as its consumer sees it.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "process/process.h"
#include "process/ring.h"
#include "process/shards.h"
#include "process/status.h"
#include "storage/dsm.h"
#include "utils/memutils.h"

struct AtpPipeline
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
start_worker(AtpPipeline *pipeline, const AtpSubscription *sub, int shard)
{
	BackgroundWorker worker;
	AtpWorkerStart start = {.database = MyDatabaseId, .owner = sub->owner, .shard = shard};

	StaticAssertStmt(sizeof(AtpWorkerStart) <= BGW_EXTRALEN, "start information must fit into bgw_extra");
	strlcpy(start.name, sub->name, sizeof(start.name));
	atp_process_describe(&worker, "atproto apply worker", psprintf("%s/%d", sub->name, shard),
						 "atp_apply_worker_main");
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = UInt32GetDatum(dsm_segment_handle(pipeline->segment));
	memcpy(worker.bgw_extra, &start, sizeof(start));
	return RegisterDynamicBackgroundWorker(&worker, &pipeline->workers[shard]);
}

AtpPipeline *
atp_pipeline_start(const AtpSubscription *sub, int nworkers, int layout)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	AtpPipeline *pipeline = palloc0(sizeof(AtpPipeline));

	if (nworkers > ATP_WORKERS_MAX)
		elog(ERROR, "%d workers are too many", nworkers);
	pipeline->segment = dsm_create(sizeof(AtpRing), 0);
	dsm_pin_mapping(pipeline->segment);
	pipeline->ring = dsm_segment_address(pipeline->segment);
	atp_ring_init(pipeline->ring, nworkers, sub->version, layout);
	on_dsm_detach(pipeline->segment, close_ring, PointerGetDatum(pipeline->ring));
	for (; pipeline->nworkers < nworkers; pipeline->nworkers++)
		if (!start_worker(pipeline, sub, pipeline->nworkers))
		{
			atp_pipeline_end(pipeline);
			pipeline = NULL;
			break;
		}
	MemoryContextSwitchTo(old);
	return pipeline;
}

void
atp_pipeline_end(AtpPipeline *pipeline)
{
	atp_ring_close(pipeline->ring);
	/* their successors must not meet them */
	for (int i = 0; i < pipeline->nworkers; i++)
	{
		(void) WaitForBackgroundWorkerShutdown(pipeline->workers[i]);
		pfree(pipeline->workers[i]);
	}
	dsm_detach(pipeline->segment);
	pfree(pipeline);
}

bool
atp_pipeline_lend(AtpPipeline *pipeline, AtpBatch *batch)
{
	if (!atp_ring_has_room(pipeline->ring, pipeline->collected))
		return false;
	atp_batch_lend(batch, atp_ring_next(pipeline->ring)->bytes, ATP_RING_BYTES);
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
atp_pipeline_hand(AtpPipeline *pipeline, AtpBatch *batch, int64 begin, int64 last, bool broken)
{
	AtpRing    *ring = pipeline->ring;
	AtpRingBatch *to = atp_ring_next(ring);
	ListCell   *lc;

	to->begin = begin;
	to->last = last;
	to->time = batch->time;
	to->broken = broken;
	to->nmessages = to->ngaps = 0;
	memset(to->skips, 0, sizeof(to->skips));
	for (int i = 0; i < batch->nevents; i++)
		add_message(ring, to, batch->events[i].message, batch->events[i].seq, batch->events[i].key);
	if (broken)
		add_message(ring, to, batch->messages[batch->ndecoded - 1], 0, 0);
	foreach(lc, batch->gaps)
		to->gaps[to->ngaps++] = *(const AtpGap *) lfirst(lc);
	atp_batch_lend(batch, NULL, 0);
	atp_ring_hand(ring);
}

bool
atp_pipeline_collect(AtpPipeline *pipeline, int64 *cursor)
{
	AtpRingBatch *batch;
	bool		any = false;

	while ((batch = atp_ring_finished(pipeline->ring, pipeline->collected)) != NULL)
	{
		int64		skips[ATP_SKIP_COUNT] = {0};

		for (int w = 0; w < pipeline->nworkers; w++)
			for (int i = 0; i < ATP_SKIP_COUNT; i++)
				skips[i] += batch->skips[w][i];
		atp_slot_batch(skips);
		*cursor = batch->last;
		pipeline->collected++;
		any = true;
	}
	return any;
}

bool
atp_pipeline_idle(const AtpPipeline *pipeline)
{
	return pg_atomic_read_u64(&pipeline->ring->handed) == pipeline->collected;
}

bool
atp_pipeline_failed(AtpPipeline *pipeline)
{
	for (int i = 0; i < pipeline->nworkers; i++)
	{
		pid_t		pid;

		/* the second, for one that ended before it could say so */
		if (pg_atomic_read_u32(&pipeline->ring->worker[i].ended) != 0 ||
			(pipeline->ring->worker[i].latch == NULL &&
			 GetBackgroundWorkerPid(pipeline->workers[i], &pid) == BGWH_STOPPED))
			return true;
	}
	return false;
}
