/*
 * lock_patience.h
 *		How long a function that reads the tables of all targets waits for a lock that a session holds.
 *
 * The owner of a target can lock a table in an open transaction.  The reader of all targets, a superuser perhaps,
 * would wait for the owner until the owner's session ends.
 */
#ifndef ATP_LOCK_PATIENCE_H
#define ATP_LOCK_PATIENCE_H

#include "postgres.h"

/*
 * Limit each wait for a lock, until the caller's subtransaction ends.  A shorter lock_timeout of the session stays.
 */
extern void atp_lock_patience(void);

/*
 * Was the reason of this error a lock?  Then the present statement waits for further locks only for a moment: a role may
 * have locked any number of tables.
 */
extern bool atp_lock_is_reason(int sqlerrcode);

#endif							/* ATP_LOCK_PATIENCE_H */
