/*
 * shards.h
 *		A subscription with several workers, as its consumer sees it.
 *
 * The consumer receives, looks at sequence numbers and hands batches on
 * (ring.h); each worker (shard_worker.c) decodes and applies the repositories
 * of its shard, in transactions of its own, with a cursor of its own.  Where
 * the subscription is, the lowest of these cursors says.
 */
#ifndef ATP_SHARDS_H
#define ATP_SHARDS_H

#include "postgres.h"

#include "config/subscription.h"
#include "stream/batch.h"

typedef struct AtpShards AtpShards;

/*
 * Start the workers.  NULL: there are not enough worker slots, and nothing was
 * started.  An ERROR when there is no shared memory.
 */
extern AtpShards *atp_shards_start(const AtpSubscription *sub, int nworkers, int layout);

/* End them; what was handed over and not committed comes again (the cursors say so). */
extern void atp_shards_end(AtpShards *shards);

/* Give an empty batch memory that can be handed over.  False: the workers have to get on first. */
extern bool atp_shards_lend(AtpShards *shards, AtpBatch *batch);

/*
 * Hand over what ATP_DECODE_HEADS found in the batch, and take its memory.
 * begin is the position before it, last the one after it; broken: the stream
 * was dropped for the last message, which becomes a dead letter.
 */
extern void atp_shards_hand(AtpShards *shards, AtpBatch *batch, int64 begin, int64 last, bool broken, const int64 *uncounted);

/* Move *cursor to what all workers have committed by now; false: no further than before. */
extern bool atp_shards_collect(AtpShards *shards, int64 *cursor);

/* Is everything that was handed over collected? */
extern bool atp_shards_idle(const AtpShards *shards);

/* Records of deleted accounts may be left: the first worker looks. */
extern void atp_shards_purge(AtpShards *shards);

/* Has a worker ended?  Then nothing can be handed over any more. */
extern bool atp_shards_failed(AtpShards *shards);

#endif							/* ATP_SHARDS_H */
