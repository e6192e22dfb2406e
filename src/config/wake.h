/*
 * wake.h
 *		Wakes background processes when a transaction commits.
 */
#ifndef ATP_WAKE_H
#define ATP_WAKE_H

#include "postgres.h"

/* At the commit of the current transaction, wake all processes of this database. */
extern void atp_wake_at_commit(void);

/*
 * At the commit of the current transaction, wake the fetcher or, if none runs, the manager, which starts one.
 * Call after writing rows which a task looks for.
 */
extern void atp_wake_fetcher(void);

/*
 * From _PG_init(): a function that returns the pid of a manager which could not connect to this database.
 * Such a manager holds no claim here, but should try again; 0: none.  And a function that counts the wake-ups, called
 * after the commit, before the latches are set.
 */
extern void atp_wake_manager_by(int (*pid) (void), void (*note) (void));

#endif							/* ATP_WAKE_H */
