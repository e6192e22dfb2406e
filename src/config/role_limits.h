/*
 * role_limits.h
 *		What the subscriptions of a role may take together: processes, and bytes of events that wait and of
 *		dead letters.  The role sets the limits of each subscription itself; these limits are the server's.
 */
#ifndef ATP_ROLE_LIMITS_H
#define ATP_ROLE_LIMITS_H

#include "postgres.h"

#include "config/spi.h"

/* 0: no limit */
extern int	atp_max_role_processes;
extern int	atp_max_role_mb;

/* Defines the settings; called by _PG_init(). */
extern void atp_role_limits_init(void);

/*
 * An ERROR if the row of atproto.subscription would take its owner beyond a limit; no limit holds for superusers, who also restore
 * dumps.  old: the row before an update, or NULL.  reader: a role that sees all rows of the table.
 */
extern void atp_role_limits_check(const AtpTuple *old, AtpTuple row, Oid reader);

#endif							/* ATP_ROLE_LIMITS_H */
