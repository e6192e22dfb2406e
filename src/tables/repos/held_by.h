/*
 * held_by.h
 *		Whose held events a subscription takes, and behind which its own events wait.
 *
 * A held event belongs to the subscription that received it.  Another subscription of the same target
 * takes it only if that gives nobody more than he has: its owner may act as the receiving subscription's
 * owner, its level is not lower, and it makes the same rows.  The formats may differ, since the held event's row
 * names its own: a relay and a Jetstream that fill one target have one order.  A subscription's own events wait
 * behind what it could take itself, and behind nothing else: never behind what a higher level or another role
 * holds, nor for a subscription that does not run.
 */
#ifndef ATP_HELD_BY_H
#define ATP_HELD_BY_H

#include "tables/base/sink.h"

typedef struct AtpHeldBy
{
	Datum	   *takes;			/* names (text) of the subscriptions whose held events it takes, its own first */
	Oid		   *owners;			/* of these subscriptions */
	int			ntakes;
} AtpHeldBy;

/* Of the subscription that applies; in a transaction, with SPI. */
extern AtpHeldBy atp_held_by(const AtpApply *a);

/* May the held events of one subscription be another one's? */
extern bool atp_held_may_take(const AtpSubscription *taker, const AtpSubscription *receiver);

#endif							/* ATP_HELD_BY_H */
