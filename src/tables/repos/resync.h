/*
 * resync.h
 *		Schedule fetches of repositories that differ from the network.
 *
 * This file queues, suspends and removes jobs in atproto.repo_job; the fetcher carries the jobs out.
 */
#ifndef ATP_RESYNC_H
#define ATP_RESYNC_H

#include "tables/base/sink.h"

/* Queue, suspend, resume or remove fetches as the events [a->lo, a->hi) demand, in the transaction of these events. */
extern void atp_resync_after_apply(AtpApply *a);

/*
 * Find repositories whose rows say hold = resync without a running job in atproto.repo_job, and release their held events:
 * without such a job no fetch would end the wait.  One call handles a limited number.
 */
extern void atp_resync_end_abandoned(AtpApply *a);

#endif							/* ATP_RESYNC_H */
