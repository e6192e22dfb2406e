/*
 * sweep.h
 *		Sweeps: while the archive of a stream's server is read into a target, the archive and the other writers of the target
 *		bring facts of different ages (H-43).
 *
 * A sweep runs for a target as long as atproto.history has a row of one of the target's subscriptions that is not live.
 * While another subscription fills the same tables, each writer keeps the deletions that it brings (records/sweep_deletion.h).
 */
#ifndef ATP_SWEEP_H
#define ATP_SWEEP_H

#include "postgres.h"

#include "tables/base/sink.h"

/* Clocks of hosts differ, and two streams do not bring the events of a host at the same moment. */
#define ATP_SWEEP_LATE_US	(5 * USECS_PER_MINUTE)

/*
 * Does a sweep run for the target?  The answer is kept until a row of atproto.subscription or the phase of a row of
 * atproto.history changes.  The caller has locked the table repo as a writer does: then no sweep begins before the caller's
 * transaction has ended (atp_sweep_begins()).
 */
extern AtpSweep atp_sweep_of(const char *target);

/*
 * Is the archive of this subscription still being read, or compared with the stream?  The answer is kept as long as that of
 * atp_sweep_of(), which has to be called before.
 */
extern bool atp_sweep_is_of(const char *subscription);

/* The same as atp_sweep_of(), asked at this moment. */
extern AtpSweep atp_sweep_read(const char *target);

/* Lock the table repo as a writer does, and ask: are deletions kept? */
extern bool atp_sweep_is_shared(const char *target);

/* The last answer of atp_sweep_of(), without a query, for a caller without locks; ATP_SWEEP_NONE before the first answer. */
extern AtpSweep atp_sweep_known(const char *target);

/*
 * Have all other streams of the target passed what this revision, of a row of the subscription's archive, may still meet?  A
 * deletion by the archive then needs not be kept, unless events of the account wait.  The answer may be late: false where true would
 * be right.
 */
extern bool atp_sweep_is_passed(const char *target, const char *subscription, uint64 rev);

/*
 * The time that all other writers of the target have passed: no stream brings an older event; held: and none waits in
 * atproto.held_event.  DT_NOBEGIN: unknown; DT_NOEND: there is no other writer.  *behind: the name of the last subscription, palloc'd,
 * or NULL.
 */
extern TimestampTz atp_sweep_passed_at(const char *target, const char *subscription, bool held, char **behind);

/*
 * For the reader of an archive, before it writes the first row: wait until the transactions that began before the sweep, and keep no
 * deletions, have ended.  No transaction may be open.
 */
extern void atp_sweep_begins(const AtpSubscription *sub);

/*
 * Wait until the transactions that write to the table at this moment have ended.  Later writers do not wait: a lock on the table would stop
 * all streams of a target for as long as the session of a user has its transaction open.
 */
extern void atp_sweep_await_writers(Oid relid);

#endif							/* ATP_SWEEP_H */
