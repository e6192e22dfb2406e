/*
 * wake.h
 *		How the consumer's processes know of each other: advisory locks.
 *
 * Each manager and each consumer holds a session-level advisory lock for as
 * long as it lives.  That makes it the only one of its kind, and lets any
 * session find its pid in the lock table, preloaded or not.
 */
#ifndef ATP_WAKE_H
#define ATP_WAKE_H

#include "postgres.h"

#define ATP_MANAGER_NAME	""	/* where a subscription's name is expected */

/* Become the holder; false when another process is.  Outside a transaction too. */
extern bool atp_claim(const char *name);

/* Does some process hold it in this database? */
extern bool atp_is_running(const char *name);

/* The holder's pid, or 0. */
extern int	atp_holder_pid(const char *name);

/* When the current transaction commits, wake this database's holders. */
extern void atp_wake_at_commit(void);

/*
 * From _PG_init(), while preloading: DROP DATABASE ends the database's holders,
 * ALTER and DROP EXTENSION wake them.
 */
extern void atp_wake_init(void);

#endif							/* ATP_WAKE_H */
