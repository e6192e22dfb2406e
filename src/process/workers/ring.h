/*
 * ring.h
 *		Batches of messages in shared memory, from the consumer that receives
 *		them to the workers that apply them.
 *
 * One writer, which fills the batches in turn, and as many readers as there are
 * workers, each of which goes through every batch and takes the messages of its
 * shard.  A batch is written again when all readers are done with it, so memory
 * is bounded whatever the backlog.
 *
 * No lock guards a batch; two counters say whose it is.  The consumer fills a
 * batch and then counts it in "handed"; a worker that finds "handed" beyond its own
 * "done" may read what was filled.  When it is ready it counts that in "done", and
 * when all have, the consumer may read what they left in the batch, and fill it
 * again.  So that nobody sees a counter before what it speaks of, they are moved
 * with a full barrier, and there is one between reading a counter and the batch.
 */
#ifndef ATP_RING_H
#define ATP_RING_H

#include "postgres.h"

#include "config/subscription.h"
#include "port/atomics.h"
#include "storage/latch.h"
#include "stream/batch.h"

/* One is being filled, one is worked on; the third is there so that neither side waits for the other. */
#define ATP_RING_BATCHES	3

typedef struct AtpRingMessage
{
	int64		seq;
	uint32		offset;			/* in the batch's bytes */
	uint32		len;
	int			shard;
} AtpRingMessage;

typedef struct AtpRingBatch
{
	int64		begin;			/* the position before the first event: where a worker without a cursor begins */
	int64		last;			/* the position when all of it is committed */
	int64		time;			/* of the last event; 0: unknown */
	bool		broken;			/* the stream was dropped for the last message, which is shard 0's */
	int			nmessages;
	int			ngaps;
	AtpRingMessage messages[ATP_BATCH_EVENTS];
	AtpGap		gaps[ATP_BATCH_EVENTS];
	int64		skips[ATP_WORKERS_MAX][ATP_SKIP_COUNT]; /* counted by the workers */
	int64		uncounted[ATP_SKIP_COUNT];	/* by the consumer: shard 0 writes them with its cursor */
	uint8_t		bytes[ATP_BATCH_ROOM];
} AtpRingBatch;

typedef struct AtpRingWorker
{
	Latch	   *latch;			/* NULL: not there yet, or gone */
	pg_atomic_uint64 done;		/* batches, since the ring began */
	pg_atomic_uint32 ended;		/* it will do no more of them */
} AtpRingWorker;

typedef struct AtpRing
{
	Latch	   *writer;
	int			nworkers;
	TransactionId version;		/* of the subscription whose settings hold for all batches */
	int			layout;			/* of the cursors that move with them */
	pg_atomic_uint32 closed;	/* the writer is gone: no batch will come */
	pg_atomic_uint32 purge;		/* records of deleted accounts may be left */
	pg_atomic_uint64 handed;	/* batches, since the ring began */
	pg_atomic_uint32 counted;	/* there are ... */
	pg_atomic_uint64 skips[ATP_SKIP_COUNT];	/* ... of events that were released, not yet told */
	AtpRingWorker worker[ATP_WORKERS_MAX];
	AtpRingBatch batch[ATP_RING_BATCHES];
} AtpRing;

extern void atp_ring_init(AtpRing *ring, int nworkers, TransactionId version, int layout);

/* The writer: is there a batch to fill, which then is atp_ring_next()?  */
extern bool atp_ring_has_room(AtpRing *ring, uint64 collected);
extern AtpRingBatch *atp_ring_next(AtpRing *ring);

/* It is filled. */
extern void atp_ring_hand(AtpRing *ring);

/* No more will come. */
extern void atp_ring_close(AtpRing *ring);

/* The batch with this number when all workers are done with it, or NULL. */
extern AtpRingBatch *atp_ring_finished(AtpRing *ring, uint64 number);

/* A worker: it is there; the batch it has to work on, or NULL; it is done with that; it ends. */
extern void atp_ring_join(AtpRing *ring, int shard);
extern AtpRingBatch *atp_ring_work(AtpRing *ring, int shard);
extern void atp_ring_done(AtpRing *ring, int shard);
extern void atp_ring_leave(AtpRing *ring, int shard);

/* A worker has counted these apart from any batch; the writer takes them, if there are any. */
extern void atp_ring_add_skips(AtpRing *ring, const int64 *skips);
extern bool atp_ring_take_skips(AtpRing *ring, int64 *skips);

/* Any worker: records of deleted accounts are left.  Shard 0, which removes them: are there? */
extern void atp_ring_ask_purge(AtpRing *ring);
extern bool atp_ring_take_purge(AtpRing *ring);

#endif							/* ATP_RING_H */
