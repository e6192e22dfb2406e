/*
 * release.h
 *		Events that were held are judged again, and taken: a step of who
 *		consumes a stream, between two batches.
 */
#ifndef ATP_RELEASE_H
#define ATP_RELEASE_H

#include "common/clock.h"
#include "stream/decode.h"
#include "tables/apply/apply.h"

typedef struct AtpReleaser
{
	/* whose repositories: those of one shard of so many */
	int			shard;
	int			shards;
	bool		waits;			/* some may be held: looked at now and then */
	bool		more;			/* there was something to do the last time */
	bool		swept;			/* all that is held has been looked at, then ... */
	AtpTime		sweep;			/* ... */
	AtpTime		unstick;		/* and those that wait behind nothing */
	AtpTime		look;			/* the last time for those that are named */
	int64		uncounted[ATP_SKIP_COUNT];	/* skips of releases that could not be written (skips.h) */
	bool		taken;			/* the last release took events, or dropped events as not signed */
} AtpReleaser;

extern AtpReleaser atp_releaser(int shard, int shards);

/* What applying a batch says of events that wait. */
extern void atp_release_note(AtpReleaser *r, const AtpBatch *batch);

/* Milliseconds until there may be something to do. */
extern long atp_release_due(const AtpReleaser *r, AtpTime now);

/* One bounded step; skips are what it counted.  As atp_apply(), the reason in cxt. */
extern AtpApplied atp_release(AtpReleaser *r, const AtpSubscription *sub, const AtpSink *sink, AtpDecoder *decoder,
							  AtpStatements *statements, MemoryContext cxt, int64 *skips, const char **reason);

#endif							/* ATP_RELEASE_H */
