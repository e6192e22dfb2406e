/*
 * owner_backoff.h
 *		Owners whose tables keep the fetcher waiting, by locks that sessions hold or by
 *		triggers: their repositories rest, so that others have their turn.
 */
#ifndef ATP_OWNER_BACKOFF_H
#define ATP_OWNER_BACKOFF_H

#include "postgres.h"

/* So many are known at a time. */
#define ATP_IMPATIENT_MAX	64

/* He has kept us waiting, and nothing came of it: he rests, each time longer. */
extern void atp_owner_kept_waiting(Oid owner);

/* In ms: until his turn; 0: now. */
extern long atp_owner_rests(Oid owner);

/* Those who rest now: how many, at most ATP_IMPATIENT_MAX. */
extern int	atp_owners_resting(Oid *owners);

#endif							/* ATP_OWNER_BACKOFF_H */
