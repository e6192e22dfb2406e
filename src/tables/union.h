/*
 * union.h
 *		Several sources of the same tables: what one of them lacks, another one may bring.
 *
 * A commit that leaves a gap in its repository is held (held.h, why = gap) while another
 * subscription of these tables runs that follows the account, and for atproto.union_wait
 * at most.  The commit that closes the gap lets it go; otherwise it is taken as it would
 * have been at once, as a break (F-08).
 */
#ifndef ATP_UNION_H
#define ATP_UNION_H

#include "tables/sink.h"

extern int	atp_union_wait_ms;

/* From _PG_init(). */
extern void atp_union_init(void);

/* Who knows whether a subscription of this database is connected, or was so within this time: handed down by status.c. */
typedef bool (*AtpIsConnected) (const char *name, int within_ms);
extern void atp_union_ask(AtpIsConnected is_connected);

/* May what began to wait for a missing commit then go on waiting? */
extern bool atp_union_goes_on(TimestampTz since);

/* May another source than the event's bring what is missing before it?  *others is kept from one call to the next, for a transaction: NIL at first. */
extern bool atp_union_has_other(const AtpApply *a, List **others, const AtpEvent *event);

#endif							/* ATP_UNION_H */
