/*
 * transaction.c
 *		A transaction of a background process.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/claim.h"
#include "config/transaction.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/snapmgr.h"

void
atp_begin(const char *activity)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	atp_claim_guard();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, activity);
}

static void
ended(void)
{
	/* waiting for a lock may have used up a wake-up that was meant for the loop */
	SetLatch(MyLatch);
	pgstat_report_stat(false);
}

void
atp_commit(void)
{
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
	ended();
}

void
atp_abort(void)
{
	SPI_finish();
	PopActiveSnapshot();
	AbortCurrentTransaction();
	ended();
}
