/*
 * manager.c
 *		The manager, one process for each database: starts the database's consumers and
 *		its fetcher.
 *
 * The manager reads atproto.subscription at its start and after each change of the table, and starts a
 * consumer for each subscription that should run.  A consumer that ended although it should run is
 * started again, with back-off.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/clock.h"
#include "commands/dbcommands.h"
#include "common/injection.h"
#include "common/pg_prng.h"
#include "config/claim.h"
#include "config/extension.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "config/watch.h"
#include "miscadmin.h"
#include "net/wait.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "process/consumer/consumer.h"
#include "process/manager/fetcher.h"
#include "process/status/fetcher_status.h"
#include "process/manager/manager.h"
#include "process/status/manager_status.h"
#include "process/status/process.h"
#include "process/status/status.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/varlena.h"

static char *databases_setting; /* atproto.databases: names with commas between; NULL: not preloaded */

#define RESTART_DELAY_MS		1000
#define RESTART_MAX_DELAY_MS	60000
#define STEADY_MS				60000	/* a consumer that ran this long counts as not failed */
#define LOOK_AGAIN_MS			5000
#define LOOK_SOON_MS			1000
#define LOOK_ANYWAY_MS			60000	/* in case a wake-up was missed */
#define MANAGER_RESTART_S		5	/* and this much more for each failed start ... */
#define MANAGER_MAX_DELAY_MS	300000	/* ... up to this */

/* The consumer of a subscription, as the manager sees the consumer. */
typedef struct Child
{
	char		name[ATP_NAME_MAX + 1]; /* the key */
	TransactionId version;		/* of the subscription's row at the last start */
	bool		wanted;			/* still in the table, and runnable */
	BackgroundWorkerHandle *handle; /* NULL: not running */
	AtpTime		started_at;
	AtpTime		start_at;		/* no start before this time */
	int			failures;
} Child;

static HTAB *children;			/* hash table of Child; a hash, because a role with the right to subscribe can create many */
static Child fetcher;			/* the Child for the fetcher, without a subscription */
static AtpExtension extension = ATP_EXTENSION_ABSENT;

static Child *
child_of(const AtpSubscription *sub)
{
	bool		found;
	Child	   *child = hash_search(children, sub->name, HASH_ENTER, &found);

	CHECK_FOR_INTERRUPTS();
	if (!found)
		memset((char *) child + sizeof(child->name), 0, sizeof(Child) - sizeof(child->name));
	return child;
}

/* Read the table of subscriptions; the list is in the current context. */
static List *
read_subscriptions(void)
{
	static bool warned = false;
	MemoryContext cxt = CurrentMemoryContext;
	List	   *subs = NIL;

	atp_begin("reading the subscriptions");
	extension = atp_extension_lock();
	if (extension == ATP_EXTENSION_READY)
		subs = atp_subscription_list(cxt);
	else
		atp_config_watch(InvalidOid);
	atp_commit();
	pgstat_report_activity(STATE_IDLE, "watching the subscriptions");

	if (extension == ATP_EXTENSION_OTHER_VERSION && !warned)
		ereport(LOG,
				(errmsg("extension \"atproto\" of database \"%s\" is not at version %s, which is this library's",
						MyBgworkerEntry->bgw_extra, ATP_EXTVERSION),
				 errdetail("Its subscriptions are not consumed."),
				 errhint("Run ALTER EXTENSION atproto UPDATE. If the update was made, restart the server.")));
	if (extension == ATP_EXTENSION_OTHER_SCRIPT && !warned)
		ereport(LOG,
				(errmsg("extension \"atproto\" of database \"%s\" was made by the install script of a different checkout than this library",
						MyBgworkerEntry->bgw_extra),
				 errdetail("Its subscriptions are not consumed."),
				 errhint("Install that checkout and restart the server. Or DROP EXTENSION atproto CASCADE, which drops the data, and CREATE EXTENSION atproto.")));
	warned = extension == ATP_EXTENSION_OTHER_VERSION || extension == ATP_EXTENSION_OTHER_SCRIPT;
	if (extension == ATP_EXTENSION_READY)
		atp_status_keep(subs);
	return subs;
}

