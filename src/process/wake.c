/*
 * wake.c
 *		Waking the consumer's processes when a transaction commits.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "config/claim.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "process/manager.h"
#include "process/status.h"
#include "process/wake.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(atp_wake);
PG_FUNCTION_INFO_V1(atp_subscription_changed);

/*
 * The pids are collected before the commit, where an error is still harmless, and
 * the latches set after it, where nothing may fail: not by a transaction callback,
 * which would run before the invalidation messages are sent, so that a process
 * could wake, find no change and sleep again.  A process that starts in between
 * reads the change by itself, or is told of it by the invalidation message that
 * goes with it.
 */
static bool wake_pending = false;
static int *wake_pids;
static int	n_wake_pids;

static void
collect_pids(XactEvent event, void *arg)
{
	MemoryContext old;
	int			manager;

	if (!wake_pending || event != XACT_EVENT_PRE_COMMIT)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	n_wake_pids = atp_holders(MyDatabaseId, &wake_pids);
	manager = atp_manager_number();
	if (manager >= 0)
	{
		/* one that could not get into this database, and waits to try again */
		wake_pids = repalloc(wake_pids, sizeof(int) * (n_wake_pids + 1));
		wake_pids[n_wake_pids++] = atp_manager_pid(manager);
	}
	MemoryContextSwitchTo(old);
}

/* The last that is called at a transaction's end, however it ends. */
static void
set_latches(ResourceReleasePhase phase, bool commit, bool top_level, void *arg)
{
	if (!wake_pending || !top_level || phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	for (int i = 0; commit && i < n_wake_pids; i++)
	{
		PGPROC	   *proc = BackendPidGetProc(wake_pids[i]);

		if (proc != NULL)
			SetLatch(&proc->procLatch);
	}
	wake_pending = false;
	n_wake_pids = 0;
}

void
atp_wake_at_commit(void)
{
	static bool registered = false;

	if (!registered)
	{
		RegisterXactCallback(collect_pids, NULL);
		RegisterResourceReleaseCallback(set_latches, NULL);
		registered = true;
	}
	wake_pending = true;
}

/* SQL: atproto.wake() */
Datum
atp_wake(PG_FUNCTION_ARGS)
{
	atp_wake_at_commit();
	PG_RETURN_VOID();
}

/* SQL: atproto.subscription_changed(), AFTER anything, for each statement */
Datum
atp_subscription_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired after the statement", "subscription_changed")));
	CacheInvalidateRelcache(trigger->tg_relation);
	atp_wake_at_commit();
	return PointerGetDatum(NULL);
}
