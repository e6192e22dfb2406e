/*
 * release.h
 *		Release of held events: judge held events again, and apply or reject them.
 *
 * A consumer or apply worker calls atp_release() between two batches of its stream.
 */
#ifndef ATP_RELEASE_H
#define ATP_RELEASE_H

#include "common/clock.h"
#include "stream/decode.h"
#include "tables/apply/apply.h"

typedef struct AtpReleaser
{
	/* this process releases the repositories of shard number shard, of shards */
	int			shard;
	int			shards;
	int			layout;			/* of the subscription's cursor, as this process knows it */
	bool		waits;			/* events may be held, so look for releases every LOOK_MS */
	bool		more;			/* the last step found work, so the next step is due at once */
	bool		swept;			/* all held events were queued for release at least once, last at time ... */
	AtpTime		sweep;			/* ... sweep */
	bool		left;			/* since the sweep, events may have been left to a taker (held_by.h) ... */
	AtpTime		unstick;		/* ... and when events that wait behind nothing, these or labels, were last queued */
	AtpTime		look;			/* when atp_release() last ran */
	int64		uncounted[ATP_SKIP_COUNT];	/* skips of releases that are not written to the table yet (skips.h) */
	bool		taken;			/* the last step applied events, or dropped events without a valid signature */
} AtpReleaser;

extern AtpReleaser atp_releaser(int shard, int shards, int layout);

/* After a batch of the stream was applied: note whether events were held or queued for release. */
extern void atp_release_note(AtpReleaser *r, const AtpBatch *batch);

/* Milliseconds until atp_release() is due. */
extern long atp_release_due(const AtpReleaser *r, AtpTime now);

/* Release one batch of held events at most.  Sets skips to the counts of this batch; the result is that of atp_apply(), with the reason in cxt. */
extern AtpApplied atp_release(AtpReleaser *r, const AtpSubscription *sub, const AtpSink *sink, AtpDecoder *decoder,
							  AtpStatements *statements, MemoryContext cxt, int64 *skips, const char **reason);

#endif							/* ATP_RELEASE_H */
