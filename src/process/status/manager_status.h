/*
 * manager_status.h
 *		Shared memory about the managers: the pid and the failed starts of each manager.
 *		A manager that cannot connect to its database holds no claim, so a session finds
 *		the pid here to wake the manager.
 */
#ifndef ATP_MANAGER_STATUS_H
#define ATP_MANAGER_STATUS_H

#include "postgres.h"

#define ATP_MANAGERS_MAX	64	/* number of databases that can be served */

/* From _PG_init(): registers the shared memory. */
extern void atp_manager_status_init(void);

/*
 * Count a start of this manager, and return the number of earlier starts in a row that failed to connect.
 * atp_manager_connected() resets the count.
 */
extern int	atp_manager_starting(int manager);
extern void atp_manager_connected(int manager);

/* Has the manager failed to connect, and no session asked for it since? */
extern bool atp_manager_is_failing(int manager);

/*
 * The pid of the manager, to wake it; 0: not running now.  Also resets its failures, so that its next attempt
 * follows at once.
 */
extern int	atp_manager_pid(int manager);

/*
 * Has a process of this manager run since the server started?  The postmaster starts a manager that has ended again within
 * seconds, but never tries again if there was no worker slot when the server started.
 */
extern bool atp_manager_has_run(int manager);

/* How many managers run. */
extern int	atp_managers_running(void);

/*
 * Count a wake-up in this database, and the wake-ups so far.  Databases can share a count, so a change of the count does not
 * prove a wake-up in this database, but no wake-up is without a change.
 */
extern void atp_manager_note_wake(void);
extern uint32 atp_manager_wakes(void);

#endif							/* ATP_MANAGER_STATUS_H */
