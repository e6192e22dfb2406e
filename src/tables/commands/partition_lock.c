/*
 * partition_lock.c
 *		Takes exclusive locks on tables in use, without making sessions wait for long.
 *
 * An attempt is a subtransaction, whose abort releases its locks.  An attempt is shorter than
 * deadlock_timeout.  So if a lock were kept between attempts, and a session that has one of the
 * tables waited for this lock, the server would never detect the deadlock: no lock is kept.  Locks
 * that the caller's transaction took before cannot be released: for such a transaction some
 * attempts are longer than deadlock_timeout, so that the server detects the deadlock.
 *
 * PostgreSQL cancels an autovacuum worker whose table a session wants, but only after the session
 * has waited for deadlock_timeout.  Attempts are shorter, and autovacuum of a large table takes
 * hours: so for such a table there is a longer wait, during which no other lock is held.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "common/clock.h"
#include "common/compat.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tables/commands/partition_lock.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#define ATTEMPT_MS		500
#define DEADLOCK_EVERY	5		/* in a caller's transaction, each fifth attempt is long enough to
								 * detect a deadlock */
#define PAUSE_MIN_MS	500
#define PAUSE_MAX_MS	10000
#define NOTICE_AFTER	3		/* failed attempts before a NOTICE */
#define CANCEL_AFTER	2		/* failed attempts before autovacuum workers are cancelled */

typedef enum AttemptKind
{
	ATTEMPT_SHORT,
	ATTEMPT_SEES_DEADLOCKS,		/* longer than deadlock_timeout; a deadlock is an ERROR */
	ATTEMPT_CANCELS_AUTOVACUUM	/* longer than deadlock_timeout; the locks are released at once */
} AttemptKind;

static bool
locks_partitions(const AtpTableLock *lock)
{
	return lock->mode == AccessExclusiveLock && get_rel_relkind(lock->relid) == RELKIND_PARTITIONED_TABLE;
}

static void
lock_all(List *locks)
{
	ListCell   *cell;

	foreach(cell, locks)
	{
		const AtpTableLock *lock = lfirst(cell);

		LockRelationOid(lock->relid, lock->mode);
		if (locks_partitions(lock))
			(void) find_all_inheritors(lock->relid, lock->mode, NULL);
	}
}

/* If an attempt that sees deadlocks is ended by one, the caller's transaction fails. */
static AttemptKind
attempt_kind(const AtpLocking *locking, int attempts)
{
	return locking->in_transaction && attempts % DEADLOCK_EVERY == 0 ? ATTEMPT_SEES_DEADLOCKS : ATTEMPT_SHORT;
}

/*
 * Call first(arg), and take all locks; false: no lock could be taken in time, and everything is
 * rolled back.
 */
static bool
attempt_locks(const AtpLocking *locking, AttemptKind kind)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char	   *limit = psprintf("%dms", kind == ATTEMPT_SHORT ? ATTEMPT_MS : DeadlockTimeout + ATTEMPT_MS);
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		int			nest = NewGUCNestLevel();

		(void) set_config_option("lock_timeout", limit, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
		if (locking->first != NULL)
			locking->first(locking->arg);
		lock_all(locking->locks);
		AtEOXact_GUC(false, nest);
		if (kind == ATTEMPT_CANCELS_AUTOVACUUM)
			RollbackAndReleaseCurrentSubTransaction();
		else
			ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	/* if all locks of a deadlock are of the attempt, the deadlock ends with the abort, and a new attempt follows */
	if (error != NULL && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
		(kind == ATTEMPT_SEES_DEADLOCKS || error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED))
		ReThrowError(error);
	return error == NULL;
}

/* Does an autovacuum worker that PostgreSQL would cancel keep us from this lock?  Workers against wraparound stay. */
static bool
autovacuum_holds(Oid relid, LOCKMODE mode)
{
	LOCKTAG		tag;

	SET_LOCKTAG_RELATION(tag, MyDatabaseId, relid);
	for (VirtualTransactionId *holder = GetLockConflicts(&tag, mode, NULL); VirtualTransactionIdIsValid(*holder); holder++)
	{
		PGPROC	   *proc = ATP_TRANSACTION_PROC(*holder);
		uint8		flags = proc == NULL ? 0 : proc->statusFlags;

		if ((flags & PROC_IS_AUTOVACUUM) && !(flags & PROC_VACUUM_FOR_WRAPAROUND))
			return true;
	}
	return false;
}

/*
 * Wait for each table that an autovacuum worker has, without any other lock, until PostgreSQL has cancelled the worker.
 * The wait is in vain if the worker ends before, or if a session has the table, too: the next attempt shows this.
 */
static void
cancel_autovacuum(const AtpLocking *locking)
{
	List	   *locks = list_concat_copy(locking->first_locks, locking->locks);
	ListCell   *cell;

	foreach(cell, locks)
	{
		const AtpTableLock *lock = lfirst(cell);
		List	   *relids = locks_partitions(lock) ? find_all_inheritors(lock->relid, NoLock, NULL) : list_make1_oid(lock->relid);
		ListCell   *relid;

		foreach(relid, relids)
		{
			AtpTableLock alone = {lfirst_oid(relid), lock->mode};
			AtpLocking	waiting = {.locks = list_make1(&alone)};

			if (autovacuum_holds(alone.relid, alone.mode))
				(void) attempt_locks(&waiting, ATTEMPT_CANCELS_AUTOVACUUM);
		}
	}
}

static void
pause_for(long ms)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

void
atp_lock_with_retries(const AtpLocking *locking)
{
	int			limit_ms = LockTimeout;
	AtpTime		begun = atp_now();
	long		pause_ms = PAUSE_MIN_MS;
	const char *name = locking->locks == NIL ? NULL : get_rel_name(((AtpTableLock *) llast(locking->locks))->relid);

	for (int attempts = 1; !attempt_locks(locking, attempt_kind(locking, attempts)); attempts++)
	{
		if (limit_ms > 0 && atp_remaining(atp_now(), begun, limit_ms) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
					 errmsg("table \"%s\" could not be locked in %d attempts", name, attempts),
					 errdetail("Other sessions use it. The limit of all attempts is \"lock_timeout\".")));
		if (attempts == NOTICE_AFTER)
			ereport(NOTICE,
					(errmsg("other sessions use table \"%s\": it is tried again until they leave it", name),
					 errhint("\"pg_locks\" has these sessions.")));
		/* a session could wait for a lock of the caller's transaction: attempts that see deadlocks also cancel autovacuum */
		if (attempts >= CANCEL_AFTER && !locking->in_transaction)
			cancel_autovacuum(locking);
		pause_for(pause_ms);
		pause_ms = Min(pause_ms * 2, PAUSE_MAX_MS);
	}
}
