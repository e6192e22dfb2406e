/*
 * shards.h
 *		The consumer's side of a subscription with several workers.
 *
 * The consumer receives messages, checks sequence numbers and passes batches on (ring.h).  Each worker
 * (shard_worker.c) decodes and applies the repositories of its shard, in its own transactions, with
 * its own cursor.  The subscription's position is the lowest of these cursors.
 */
#ifndef ATP_SHARDS_H
#define ATP_SHARDS_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"

typedef struct AtpShards AtpShards;

/*
 * Start the workers.  NULL: too few worker slots, and no worker was left running.  An ERROR when out of
 * shared memory.
 */
extern AtpShards *atp_shards_start(const AtpSubscription *sub, int nworkers, int layout);

/*
 * End the workers.  Events passed to them and not committed will be received again, because the cursors are
 * before them.
 */
extern void atp_shards_end(AtpShards *shards);

/* Lend a free batch of the ring to an empty batch.  False: all are in use by the workers. */
extern bool atp_shards_lend(AtpShards *shards, AtpBatch *batch);

/*
 * Pass the events that ATP_DECODE_HEADS found to the workers, together with the memory of the batch. begin is
 * the position before the batch, last the position after. broken: the stream was dropped because of the last
 * message, which becomes a dead letter.  last_row: see AtpCursor.  set_back: the cursors were set back to begin.
 */
extern void atp_shards_hand(AtpShards *shards, AtpBatch *batch, int64 begin, bool set_back, int64 last, int64 last_row, bool broken, const int64 *uncounted);

/* Move *cursor to the position that all workers have committed; false: not moved. */
extern bool atp_shards_collect(AtpShards *shards, int64 *cursor);

/* Have the workers committed all batches passed to them? */
extern bool atp_shards_idle(const AtpShards *shards);

/* Ask worker 0 to look for records of deleted accounts. */
extern void atp_shards_purge(AtpShards *shards);

/* Has a worker ended?  Then no more batches can be passed on. */
extern bool atp_shards_failed(AtpShards *shards);

#endif							/* ATP_SHARDS_H */