/* Note that a child has ended, and when it may be started again. */
static void
reap_child(Child *child, AtpTime now)
{
	pid_t		pid;
	int			delay = RESTART_DELAY_MS;

	if (child->handle == NULL || GetBackgroundWorkerPid(child->handle, &pid) != BGWH_STOPPED)
		return;
	pfree(child->handle);
	child->handle = NULL;
	if (atp_remaining(now, child->started_at, STEADY_MS) == 0)
		child->failures = 0;
	for (int i = 0; i < child->failures && delay < RESTART_MAX_DELAY_MS; i++)
		delay *= 2;
	delay = Min(delay, RESTART_MAX_DELAY_MS);
	child->failures++;
	child->start_at = now +
		(int64) (delay * 1000.0 * (0.5 + pg_prng_double(&pg_global_prng_state) / 2));
}

static void
reap_all(AtpTime now)
{
	HASH_SEQ_STATUS seq;
	Child	   *child;

	hash_seq_init(&seq, children);
	while ((child = hash_seq_search(&seq)) != NULL)
		reap_child(child, now);
	reap_child(&fetcher, now);
}

/* What the views of states say when starting a child failed. */
#define NO_SLOT	"no background worker slot is free: increase max_worker_processes"

/* Starting a child failed, because no worker slot is free. */
static void
no_slot(Child *child, AtpTime now, const char *what)
{
	child->handle = NULL;
	child->start_at = now + RESTART_MAX_DELAY_MS * INT64CONST(1000);
	ereport(LOG,
			(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
			 errmsg("no background worker slot is free for %s", what),
			 errhint("Increase \"%s\".", "max_worker_processes")));
}

static void
start_child(Child *child, const AtpSubscription *sub, AtpTime now)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	bool		started;

	child->version = sub->version;
	child->started_at = now;
	started = atp_consumer_start(sub, true, InvalidTransactionId, &child->handle);
	MemoryContextSwitchTo(old);
	if (started)
		return;
	no_slot(child, now, psprintf("atproto subscription \"%s\"", child->name));
	atp_status_not_started(sub, NO_SLOT);
}

/*
 * When to ask again whether the fetcher has work: soon after a wake-up, then at growing intervals.  Asking
 * needs a transaction, and the end of a transaction sets our own latch (config/transaction.c).  So the round
 * right after asking is ignored, unless a session has counted a wake-up since before the question.
 */
static AtpTime look_at;
static long look_pause_ms;
static bool looked;				/* in the last round */
static uint32 wakes_before;		/* the count of wake-ups before the last question */

static bool
fetcher_look_is_due(AtpTime now)
{
	bool		echo = looked && atp_manager_wakes() == wakes_before;

	looked = false;
	if (now < look_at)
	{
		if (echo)
			return false;
		look_pause_ms = LOOK_SOON_MS;
	}
	else
		look_pause_ms = Min(Max(look_pause_ms, LOOK_SOON_MS) * 2, LOOK_ANYWAY_MS);
	look_at = now + look_pause_ms * INT64CONST(1000);
	return looked = true;
}

/* Is there work for the fetcher, and no fetcher running? */
static bool
fetcher_is_wanted(void)
{
	bool		wanted;

	/* a request committed before this line is seen below; each later request changes the count */
	wakes_before = atp_manager_wakes();
	atp_begin("looking for work of the fetcher");
	wanted = atp_extension_lock() == ATP_EXTENSION_READY && atp_fetcher_is_wanted() &&
		/* a former manager may have started a fetcher that still runs */
		!atp_is_running(ATP_FETCHER_NAME);
	ATP_INJECTION_POINT("work looked for");
	atp_commit();
	pgstat_report_activity(STATE_IDLE, "watching the subscriptions");
	return wanted;
}

