/*
 * waiting.c
 *		Common parts of procedures that wait for the fetcher.
 */
#include "postgres.h"

#include "config/owner.h"
#include "config/spi.h"
#include "fetch/engine/waiting.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/guc.h"

void
atp_waiting_begin(FunctionCallInfo fcinfo, const char *name, const char *detail)
{
	if (atp_call_is_atomic(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_ACTIVE_SQL_TRANSACTION),
				 errmsg("procedure \"%s\" cannot run inside a transaction block or a function", name),
				 errdetail("%s", detail)));
	SPI_connect_ext(SPI_OPT_NONATOMIC);
}

int
atp_waiting_step(void)
{
	int			nest = NewGUCNestLevel();

	(void) set_config_option("search_path", ATP_SEARCH_PATH, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return nest;
}

void
atp_waiting_pause(long ms)
{
	SPI_commit();
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

int
atp_interval_ms(const Interval *interval)
{
	int64		ms = interval->time / 1000 + interval->day * INT64CONST(86400000) + interval->month * 30 * INT64CONST(86400000);

	return (int) Min(Max(ms, 0), PG_INT32_MAX);
}
