/*
 * claim.h
 *		Locks by which a process is the only one of its kind.
 *
 * Each manager, fetcher, consumer and apply worker holds one for as long as it lives.
 * Any session finds its pid in the lock table, preloaded or not.
 */
#ifndef ATP_CLAIM_H
#define ATP_CLAIM_H

#include "postgres.h"

/* Where a subscription's name is expected: shorter, or longer, than any. */
#define ATP_MANAGER_NAME	""
#define ATP_FETCHER_NAME	"fetcher: longer than the name of any subscription, so that none is this"

/* What a subscription's name, or a longer one, is locked as. */
extern uint64 atp_claim_number(const char *name);

/* Become the holder; false when another process is.  Outside a transaction, once in a process. */
extern bool atp_claim(const char *name);
extern bool atp_claim_worker(const char *name, int shard);

/*
 * At the begin of each transaction of a holder: user code that runs in it cannot
 * give the claim up, whatever locks it releases.
 */
extern void atp_claim_guard(void);

/* Hold it no longer; false when this process does not. */
extern bool atp_claim_release(void);

/*
 * What follows looks through the server's lock table, and leaves a copy of it in
 * the current context: one that lives short.
 */

/* Does some process hold it in this database? */
extern bool atp_is_running(const char *name);

/* A worker of this subscription, whichever its shard? */
extern bool atp_has_workers(const char *name);

/* The holder's pid, or 0. */
extern int	atp_holder_pid(const char *name);

/* The pids of all holders in a database. */
extern int	atp_holders(Oid database, int **pids);

#endif							/* ATP_CLAIM_H */