/* Start the fetcher if needed; returns milliseconds until the next look. */
static long
start_fetcher(void)
{
	static bool wanted = false;
	AtpTime		now = atp_now();
	bool		due;

	if (extension != ATP_EXTENSION_READY || fetcher.handle != NULL)
		return LOOK_ANYWAY_MS;
	due = fetcher_look_is_due(now);
	if (due)
		wanted = fetcher_is_wanted();
	/* set also without asking: a fetcher that just ended has cleared the flag */
	atp_fetcher_status_wanted(wanted);
	if (due && wanted && now >= fetcher.start_at)
	{
		MemoryContextSwitchTo(TopMemoryContext);
		fetcher.started_at = now;
		if (!atp_fetcher_start(MyBgworkerEntry->bgw_extra, &fetcher.handle))
		{
			no_slot(&fetcher, now, "the atproto fetcher");
			atp_fetcher_status_not_started(NO_SLOT);
		}
	}
	return atp_remaining(now, wanted && now < fetcher.start_at ? Min(fetcher.start_at, look_at) : look_at, 0);
}

/* Start the consumers that should run; returns milliseconds until the next action. */
static long
start_children(List *subs)
{
	AtpTime		now = atp_now();
	long		timeout = LOOK_ANYWAY_MS;
	ListCell   *lc;

	foreach(lc, subs)
	{
		const AtpSubscription *sub = lfirst(lc);
		Child	   *child = child_of(sub);

		if (!sub->runnable || child->handle != NULL)
			continue;
		if (!OidIsValid(sub->owner))
		{
			if (child->version != sub->version)
			{
				ereport(LOG, (errmsg("the owner of atproto subscription \"%s\" does not exist", sub->name)));
				atp_status_not_started(sub, "the owner of the subscription does not exist");
			}
			child->version = sub->version;
			continue;
		}
		/* after a change of its row, a subscription starts at once */
		if (child->version != sub->version)
			child->start_at = child->failures = 0;
		if (now >= child->start_at)
		{
			if (atp_is_running(sub->name))
			{
				/*
				 * A consumer started by a former manager still runs.  The postmaster will not notify this
				 * manager of its end, so look again later.
				 */
				child->version = sub->version;
				child->start_at = now + LOOK_AGAIN_MS * INT64CONST(1000);
			}
			else
				start_child(child, sub, now);
		}
		if (child->handle == NULL)
			timeout = Min(timeout, atp_remaining(now, child->start_at, 0));
	}
	return timeout;
}

/* Forget children that neither run nor are in the table, and their status. */
static void
forget_children(List *subs)
{
	bool		forgotten = false;
	ListCell   *lc;
	HASH_SEQ_STATUS seq;
	Child	   *child;

	hash_seq_init(&seq, children);
	while ((child = hash_seq_search(&seq)) != NULL)
		child->wanted = false;
	foreach(lc, subs)
		child_of(lfirst(lc))->wanted = true;
	hash_seq_init(&seq, children);
	while ((child = hash_seq_search(&seq)) != NULL)
	{
		if (!child->wanted && child->handle == NULL)
		{
			(void) hash_search(children, child->name, HASH_REMOVE, NULL);
			forgotten = true;
		}
	}
	if (forgotten)
		atp_status_keep(subs);
}

/*
 * If the database does not exist (yet), connecting ends this process, and the postmaster restarts it.  Wait
 * here for a growing time, so that this does not repeat every few seconds for ever.
 */
static void
wait_before_connecting(int manager)
{
	int			failed = atp_manager_starting(manager);
	int			delay = Min(failed * MANAGER_RESTART_S * 1000L, MANAGER_MAX_DELAY_MS);
	AtpTime		begin = atp_now();
	long		left;

	/* a session may have asked for this manager meanwhile: see atp_manager_pid() */
	while ((left = atp_remaining(atp_now(), begin, delay)) > 0 && atp_manager_is_failing(manager))
		atp_wait(NULL, 0, left);
}

/* Split atproto.databases into names; false: invalid list. */
static bool
split_databases(List **names)
{
	return SplitIdentifierString(pstrdup(databases_setting ? databases_setting : ""), ',', names);
}

