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

/*
 * Lock the relations of a list of AtpLockWish, in its order, all or none, with the partitions of those
 * that are wanted in ACCESS EXCLUSIVE mode.
 *
 * An exclusive lock that waits for a long query makes all later readers wait, too.  So each attempt
 * waits for half a second; then all locks are given back, and the next attempt comes later.  The
 * caller's lock_timeout limits all attempts together; 0: no limit.
 */
extern void atp_lock_patiently(List *wishes);

#endif							/* ATP_PARTITION_LOCK_H */
