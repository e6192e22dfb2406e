/*
 * partition_lock.h
 *		Takes exclusive locks on tables in use, without making sessions wait for long.
 */
#ifndef ATP_PARTITION_LOCK_H
#define ATP_PARTITION_LOCK_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "storage/lockdefs.h"

typedef struct AtpTableLock
{
	Oid			relid;
	LOCKMODE	mode;
} AtpTableLock;

typedef struct AtpLocking
{
	List	   *locks;			/* of AtpTableLock */
	void		(*first) (void *arg);	/* called at the begin of each attempt; NULL: no call */
	void	   *arg;
	List	   *first_locks;	/* of AtpTableLock: what first() locks, so that no autovacuum worker keeps it */
	bool		in_transaction; /* runs in the caller's transaction, which may hold locks already */
} AtpLocking;

/*
 * Lock these relations, in this order, all or none; with ACCESS EXCLUSIVE mode also the partitions
 * of partitioned tables.  If an attempt fails, all writes and locks of first() are rolled back with
 * it.
 *
 * A waiting exclusive lock makes all later readers wait, too.  So each attempt waits for half a
 * second at most; then all locks are released, and the next attempt comes after a pause.  With
 * in_transaction some attempts wait longer, so that the server can detect a deadlock with locks
 * that the transaction took before.  An autovacuum worker that has one of the tables is cancelled
 * as by other sessions of PostgreSQL, unless the worker runs against wraparound: for this, sessions
 * wait half a second longer than deadlock_timeout for the worker's table.  The caller's lock_timeout
 * limits all attempts together; 0: no limit.
 */
extern void atp_lock_with_retries(const AtpLocking *locking);

#endif							/* ATP_PARTITION_LOCK_H */
