/*
 * partition_lock.c
 *		Takes exclusive locks on tables in use, without making sessions wait for long.
 *
 * An attempt is a subtransaction, whose abort releases its locks.  An attempt is shorter than
 * deadlock_timeout.  So if a lock were kept between attempts, and a session that has one of the
 * tables waited for this lock, the server would never detect the deadlock: no lock is kept.  Locks
 * that the caller's transaction took before cannot be released: for such a transaction some
 * attempts are longer than deadlock_timeout, so that the server detects the deadlock.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_inherits.h"
#include "common/clock.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
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

static void
lock_all(List *locks)
{
	ListCell   *cell;

	foreach(cell, locks)
	{
		const AtpTableLock *lock = lfirst(cell);

		LockRelationOid(lock->relid, lock->mode);
		if (lock->mode == AccessExclusiveLock && get_rel_relkind(lock->relid) == RELKIND_PARTITIONED_TABLE)
			(void) find_all_inheritors(lock->relid, lock->mode, NULL);
	}
}

/*
 * Is this an attempt longer than deadlock_timeout?  If a deadlock is detected, the caller's
 * transaction fails.
 */
static bool
is_long(const AtpLocking *locking, int attempts)
{
	return locking->in_transaction && attempts % DEADLOCK_EVERY == 0;
}

/*
 * Call first(arg), and take all locks; false: no lock could be taken in time, and everything is
 * rolled back.
 */
static bool
attempt_locks(const AtpLocking *locking, bool sees_deadlocks)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char	   *limit = psprintf("%dms", sees_deadlocks ? DeadlockTimeout + ATTEMPT_MS : ATTEMPT_MS);
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
	/* in a short attempt a deadlock ends with the abort of the attempt, so a new attempt follows */
	if (error != NULL && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE &&
		(sees_deadlocks || error->sqlerrcode != ERRCODE_T_R_DEADLOCK_DETECTED))
		ReThrowError(error);
	return error == NULL;
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

	for (int attempts = 1; !attempt_locks(locking, is_long(locking, attempts)); attempts++)
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
		pause_for(pause_ms);
		pause_ms = Min(pause_ms * 2, PAUSE_MAX_MS);
	}
}
