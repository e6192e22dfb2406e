/*
 * partition_lock.h
 *		Exclusive locks on tables that are in use, which nobody waits behind for long.
 */
#ifndef ATP_PARTITION_LOCK_H
#define ATP_PARTITION_LOCK_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

typedef struct AtpLockWish
{
	Oid			relid;
	LOCKMODE	mode;
} AtpLockWish;

typedef struct AtpLocking
{
	List	   *wishes;			/* of AtpLockWish */
	void		(*first) (void *arg);	/* what each attempt begins with; NULL: nothing */
	void	   *arg;
	bool		in_transaction; /* the transaction is the caller's, and may have locks already */
} AtpLocking;

/*
 * Lock these relations, in their order, all or none, with the partitions of those that are wanted in ACCESS EXCLUSIVE
 * mode.  If they are not to be had, what first() has written and locked is taken back with them.
 *
 * An exclusive lock that waits for a long query makes all later readers wait, too.  So each attempt
 * waits for half a second; then all locks are given back, and the next attempt comes later.  The
 * caller's lock_timeout limits all attempts together; 0: no limit.
 */
extern void atp_lock_patiently(const AtpLocking *locking);

#endif							/* ATP_PARTITION_LOCK_H */
