/*
 * drop_hook.c
 *		Hooks that tell the background processes of DDL: DROP DATABASE ends them, ALTER
 *		and DROP EXTENSION wake them.  The processes cannot notice such DDL by locks,
 *		because they hold none while idle.
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
#include "config/wake.h"
#include "miscadmin.h"
#include "process/status/drop_hook.h"
#include "process/status/fetcher_status.h"
#include "process/status/status.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"

/*
 * DROP DATABASE waits a few seconds for sessions to end.  Our processes end at once after SIGTERM.  If the
 * database is not dropped after all, it needs a manager again: the postmaster restarts the manager after a
 * while.
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
 * ALTER EXTENSION may change only the row in pg_extension, which causes no relcache invalidation in other
 * processes.  So invalidate atproto.subscription, whose changes all processes follow.
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

/* The database dropped by the current transaction: its entries in shared memory are removed after the commit. */
static Oid	dropped_database = InvalidOid;

static void
database_dropped(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT && OidIsValid(dropped_database))
	{
		atp_status_forget(dropped_database);
		atp_fetcher_status_forget(dropped_database);
	}
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
atp_drop_hook_init(void)
{
	/* in pg_upgrade's server none of our processes run */
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_accessed;
}
