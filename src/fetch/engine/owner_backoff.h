/*
 * owner_backoff.h
 *		Backoff for owners whose tables keep the fetcher waiting, by locks of sessions or by slow
 *		triggers: repositories of such an owner wait, so that the fetcher works for the owners
 *		whose tables do not block.
 */
#ifndef ATP_OWNER_BACKOFF_H
#define ATP_OWNER_BACKOFF_H

#include "postgres.h"

/* Owners remembered at a time. */
#define ATP_OWNER_BACKOFF_MAX	64

/* The fetcher waited for this owner's tables in vain: begin a backoff, longer each time. */
extern void atp_owner_backoff_begin(Oid owner);

/* Milliseconds until this owner's backoff ends; 0: no backoff. */
extern long atp_owner_backoff_ms(Oid owner);

/* List the owners in backoff; returns the number of owners, at most ATP_OWNER_BACKOFF_MAX. */
extern int	atp_owners_in_backoff(Oid *owners);

#endif							/* ATP_OWNER_BACKOFF_H */
