/*
 * multi_source.h
 *		Several sources of the same tables: what one of them lacks, another one may bring.
 *
 * A commit that leaves a gap in its repository is held (held.h, why = gap) while another
 * subscription of these tables runs that follows the account, and for atproto.union_wait
 * at most.  The commit that closes the gap lets it go; otherwise it is taken as it would
 * have been at once, as a break (F-08).
 *
 * An event of a source that has no chain (Jetstream) is held likewise while a subscription
 * runs that has one: it may lack what was before it, and bring a part of its commit alone.
 */
#ifndef ATP_MULTI_SOURCE_H
#define ATP_MULTI_SOURCE_H

#include "tables/base/sink.h"

extern int	atp_union_wait_ms;

/* From _PG_init(). */
extern void atp_union_init(void);

/* What is known of subscriptions of this database that run: handed down by status.c. */
typedef struct AtpRunning
{
	bool		(*is_connected) (const char *name, int within_ms);	/* or was so within this time */
	bool		(*is_shared) (const char *target);	/* do several fill its tables? */
} AtpRunning;

extern void atp_union_ask(const AtpRunning *running);

/* Does another subscription that runs fill these tables, too? */
extern bool atp_union_is_shared(const AtpStatements *set);

/* May what began to wait for a missing commit then go on waiting? */
extern bool atp_union_goes_on(TimestampTz since);

/* May another source than the event's, one of whole commits, bring what is missing before it, or with it?  *others is kept from one call to the next, for a transaction: NIL at first. */
extern bool atp_union_has_other(const AtpApply *a, List **others, const AtpEvent *event);

#endif							/* ATP_MULTI_SOURCE_H */
