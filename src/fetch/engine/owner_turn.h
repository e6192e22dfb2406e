/*
 * owner_turn.h
 *		The order in which the fetcher served the owners: with a single free place at a time, the
 *		owner whose job is the most urgent would otherwise get each of the places.
 *
 * The order is kept in the process: after a restart, the turns begin anew.
 */
#ifndef ATP_OWNER_TURN_H
#define ATP_OWNER_TURN_H

#include "postgres.h"

#define ATP_OWNERS_SERVED_MAX	64	/* of further owners, those served longest ago count as never
									 * served */

/* A job of this owner has begun. */
extern void atp_owner_served(Oid owner);

/* List the owners served, the last one at the end; returns their number. */
extern int	atp_owners_served(Oid *owners);

#endif							/* ATP_OWNER_TURN_H */
