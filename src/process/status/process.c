/*
 * process.c
 *		Code shared by all background processes of the extension.
 */
#include "postgres.h"

#include <signal.h>

#include "config/extension.h"
#include "config/owner.h"
#include "config/transaction.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "process/status/process.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"

void
atp_process_describe(BackgroundWorker *worker, const char *type, const char *name,
					 const char *function)
{
	memset(worker, 0, sizeof(*worker));
	snprintf(worker->bgw_name, BGW_MAXLEN, "%s %s", type, name);
	strlcpy(worker->bgw_type, type, BGW_MAXLEN);
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker->bgw_library_name, "atproto", sizeof(worker->bgw_library_name));
	strlcpy(worker->bgw_function_name, function, BGW_MAXLEN);
}

void
atp_process_begin(void)
{
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
}

void
atp_process_connected(const char *appname)
{
	SetConfigOption("search_path", ATP_SEARCH_PATH, PGC_SUSET, PGC_S_OVERRIDE);
	/* ALTER ROLE ... SET role applies to sessions: a subscription must run as its owner */
	SetConfigOption("role", "none", PGC_SUSET, PGC_S_OVERRIDE);
	/* as in atp_planning_begin(), but for the whole life of the process */
	SetConfigOption("plan_cache_mode", "auto", PGC_SUSET, PGC_S_OVERRIDE);
	/* the planner takes a queue of millions of rows for an expensive query, and compiling costs a second for each look */
	SetConfigOption("jit", "off", PGC_SUSET, PGC_S_OVERRIDE);
	/*
	 * As in autovacuum: a process locks a table or row, and then asks what others have committed, for example whether a sweep runs.  A
	 * snapshot from before the lock would give an old answer.
	 */
	SetConfigOption("default_transaction_isolation", "read committed", PGC_SUSET, PGC_S_OVERRIDE);
	pgstat_report_appname(appname);
}

static void (*end_report) (const char *error) = NULL;
static emit_log_hook_type log_hook_before_report = NULL;

/*
 * A log hook.  An ERROR that a process catches is not logged at level ERROR; so an ERROR or FATAL in the log
 * ends the process.
 */
static void
report_end(ErrorData *edata)
{
	if (log_hook_before_report)
		log_hook_before_report(edata);
	if (edata->elevel < ERROR || edata->elevel > FATAL || edata->message == NULL || proc_exit_inprogress ||
		/* a user ended the process, or the database with the subscription is gone */
		ERRCODE_TO_CATEGORY(edata->sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION ||
		edata->sqlerrcode == ERRCODE_UNDEFINED_DATABASE)
		return;
	end_report(edata->message);
}

void
atp_process_report_end(void (*report) (const char *error))
{
	end_report = report;
	log_hook_before_report = emit_log_hook;
	emit_log_hook = report_end;
}

static bool database_is_gone = false;
static emit_log_hook_type log_hook_before_look = NULL;

static void
look_for_database(ErrorData *edata)
{
	if (log_hook_before_look)
		log_hook_before_look(edata);
	if (edata->elevel == FATAL && edata->sqlerrcode == ERRCODE_UNDEFINED_DATABASE)
		database_is_gone = true;
}

/* The exit code 0 tells the postmaster not to restart the process. */
static void
end_for_good(int code, Datum arg)
{
	if (database_is_gone && code != 0)
		proc_exit(0);
}

void
atp_process_ends_with_database(void)
{
	log_hook_before_look = emit_log_hook;
	emit_log_hook = look_for_database;
	on_proc_exit(end_for_good, (Datum) 0);
}

bool
atp_process_stop_subscription(const AtpSubscription *sub, const char *reason)
{
	bool		stopped = true;

	atp_begin("stopping the subscription");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		stopped = atp_subscription_stop(sub, reason);
	atp_commit();
	return stopped;
}
