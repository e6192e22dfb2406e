/*
 * transaction.c
 *		Transactions of background processes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/claim.h"
#include "config/transaction.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/snapmgr.h"

/*
 * The caller's memory context, restored at the end.  PostgreSQL 18 does this itself; older versions leave a
 * context that is never reset, so memory allocated after the transaction would leak.
 */
static MemoryContext before;

void
atp_begin(const char *activity)
{
	atp_begin_with_table(activity, InvalidOid);
}

void
atp_begin_with_table(const char *activity, Oid relid)
{
	before = CurrentMemoryContext;
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	atp_claim_guard();
	if (OidIsValid(relid))
	{
		pgstat_report_activity(STATE_RUNNING, "waiting for a table");
		LockRelationOid(relid, RowExclusiveLock);
	}
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, activity);
}

static void
note_end(void)
{
	/* waiting for a lock may have consumed a latch event that was meant for the main loop */
	SetLatch(MyLatch);
	pgstat_report_stat(false);
}

void
atp_commit(void)
{
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(before);
	note_end();
}

void
atp_abort(void)
{
	SPI_finish();
	PopActiveSnapshot();
	AbortCurrentTransaction();
	MemoryContextSwitchTo(before);
	note_end();
}
