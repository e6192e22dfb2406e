/*
 * fetcher.c
 *		The fetcher, one process for each database: makes all HTTP requests, so that
 *		neither a consumer nor a session waits for strangers' servers (W-57).
 *
 * This file does not know what is fetched: the tasks do (fetch/engine/task.h).  The manager starts the
 * fetcher when a task has work, and the fetcher ends when no task has had work for a while.
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/compat.h"
#include "config/claim.h"
#include "config/extension.h"
#include "config/free_disk.h"
#include "config/transaction.h"
#include "config/watch.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "fetch/engine/host.h"
#include "miscadmin.h"
#include "net/http.h"
#include "net/poll.h"
#include "net/wait.h"
#include "pgstat.h"
#include "process/status/crash_backoff.h"
#include "process/manager/fetcher.h"
#include "process/status/fetcher_status.h"
#include "process/status/process.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define IDLE_MS		60000		/* the fetcher ends after this time without work */
#define LOOK_MS		20000		/* how often the fetcher looks for work */

const AtpTask *atp_task_for_tests = NULL;

/* The tasks, in the order of their calls in each round. */
static const AtpTask *const tasks[] = {
	&atp_settings_task,
	&atp_clock_task,
	&atp_identity_task,
	&atp_audit_task,
	&atp_list_task,
	&atp_status_task,
	&atp_handle_task,
	&atp_plc_log_task,
	&atp_server_info_task,
	&atp_dictionary_task,
	&atp_repo_task,
	/* the least urgent: a proof repairs nothing by itself */
	&atp_prove_task,
};

/* The task at this place of the order; NULL after the last task. */
static const AtpTask *
task_at(int i)
{
	return i < lengthof(tasks) ? tasks[i] : i == lengthof(tasks) ? atp_task_for_tests : NULL;
}

bool
atp_fetcher_is_wanted(void)
{
	for (int i = 0; task_at(i) != NULL; i++)
		if (task_at(i)->wanted())
			return true;
	return false;
}

bool
atp_fetcher_start(const char *database, BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker;

	atp_process_describe(&worker, "atproto fetcher", database, "atp_fetcher_main");
	worker.bgw_notify_pid = MyProcPid;
	worker.bgw_main_arg = ObjectIdGetDatum(MyDatabaseId);
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

pg_noreturn static void
leave(const char *why)
{
	ereport(LOG, (errmsg("%s ends: %s", MyBgworkerEntry->bgw_name, why)));
	proc_exit(0);
}

/* Look for work.  Ends the process if the extension was dropped, or is not at the library's version. */
static bool
look_for_work(const char *activity)
{
	bool		ready,
				wanted;

	atp_begin(activity);
	ready = atp_extension_lock() == ATP_EXTENSION_READY;
	if (ready)
	{
		atp_config_watch(atp_relation("subscription"));
		atp_host_look();
		atp_free_disk_watch(NULL);
	}
	wanted = ready && atp_fetcher_is_wanted();
	atp_commit();
	if (!ready)
		leave("the extension was dropped or changed");
	return wanted;
}

static void
wait_after_crash(void)
{
	AtpTime		begin = atp_now();
	int			crashes = atp_crash_begin(ATP_FETCHER_NAME);
	int			delay = atp_crash_delay(crashes);
	long		left;

	if (crashes > 0)
		atp_fetcher_status_waits(psprintf("the server crashed while this ran: %d times in a row, waiting for %d seconds", crashes, delay / 1000));
	while ((left = atp_remaining(atp_now(), begin, delay)) > 0)
		atp_wait(NULL, 0, left);
	atp_crash_run();
	atp_fetcher_status_waits(NULL);
}

/* How many kinds of requests all tasks together start. */
static int
count_kinds(void)
{
	int			n = 0;

	for (int i = 0; task_at(i) != NULL; i++)
		n += task_at(i)->kinds;
	return n;
}

/* One round of all tasks; returns milliseconds until the next round has work. */
static long
run_round(MemoryContext cxt)
{
	AtpTime		now = atp_now();
	long		timeout = -1;

	atp_http_pump();
	(void) atp_http_news();
	for (int i = 0; task_at(i) != NULL; i++)
	{
		MemoryContextSwitchTo(cxt);
		timeout = atp_earlier(timeout, task_at(i)->step(now));
		MemoryContextReset(cxt);
		atp_http_pump();
		atp_serve_interrupts();
	}
	MemoryContextSwitchTo(cxt);
	timeout = atp_earlier(timeout, atp_host_write(now));
	MemoryContextReset(cxt);
	return atp_earlier(timeout, atp_http_timeout(atp_now()));
}

/* Show whether a limit of the whole database keeps requests from beginning; the log says so once. */
static void
tell_limit(void)
{
	static bool closed = false;
	const char *why = atp_fetch_closed(true);

	if (why != NULL && !closed)
		ereport(LOG, (errmsg("the atproto fetcher begins no requests: %s", why)));
	if (why != NULL || closed)
		atp_fetcher_status_waits(why);
	closed = why != NULL;
}

pg_noreturn static void
fetcher_loop(void)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto loop", ALLOCSET_DEFAULT_SIZES);
	AtpTime		wanted = atp_now();
	AtpTime		looked = 0;

	for (;;)
	{
		long		timeout;
		AtpSocketWait *sockets;
		int			nsockets;

		atp_serve_interrupts();
		MemoryContextSwitchTo(cxt);
		if (atp_http_running() > 0)
			wanted = atp_now();
		if (atp_config_changed() || atp_remaining(atp_now(), looked, LOOK_MS) == 0)
		{
			/* a look after the first means progress since the last crash */
			if (looked != 0)
				atp_crash_progress();
			looked = atp_now();
			if (look_for_work("looking for work"))
				wanted = looked;
			else if (atp_remaining(looked, wanted, IDLE_MS) == 0 && atp_host_is_written())
				leave("there is nothing to fetch");
		}
		timeout = run_round(cxt);
		tell_limit();
		atp_fetcher_status_tell();
		pgstat_report_activity(STATE_IDLE, atp_http_running() > 0 ? "waiting for answers" : "waiting for work");
		sockets = atp_poll_sockets(&nsockets);
		atp_wait(sockets, nsockets, atp_earlier(timeout, LOOK_MS));
		pfree(sockets);
	}
}

void
atp_fetcher_main(Datum arg)
{
	atp_process_begin();
	atp_fetcher_status_report_end(DatumGetObjectId(arg));
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg), InvalidOid, 0);
	atp_process_connected("atproto fetcher");
	if (!atp_claim(ATP_FETCHER_NAME))
		leave("another one runs");
	atp_fetcher_status_begin();
	wait_after_crash();
	(void) look_for_work("beginning");
	atp_poll_begin();
	atp_fetch_begin(count_kinds());
	for (int i = 0; task_at(i) != NULL; i++)
		if (task_at(i)->begin != NULL)
			task_at(i)->begin();
	fetcher_loop();
}
