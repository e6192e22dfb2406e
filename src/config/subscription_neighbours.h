/*
 * subscription_neighbours.h
 *		Messages about subscriptions that fill the same tables, but differ in what they store.
 */
#ifndef ATP_SUBSCRIPTION_NEIGHBOURS_H
#define ATP_SUBSCRIPTION_NEIGHBOURS_H

#include "config/spi.h"

/*
 * Warn of a subscription with other filters or another level than this row of atproto.subscription, unless an update has
 * changed neither.  old: the row before the update, or NULL.
 */
extern void atp_neighbours_warn(const AtpTuple *old, AtpTuple row);

#endif							/* ATP_SUBSCRIPTION_NEIGHBOURS_H */
