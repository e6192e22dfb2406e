/*
 * ring.h
 *		A ring of batches of messages in shared memory, from the consumer, which
 *		receives messages, to the workers, which apply them.
 *
 * There is one writer, which fills the batches in turn, and a reader for each worker, which goes
 * through every batch and takes the messages of its shard.  A batch is filled again when all readers
 * are done with it, so memory is bounded whatever the backlog.
 *
 * No lock protects a batch; counters tell which process owns the batch.  The consumer fills a batch,
 * then increments "handed".  A worker that finds "handed" greater than its own "done" may read the
 * batch, and increments "done" after its commit.  When all workers have done so, the consumer may read
 * the workers' results in the batch, and fill it again.  Counters are incremented with a full barrier,
 * and a barrier follows each read of a counter: so no process sees a counter before the data.  On arm64
 * the barrier of an increment orders only earlier accesses.  So no process writes to a batch between an
 * increment and the next read of a counter with its barrier.
 */
#ifndef ATP_RING_H
#define ATP_RING_H

#include "postgres.h"

#include "config/subscription.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "storage/spin.h"
#include "stream/batch.h"
#include "stream/unknown.h"

/* Unknown names from workers, not yet taken by the consumer; a worker with more names keeps the rest. */
#define ATP_RING_NAMES		8

typedef struct AtpRingMessage
{
	int64		seq;
	uint32		offset;			/* in the batch's bytes */
	uint32		len;
	int			shard;
} AtpRingMessage;

typedef struct AtpRingBatch
{
	int64		begin;			/* the position before the first event: where a worker without a cursor begins ... */
	bool		set_back;		/* ... or each worker: the cursors were set back to it, while no batch was in the ring */
	int64		last;			/* the position after the batch is committed ... */
	int64		last_row;		/* ... and the digest of the row there; 0: not known */
	int64		time;			/* of the last event; 0: unknown */
	TimestampTz passed_at;		/* as in AtpBatch */
	bool		broken;			/* the stream was dropped because of the last message, which goes to shard 0 */
	int			nmessages;
	int			ngaps;
	AtpRingMessage messages[ATP_BATCH_EVENTS];
	AtpGap		gaps[ATP_BATCH_EVENTS];
	int64		skips[ATP_WORKERS_MAX][ATP_SKIP_COUNT]; /* written by the workers */
	int64		uncounted[ATP_SKIP_COUNT];	/* written by the consumer; shard 0 stores these counts with its cursor */
	uint8_t		bytes[ATP_BATCH_ROOM];
} AtpRingBatch;

typedef struct AtpRingWorker
{
	Latch	   *volatile latch; /* NULL: the worker has not joined, or has left, perhaps between two reads */
	pg_atomic_uint64 done;		/* batches, since the ring began */
	pg_atomic_uint32 ended;		/* the worker will apply no more batches */
} AtpRingWorker;

typedef struct AtpRing
{
	Latch	   *writer;
	int			nworkers;
	TransactionId version;		/* of the subscription's row: these settings hold for all batches */
	int			layout;			/* layout of the cursors of the workers */
	pg_atomic_uint32 closed;	/* the consumer is gone, so no batch will follow */
	pg_atomic_uint32 purge;		/* records of deleted accounts may be left */
	pg_atomic_uint64 handed;	/* batches, since the ring began */
	pg_atomic_uint32 counted;	/* skips has counts ... */
	pg_atomic_uint64 skips[ATP_SKIP_COUNT]; /* ... from released events, not yet taken by the consumer */
	slock_t		names_lock;		/* for nnames and names */
	int			nnames;
	AtpUnknownName names[ATP_RING_NAMES];
	AtpRingWorker worker[ATP_WORKERS_MAX];
	AtpRingBatch batch[ATP_RING_BATCHES];
} AtpRing;

extern void atp_ring_init(AtpRing *ring, int nworkers, TransactionId version, int layout);

/* For the consumer: is a batch free?  If so, atp_ring_next() is the batch to fill. */
extern bool atp_ring_has_room(AtpRing *ring, uint64 collected);
extern AtpRingBatch *atp_ring_next(AtpRing *ring);

/* The batch is filled: pass it to the workers. */
extern void atp_ring_hand(AtpRing *ring);

/* No batch will follow. */
extern void atp_ring_close(AtpRing *ring);

/* The batch with this number, if all workers are done with it; else NULL. */
extern AtpRingBatch *atp_ring_finished(AtpRing *ring, uint64 number);

/* For a worker: join the ring; get the next batch, or NULL; tell that the batch is done; leave. */
extern void atp_ring_join(AtpRing *ring, int shard);
extern AtpRingBatch *atp_ring_work(AtpRing *ring, int shard);
extern void atp_ring_done(AtpRing *ring, int shard);
extern void atp_ring_leave(AtpRing *ring, int shard);

/* A worker adds counts of no batch; the consumer takes the counts.  False: there are no counts. */
extern void atp_ring_add_skips(AtpRing *ring, const int64 *skips);
extern bool atp_ring_take_skips(AtpRing *ring, int64 *skips);

/* A worker passes unknown names on (unknown.h), as far as there is room; the consumer takes the names. */
extern void atp_ring_add_names(AtpRing *ring);
extern void atp_ring_take_names(AtpRing *ring);

/* Ask worker 0 to purge records of deleted accounts; in worker 0: was it asked? */
extern void atp_ring_ask_purge(AtpRing *ring);
extern bool atp_ring_take_purge(AtpRing *ring);

#endif							/* ATP_RING_H */
