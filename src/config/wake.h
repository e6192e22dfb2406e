/*
 * wake.h
 *		Waking the consumer's processes when a transaction commits.
 */
#ifndef ATP_WAKE_H
#define ATP_WAKE_H

#include "postgres.h"

/* When the current transaction commits, wake this database's processes. */
extern void atp_wake_at_commit(void);

/*
 * When it commits, there is work for the fetcher: wake it, or the manager, which
 * starts it.  For whoever writes what an errand looks for.
 */
extern void atp_wake_fetcher(void);

/*
 * From _PG_init(): who knows the pid of a manager that could not get into this
 * database, and so holds no claim in it, but should try again; 0: none.
 */
extern void atp_wake_manager_by(int (*pid) (void));

#endif							/* ATP_WAKE_H */
