/*
 * served.c
 *		Why no process can serve this database: see served.h.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "common/compat.h"
#include "config/claim.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "process/manager/manager.h"
#include "process/manager/served.h"
#include "process/status/manager_status.h"
#include "utils/backend_status.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_why_not_served_sql);

const char *
atp_why_not_served(void)
{
	int			manager = atp_manager_number();
	AtpExtension extension = atp_extension_look();

	if (RecoveryInProgress())
		return "the server is a standby, or recovers: no process of the extension runs before the promotion";
	if (!atp_manager_is_preloaded())
		return "the library is not preloaded: add \"atproto\" to \"shared_preload_libraries\" and the database to \"atproto.databases\", and restart the server";
	if (manager < 0)
		return "no manager serves this database: add the database to \"atproto.databases\", and restart the server";
	if (extension == ATP_EXTENSION_OTHER_VERSION || extension == ATP_EXTENSION_OTHER_SCRIPT)
		return atp_extension_fault(extension);
	if (!atp_manager_has_run(manager))
		return "the manager of this database did not start with the server: see the server's log; perhaps \"max_worker_processes\" is too small";
	return NULL;
}

/* SQL: atproto.why_not_served() */
Datum
atp_why_not_served_sql(PG_FUNCTION_ARGS)
{
	const char *why = atp_why_not_served();

	if (why == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(why));
}

/* Background workers that run now, without parallel workers: a query waits for no slot. */
static int
count_workers(void)
{
	int			n = 0;

	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		PgBackendStatus *entry = &atp_backend_entry(i)->backendStatus;
		const char *type = entry->st_backendType == B_BG_WORKER ? GetBackgroundWorkerTypeByPid(entry->st_procpid) : NULL;

		n += type != NULL && strcmp(type, "parallel worker") != 0;
	}
	return n;
}

int
atp_worker_slots_lacking(void)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT COALESCE(sum(CASE WHEN workers > 1 THEN workers + 1 ELSE 1 END), 0)::int4 AS consumers,"
								  " COALESCE(bool_or(backfill <> 'none' OR verify = 'full' OR handles <> 'none'), false) AS fetches"
								  " FROM atproto.subscription WHERE enabled AND stopped IS NULL", ATP_NO_ARGS);
	AtpTuple	row = atp_result_row(found, 0);
	bool		fetches = atp_get_bool(row, "fetches") || atp_is_running(ATP_FETCHER_NAME);
	int			needed = 1 + atp_get_int4(row, "consumers") + fetches;
	int		   *pids;
	int			starting = Max(needed - atp_holders(MyDatabaseId, &pids), 0);

	atp_owner_end(caller);
	atp_result_free(found);
	return Max(starting - (max_worker_processes - count_workers()), 0);
}