bool
atp_manager_is_preloaded(void)
{
	return databases_setting != NULL;
}

int
atp_manager_number(void)
{
	const char *database = get_database_name(MyDatabaseId);
	List	   *names;
	ListCell   *lc;

	if (split_databases(&names))
		foreach(lc, names)
			if (strcmp(lfirst(lc), database) == 0 && foreach_current_index(lc) < ATP_MANAGERS_MAX)
				return foreach_current_index(lc);
	return -1;
}

/* For atp_wake_at_commit(). */
static int
my_manager_pid(void)
{
	int			manager = atp_manager_number();

	return manager >= 0 ? atp_manager_pid(manager) : 0;
}

void
atp_manager_main(Datum arg)
{
	const char *database = MyBgworkerEntry->bgw_extra;
	MemoryContext subs_cxt,
				loop_cxt;
	List	   *subs = NIL;
	long		timeout,
				fetcher_timeout;

	atp_process_begin();
	wait_before_connecting(DatumGetInt32(arg));
	BackgroundWorkerInitializeConnection(database, NULL, 0);
	atp_manager_connected(DatumGetInt32(arg));
	atp_process_connected("atproto manager");
	subs_cxt = AllocSetContextCreate(TopMemoryContext, "atproto subscriptions", ALLOCSET_SMALL_SIZES);
	loop_cxt = AllocSetContextCreate(TopMemoryContext, "atproto loop", ALLOCSET_SMALL_SIZES);
	children = hash_create("atproto consumers", 64, &(HASHCTL) {.keysize = ATP_NAME_MAX + 1, .entrysize = sizeof(Child)},
						   HASH_ELEM | HASH_STRINGS);
	if (!atp_claim(ATP_MANAGER_NAME))
		ereport(FATAL, (errmsg("another atproto manager serves database \"%s\"", database)));
	for (;;)
	{
		atp_serve_interrupts();
		if (atp_config_changed())
		{
			MemoryContextReset(subs_cxt);
			MemoryContextSwitchTo(subs_cxt);
			subs = read_subscriptions();
		}
		MemoryContextSwitchTo(loop_cxt);
		MemoryContextReset(loop_cxt);
		reap_all(atp_now());
		forget_children(subs);
		timeout = start_children(subs);
		fetcher_timeout = start_fetcher();
		atp_wait(NULL, 0, Min(timeout, fetcher_timeout));
	}
}

void
atp_manager_init(void)
{
	List	   *names;
	ListCell   *lc;

	if (!process_shared_preload_libraries_in_progress)
		return;
	DefineCustomStringVariable("atproto.databases",
							   "Databases whose subscriptions are consumed.",
							   "A comma-separated list of names.", &databases_setting, "postgres",
							   PGC_POSTMASTER, GUC_LIST_INPUT, NULL, NULL, NULL);
	/* pg_upgrade's server must run no consumers */
	if (IsBinaryUpgrade)
		return;
	atp_wake_manager_by(my_manager_pid, atp_manager_note_wake);
	if (!split_databases(&names))
	{
		ereport(WARNING,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid list of database names in \"%s\": \"%s\"",
						"atproto.databases", databases_setting)));
		return;
	}
	if (list_length(names) > ATP_MANAGERS_MAX)
		ereport(WARNING,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("only the first %d databases in \"%s\" are served",
						ATP_MANAGERS_MAX, "atproto.databases")));
	foreach(lc, names)
	{
		BackgroundWorker worker;
		const char *database = lfirst(lc);

		if (foreach_current_index(lc) == ATP_MANAGERS_MAX)
			break;
		atp_process_describe(&worker, "atproto manager", database, "atp_manager_main");
		worker.bgw_restart_time = MANAGER_RESTART_S;
		strlcpy(worker.bgw_extra, database, BGW_EXTRALEN);
		worker.bgw_main_arg = Int32GetDatum(foreach_current_index(lc));
		RegisterBackgroundWorker(&worker);
	}
}
