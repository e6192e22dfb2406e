/*
 * wake.c
 *		Wakes background processes when a transaction commits.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/trigger.h"
#include "config/claim.h"
#include "config/wake.h"
#include "fmgr.h"
#include "miscadmin.h"
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
 * Pids are collected before the commit, where an error is still harmless; latches are set after the commit,
 * where nothing may fail.  A transaction callback would be too early for setting latches: it runs before the
 * invalidation messages are sent, so a process could wake, find no change and sleep again.  A process that
 * starts in between reads the changed table, or receives the invalidation message.
 */
typedef enum Wake
{
	WAKE_NOBODY,
	WAKE_FETCHER,
	WAKE_ALL					/* the fetcher, too */
} Wake;

static Wake wake_pending = WAKE_NOBODY;
static int *wake_pids;
static int	n_wake_pids;
static int	(*manager_outside) (void) = NULL;
static void (*note_wake) (void) = NULL;

void
atp_wake_manager_by(int (*pid) (void), void (*note) (void))
{
	manager_outside = pid;
	note_wake = note;
}

static void
collect_pids(XactEvent event, void *arg)
{
	MemoryContext old;

	if (wake_pending == WAKE_NOBODY || event != XACT_EVENT_PRE_COMMIT)
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	if (wake_pending == WAKE_FETCHER)
	{
		int			pid = atp_holder_pid(ATP_FETCHER_NAME);

		wake_pids = palloc(sizeof(int));
		wake_pids[0] = pid != 0 ? pid : atp_holder_pid(ATP_MANAGER_NAME);
		n_wake_pids = 1;
	}
	else
	{
		n_wake_pids = atp_holders(MyDatabaseId, &wake_pids);
		wake_pids = repalloc(wake_pids, sizeof(int) * (n_wake_pids + 1));
		wake_pids[n_wake_pids++] = manager_outside != NULL ? manager_outside() : 0;
	}
	MemoryContextSwitchTo(old);
}

/* Called at the end of a transaction after all other steps, also after an abort. */
static void
set_latches(ResourceReleasePhase phase, bool commit, bool top_level, void *arg)
{
	if (wake_pending == WAKE_NOBODY || !top_level || phase != RESOURCE_RELEASE_AFTER_LOCKS)
		return;
	if (commit && note_wake != NULL)
		note_wake();
	for (int i = 0; commit && i < n_wake_pids; i++)
	{
		PGPROC	   *proc = BackendPidGetProc(wake_pids[i]);

		if (proc != NULL)
			SetLatch(&proc->procLatch);
	}
	wake_pending = WAKE_NOBODY;
	n_wake_pids = 0;
}

static void
wake_process(Wake whom)
{
	static bool registered = false;

	if (!registered)
	{
		RegisterXactCallback(collect_pids, NULL);
		RegisterResourceReleaseCallback(set_latches, NULL);
		registered = true;
	}
	wake_pending = Max(wake_pending, whom);
}

void
atp_wake_at_commit(void)
{
	wake_process(WAKE_ALL);
}

void
atp_wake_fetcher(void)
{
	wake_process(WAKE_FETCHER);
}

/* SQL: atproto_internal.wake() */
Datum
atp_wake(PG_FUNCTION_ARGS)
{
	atp_wake_at_commit();
	PG_RETURN_VOID();
}

/* SQL: atproto_internal.subscription_changed(), AFTER anything, for each statement */
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
