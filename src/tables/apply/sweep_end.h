/*
 * sweep_end.h
 *		How a sweep ends, and how many deletions are kept until then (H-43).
 *
 * Each function runs transactions of its own.
 */
#ifndef ATP_SWEEP_END_H
#define ATP_SWEEP_END_H

#include "config/subscription.h"
#include "tables/base/sink.h"

/* From _PG_init(): the settings. */
extern void atp_sweep_init(void);

/*
 * The subscription's archive is read, and its seam is compared: may the phase become live?  Other streams of the target may still bring
 * what the archive has deleted, until they have passed the time of the first call.  Call again every second until true.  Events in
 * atproto.held_event are waited for no longer than an hour: otherwise one account whose server does not answer would keep the
 * deletions of all accounts.  The repositories of such events are marked.
 * *waits_for: the subscription that is behind, palloc'd; NULL: none.
 */
extern bool atp_sweep_may_end(const AtpSubscription *sub, AtpStatements *set, char **waits_for);

/* If no sweep runs for the target, empty the kept deletions; after the phase has become live, and when a consumer begins. */
extern void atp_sweep_tidy(const AtpSubscription *sub, AtpStatements *set);

/* Now and then, while a sweep runs: are there too many kept deletions, or too old ones? */
extern void atp_sweep_bound(const AtpSubscription *sub, AtpStatements *set);

#endif							/* ATP_SWEEP_END_H */
