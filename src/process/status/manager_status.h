/*
 * manager_status.h
 *		What is known of the managers, in shared memory: how often each has failed
 *		to get into its database, and its pid, so that it can be woken there.
 */
#ifndef ATP_MANAGER_STATUS_H
#define ATP_MANAGER_STATUS_H

#include "postgres.h"

#define ATP_MANAGERS_MAX	64		/* databases that can be served */

/* From _PG_init(): its place in shared memory. */
extern void atp_manager_status_init(void);

/*
 * How often the manager with this number has started in a row without getting
 * into its database; counts this start.  atp_manager_connected() begins anew.
 */
extern int	atp_manager_starting(int manager);
extern void atp_manager_connected(int manager);

/* Has it failed, and has nobody asked for it since? */
extern bool atp_manager_is_failing(int manager);

/* Somebody asks for it: the next attempt is at once.  Its pid, to be woken; 0: none now. */
extern int	atp_manager_pid(int manager);

#endif							/* ATP_MANAGER_STATUS_H */
