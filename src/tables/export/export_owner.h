/*
 * export_owner.h
 *		Selects the subscription whose settings and rights count for an account's export.
 */
#ifndef ATP_EXPORT_OWNER_H
#define ATP_EXPORT_OWNER_H

#include "postgres.h"

#include "config/subscription.h"

/*
 * Of the subscriptions that fill the schema's tables with records of the account: the first by name
 * of those with backfill, or else the first by name.  ERROR if no subscription does, or if the
 * current user is not a member of its owner.  SPI must be connected.
 */
extern const AtpSubscription *atp_export_owner_of(const char *target, const struct varlena *did);

#endif							/* ATP_EXPORT_OWNER_H */
