/*
 * held_by.h
 *		Which subscriptions' held events a subscription may take, and behind which its own events wait.
 *
 * A held event belongs to the subscription that received the event.  A second subscription of the same target
 * may take the event only if no role gains rights by this: the second subscription's owner may act as the
 * receiving subscription's owner, the second subscription's level is not lower, and both make the same rows.
 * The formats may differ, because the row of the held event names its format: so a relay and a Jetstream that
 * fill one target have one order of events.
 *
 * A subscription's own events wait behind the held events that the subscription may take.  Behind held events of
 * other subscriptions they do not wait: a subscription with a higher level, a foreign owner, or a stopped consumer
 * could otherwise block them.  There is one exception, limited in time (release_find.c): the other subscription runs and
 * may take this subscription's events, and the first of its held events waits for a missing commit.  Then its consumer
 * applies the events of both in the order of their revisions; this subscription's consumer would apply newer events
 * first, its own or those of a third subscription that both may take, and the other's events would be old.
 */
#ifndef ATP_HELD_BY_H
#define ATP_HELD_BY_H

#include "tables/base/sink.h"

typedef struct AtpHeldBy
{
	Datum	   *takes;			/* names (text) of the subscriptions whose held events are taken; the taking subscription comes first */
	Oid		   *owners;			/* the owners of the subscriptions in takes */
	int			ntakes;
	Datum	   *takers;			/* names (text) of running subscriptions that may take this subscription's events, but not the reverse */
	int			ntakers;
} AtpHeldBy;

/* The list for the subscription a->sub.  The caller is in a transaction, with SPI connected. */
extern AtpHeldBy atp_held_by(const AtpApply *a);

/* May the taker take the held events of the receiver? */
extern bool atp_held_may_take(const AtpSubscription *taker, const AtpSubscription *receiver);

#endif							/* ATP_HELD_BY_H */
