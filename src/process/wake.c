/*
 * wake.c
 *		Waking the consumer's processes, and ending them for DROP DATABASE.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
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
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

PG_FUNCTION_INFO_V1(atp_wake);

/*
 * Waking at commit.  The pids are collected before the commit, where an error
 * is still harmless, and the latches set after it, where nothing may fail: not
 * by a transaction callback, which would run before the invalidation messages
 * are sent, so that a process could wake, find no change and sleep again.  A
 * process that starts in between reads the change by itself, or is told of it
 * by the invalidation message that goes with it.
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

/*
 * DROP DATABASE waits a few seconds for sessions to leave.  Ours do so at once
 * when they are told; the postmaster starts a manager again after a while,
 * which it needs when the database was not dropped after all.
 */
static void
end_processes(Oid database)
{
	int		   *pids;
	int			n = atp_holders(database, &pids);

	for (int i = 0; i < n; i++)
		kill(pids[i], SIGTERM);
}

/*
 * ALTER EXTENSION may touch nothing but its row in pg_extension, of which no
 * process hears; it counts as a change of the subscriptions.
 */
static void
extension_changes(void)
{
	Oid			schema = get_namespace_oid("atproto", true);
	Oid			relid = OidIsValid(schema) ? get_relname_relid("subscription", schema) : InvalidOid;

	if (OidIsValid(relid))
		CacheInvalidateRelcacheByRelid(relid);
	atp_wake_at_commit();
}

/* What it leaves is forgotten when it is gone. */
static Oid	dropped_database = InvalidOid;

static void
database_dropped(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT && OidIsValid(dropped_database))
		atp_status_forget(dropped_database);
	if (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT)
		dropped_database = InvalidOid;
}

static void
forget_at_commit(Oid database)
{
	static bool registered = false;

	if (!registered)
		RegisterXactCallback(database_dropped, NULL);
	registered = true;
	dropped_database = database;
}

static object_access_hook_type prev_object_access_hook = NULL;

static void
object_accessed(ObjectAccessType access, Oid classid, Oid objid, int subid, void *arg)
{
	if (prev_object_access_hook)
		prev_object_access_hook(access, classid, objid, subid, arg);
	if (access == OAT_DROP && classid == DatabaseRelationId)
	{
		forget_at_commit(objid);
		end_processes(objid);
	}
	if ((access == OAT_POST_ALTER || access == OAT_DROP) && classid == ExtensionRelationId &&
		objid == get_extension_oid("atproto", true))
		extension_changes();
}

void
atp_wake_init(void)
{
	/* pg_upgrade's server has no processes of ours */
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_accessed;
}

/* SQL: atproto.wake() */
Datum
atp_wake(PG_FUNCTION_ARGS)
{
	atp_wake_at_commit();
	PG_RETURN_VOID();
}
