/*
 * partition_lock.c
 *		Exclusive locks on tables that are in use, which nobody waits behind for long.
 *
 * An attempt is a subtransaction: its abort gives back the locks that it has.  It is shorter than
 * deadlock_timeout, so no session that waits for one of our locks becomes the victim of a deadlock.
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

#define ATTEMPT		"500ms"
#define PAUSE_MIN_MS	500
#define PAUSE_MAX_MS	10000
#define NOTICE_AFTER	3		/* attempts */

static void
lock_all(List *wishes)
{
	ListCell   *cell;

	foreach(cell, wishes)
	{
		const AtpLockWish *wish = lfirst(cell);

		LockRelationOid(wish->relid, wish->mode);
		if (wish->mode == AccessExclusiveLock && get_rel_relkind(wish->relid) == RELKIND_PARTITIONED_TABLE)
			(void) find_all_inheritors(wish->relid, wish->mode, NULL);
	}
}

/* All of them; or none, and false. */
static bool
attempt(List *wishes)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		int			nest = NewGUCNestLevel();

		(void) set_config_option("lock_timeout", ATTEMPT, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
		lock_all(wishes);
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
	if (error != NULL && error->sqlerrcode != ERRCODE_LOCK_NOT_AVAILABLE)
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
atp_lock_patiently(List *wishes)
{
	int			limit_ms = LockTimeout;
	AtpTime		begun = atp_now();
	long		pause_ms = PAUSE_MIN_MS;
	const char *name = wishes == NIL ? NULL : get_rel_name(((AtpLockWish *) llast(wishes))->relid);

	for (int attempts = 1; !attempt(wishes); attempts++)
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
