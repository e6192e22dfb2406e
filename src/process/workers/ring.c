/*
 * ring.c
 *		A ring of batches of messages in shared memory: see ring.h.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "process/workers/ring.h"

void
atp_ring_init(AtpRing *ring, int nworkers, TransactionId version, int layout)
{
	ring->writer = MyLatch;
	ring->nworkers = nworkers;
	ring->version = version;
	ring->layout = layout;
	pg_atomic_init_u32(&ring->closed, 0);
	pg_atomic_init_u32(&ring->purge, 1);	/* previous processes may have left records to purge */
	pg_atomic_init_u64(&ring->handed, 0);
	pg_atomic_init_u32(&ring->counted, 0);
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		pg_atomic_init_u64(&ring->skips[i], 0);
	SpinLockInit(&ring->names_lock);
	ring->nnames = 0;
	for (int i = 0; i < nworkers; i++)
	{
		ring->worker[i].latch = NULL;
		pg_atomic_init_u64(&ring->worker[i].done, 0);
		pg_atomic_init_u32(&ring->worker[i].ended, 0);
	}
}

static void
wake_workers(AtpRing *ring)
{
	/*
	 * The consumer writes the counter or flag before the latches are read.  A worker that joins writes its latch
	 * before the worker reads counters and flags.  So the worker finds the change, or the consumer the latch.
	 */
	pg_memory_barrier();
	for (int i = 0; i < ring->nworkers; i++)
	{
		Latch	   *latch = ring->worker[i].latch;

		if (latch != NULL)
			SetLatch(latch);
	}
}

bool
atp_ring_has_room(AtpRing *ring, uint64 collected)
{
	return pg_atomic_read_u64(&ring->handed) - collected < ATP_RING_BATCHES;
}

AtpRingBatch *
atp_ring_next(AtpRing *ring)
{
	return &ring->batch[pg_atomic_read_u64(&ring->handed) % ATP_RING_BATCHES];
}

void
atp_ring_hand(AtpRing *ring)
{
	(void) pg_atomic_fetch_add_u64(&ring->handed, 1);
	wake_workers(ring);
}

void
atp_ring_close(AtpRing *ring)
{
	pg_atomic_write_u32(&ring->closed, 1);
	wake_workers(ring);
}

AtpRingBatch *
atp_ring_finished(AtpRing *ring, uint64 number)
{
	if (pg_atomic_read_u64(&ring->handed) <= number)
		return NULL;
	for (int i = 0; i < ring->nworkers; i++)
		if (pg_atomic_read_u64(&ring->worker[i].done) <= number)
			return NULL;
	/* the workers' results are read after "done" */
	pg_memory_barrier();
	return &ring->batch[number % ATP_RING_BATCHES];
}

void
atp_ring_join(AtpRing *ring, int shard)
{
	ring->worker[shard].latch = MyLatch;
	/* see wake_workers() */
	pg_memory_barrier();
}

AtpRingBatch *
atp_ring_work(AtpRing *ring, int shard)
{
	uint64		done = pg_atomic_read_u64(&ring->worker[shard].done);

	if (pg_atomic_read_u64(&ring->handed) == done)
		return NULL;
	/* the batch is read after "handed" */
	pg_memory_barrier();
	return &ring->batch[done % ATP_RING_BATCHES];
}

void
atp_ring_done(AtpRing *ring, int shard)
{
	/* the increment follows the results in memory, and SetLatch() begins with a barrier */
	(void) pg_atomic_fetch_add_u64(&ring->worker[shard].done, 1);
	SetLatch(ring->writer);
}

void
atp_ring_leave(AtpRing *ring, int shard)
{
	ring->worker[shard].latch = NULL;
	pg_atomic_write_u32(&ring->worker[shard].ended, 1);
	SetLatch(ring->writer);
}

void
atp_ring_ask_purge(AtpRing *ring)
{
	Latch	   *latch;

	pg_atomic_write_u32(&ring->purge, 1);
	/* see wake_workers() */
	pg_memory_barrier();
	if ((latch = ring->worker[0].latch) != NULL)
		SetLatch(latch);
}

bool
atp_ring_take_purge(AtpRing *ring)
{
	return pg_atomic_exchange_u32(&ring->purge, 0) != 0;
}

void
atp_ring_add_skips(AtpRing *ring, const int64 *skips)
{
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		pg_atomic_fetch_add_u64(&ring->skips[i], skips[i]);
	/* atomic operations keep their order among each other: no count stays behind without "counted" */
	(void) pg_atomic_exchange_u32(&ring->counted, 1);
	SetLatch(ring->writer);
}

bool
atp_ring_take_skips(AtpRing *ring, int64 *skips)
{
	if (pg_atomic_read_u32(&ring->counted) == 0)
		return false;
	(void) pg_atomic_exchange_u32(&ring->counted, 0);
	for (int i = 0; i < ATP_SKIP_COUNT; i++)
		skips[i] = (int64) pg_atomic_exchange_u64(&ring->skips[i], 0);
	return true;
}

void
atp_ring_add_names(AtpRing *ring)
{
	const AtpUnknownName *name;

	while ((name = atp_unknown_next()) != NULL)
	{
		bool		room;

		SpinLockAcquire(&ring->names_lock);
		room = ring->nnames < ATP_RING_NAMES;
		if (room)
			ring->names[ring->nnames++] = *name;
		SpinLockRelease(&ring->names_lock);
		if (!room)
			return;
		atp_unknown_told(name);
	}
}

void
atp_ring_take_names(AtpRing *ring)
{
	AtpUnknownName names[ATP_RING_NAMES];
	int			n;

	SpinLockAcquire(&ring->names_lock);
	n = ring->nnames;
	memcpy(names, ring->names, sizeof(AtpUnknownName) * n);
	ring->nnames = 0;
	SpinLockRelease(&ring->names_lock);
	for (int i = 0; i < n; i++)
		atp_unknown_add(&names[i]);
}
