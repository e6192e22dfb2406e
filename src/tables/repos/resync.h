/*
 * resync.h
 *		Repositories that are not in step with the network, and what is done about it
 *		(R-01, R-03).
 */
#ifndef ATP_RESYNC_H
#define ATP_RESYNC_H

#include "tables/base/sink.h"

/* In the transaction of the events [a->lo, a->hi): what they mean for who fetches repositories. */
extern void atp_heal_conclude(AtpApply *a);

/*
 * Some whose rows say that they are being fetched, of which nobody knows: there is no job.  Their
 * events are let go.
 */
extern void atp_heal_abandoned(AtpApply *a);

#endif							/* ATP_RESYNC_H */
