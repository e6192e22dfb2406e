/*
 * multi_source.h
 *		Several subscriptions that fill one target: events wait for commits that a second source may bring.
 *
 * A commit that leaves a gap in its repository is held (held.h, why = gap) while a second subscription of the
 * target runs that follows the account, and for atproto.multi_source_wait at most.  The commit that closes the gap
 * releases the held commit.  After the time limit the held commit is applied as a break (F-08).
 *
 * An event of a source without a chain (Jetstream) is held for the same time while a subscription with a
 * chain runs: the event may lack earlier commits, and contains only one operation of its own commit.
 */
#ifndef ATP_MULTI_SOURCE_H
#define ATP_MULTI_SOURCE_H

#include "tables/base/sink.h"

extern int	atp_multi_source_wait_ms;

/* From _PG_init(): the setting. */
extern void atp_multi_source_init(void);

/* Callbacks to read the shared status of running subscriptions; status.c passes the callbacks to atp_multi_source_set_running(). */
typedef struct AtpRunning
{
	bool		(*is_connected) (const char *name, int within_ms);	/* connected now, or within this time */
	bool		(*is_shared) (const char *target);	/* do several running subscriptions fill the target's tables? */
} AtpRunning;

extern void atp_multi_source_set_running(const AtpRunning *running);

/* Do several running subscriptions fill the tables of this statement set? */
extern bool atp_multi_source_is_shared(const AtpStatements *set);

/*
 * The subscriptions of the target that are neither paused nor stopped, and whose owners may fill the target: a list of
 * AtpSubscription.
 */
extern List *atp_running_subscriptions(const char *target);

/* May an event that has waited for a missing commit since this time wait longer? */
extern bool atp_multi_source_may_wait(TimestampTz since);

/* Does another subscription fill the target's tables, or is paused or stopped? */
extern bool atp_multi_source_is_filled(const AtpApply *a);

/*
 * Does a second subscription with whole commits run that may bring the commits missing before the event, or the rest
 * of the event's commit?  *others is a cache of the target's subscriptions for one transaction; NIL at first.
 */
extern bool atp_multi_source_has_other(const AtpApply *a, List **others, const AtpEvent *event);

#endif							/* ATP_MULTI_SOURCE_H */
