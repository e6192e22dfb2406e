/*
 * drop_hook.c
 *		What the consumer's processes, which no lock of theirs would tell, must
 *		know of others' DDL: DROP DATABASE ends them, ALTER and DROP EXTENSION
 *		wake them.
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
atp_ddl_init(void)
{
	/* pg_upgrade's server has no processes of ours */
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;
	prev_object_access_hook = object_access_hook;
	object_access_hook = object_accessed;
}
