/*
 * run_as_owner.c
 *		Runs the fetcher's work in a user's tables: with the rights of the tables' owner, and
 *		within a time limit.
 *
 * The time limit uses STATEMENT_TIMEOUT.  A user's function can catch the error that the timeout
 * raises, and go on.  The function cannot catch the end of the process, which follows GRACE_MS
 * later; then the manager starts a new fetcher.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/transaction.h"
#include "fetch/engine/run_as_owner.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/memutils.h"
#include "utils/syscache.h"
#include "utils/timeout.h"

/* From the cancellation of the owner's code until the process ends. */
#define GRACE_MS	2000

static TimeoutId grace;
static bool registered = false;
static Oid	acting_for = InvalidOid;	/* valid while the time limit runs */
static volatile sig_atomic_t given_up = false;

static void
give_up(void)
{
	given_up = true;
	kill(MyProcPid, SIGTERM);
}

static void
tell_why(int code, Datum arg)
{
	if (given_up)
		ereport(LOG,
				(errmsg("the atproto fetcher ends: a function of the role with OID %u did not stop when it was cancelled",
						acting_for)));
}

void
atp_limit_begin(Oid owner, int ms)
{
	if (!registered)
	{
		grace = RegisterTimeout(USER_TIMEOUT, give_up);
		on_proc_exit(tell_why, (Datum) 0);
		registered = true;
	}
	acting_for = owner;
	enable_timeout_after(STATEMENT_TIMEOUT, ms);
	enable_timeout_after(grace, ms + GRACE_MS);
}

void
atp_limit_end(void)
{
	if (!registered)
		return;
	disable_timeout(STATEMENT_TIMEOUT, false);
	disable_timeout(grace, false);
	/* the timeout may have fired just before it was disabled */
	QueryCancelPending = false;
}

static void
run_work(Oid owner, const char *activity, int ms, void (*work) (void *), void *arg)
{
	int			nest;
	AtpCaller	caller;

	atp_begin(activity);
	if (atp_extension_lock() != ATP_EXTENSION_READY)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("extension \"%s\" was dropped or changed", "atproto")));
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(owner)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("role with OID %u does not exist", owner)));
	nest = atp_caller_begin();
	caller = atp_owner_begin(owner);
	atp_limit_begin(owner, ms);
	work(arg);
	atp_limit_end();
	atp_owner_end(caller);
	atp_caller_end(nest);
	atp_commit();
}

AtpRunResult
atp_run_as_owner(Oid owner, const char *activity, int ms, void (*work) (void *), void *arg, char **why)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;
	AtpRunResult result;

	PG_TRY();
	{
		run_work(owner, activity, ms, work, arg);
	}
	PG_CATCH();
	{
		atp_limit_end();
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		/* waiting for a lock may have consumed a wake-up that was meant for the fetcher's loop */
		SetLatch(MyLatch);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	if (error == NULL)
		return ATP_RUN_DONE;
	result = error->sqlerrcode == ERRCODE_QUERY_CANCELED ? ATP_RUN_LATE : ATP_RUN_FAILED;
	*why = psprintf("%s (SQLSTATE %s)", error->message, unpack_sql_state(error->sqlerrcode));
	FreeErrorData(error);
	return result;
}
