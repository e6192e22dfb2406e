/*
 * export_owner.h
 *		Which subscription's settings and rights count for an account's export.
 */
#ifndef ATP_EXPORT_OWNER_H
#define ATP_EXPORT_OWNER_H

#include "postgres.h"

#include "config/subscription.h"

/*
 * The first by name of those that fill the tables of a schema with the account's
 * records, one that fetches repositories if there is any; an ERROR when there is none, or when the current user is no member of
 * its owner.  SPI is connected.
 */
extern const AtpSubscription *atp_filler_of(const char *target, const struct varlena *did);

#endif							/* ATP_EXPORT_OWNER_H */
