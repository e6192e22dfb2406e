/*
 * claim.h
 *		Claims: locks by which a process ensures that no second process of its kind
 *		runs.
 *
 * Each manager, fetcher, consumer and apply worker holds a claim as long as it lives.  Any session
 * finds the holder's pid in the lock table, whether the library is preloaded or not.
 */
#ifndef ATP_CLAIM_H
#define ATP_CLAIM_H

#include "postgres.h"

/* Names of claims that are not a subscription's: shorter, or longer, than any subscription's name. */
#define ATP_MANAGER_NAME	""
#define ATP_FETCHER_NAME	"fetcher: longer than the name of any subscription, so that none is this"

/* The number under which a name is locked. */
extern uint64 atp_claim_number(const char *name);

/* Acquire a claim; false when another process holds it.  Call outside a transaction, once in a process. */
extern bool atp_claim(const char *name);
extern bool atp_claim_worker(const char *name, int shard);

/*
 * Call at the begin of each transaction of a holder.  User code that runs in the transaction (triggers) then
 * cannot release the claim.
 */
extern void atp_claim_guard(void);

/* Release the claim; false when this process has none. */
extern bool atp_claim_release(void);

/*
 * The following functions read the server's lock table, and leave a copy of it in the current memory context,
 * which should be short-lived.
 */

/* Does a process of this database hold the claim? */
extern bool atp_is_running(const char *name);

/* Does any worker of this subscription hold its claim? */
extern bool atp_has_workers(const char *name);

/* The holder's pid, or 0. */
extern int	atp_holder_pid(const char *name);

/* The pids of all holders in a database. */
extern int	atp_holders(Oid database, int **pids);

#endif							/* ATP_CLAIM_H */
