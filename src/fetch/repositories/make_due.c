/*
 * make_due.c
 *		Makes due, in many tables, rows that wait for a time: see make_due.h.
 */
#include "postgres.h"

#include "config/spi.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "executor/spi.h"
#include "fetch/repositories/make_due.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/portal.h"

#define ROWS		1000	/* in a transaction */

/* The ctids of all waiting rows, in a cursor that outlives the transaction. */
static Portal
find_waiting(const AtpWaiting *kind, const char *activity)
{
	Portal		places;

	atp_begin(activity);
	places = SPI_cursor_open_with_args(NULL, kind->find, 0, NULL, NULL, NULL, true, CURSOR_OPT_HOLD | CURSOR_OPT_NO_SCROLL);
	atp_commit();
	return places;
}

/* Until the end of the transaction: a small table would be read whole to find 1000 of its rows by ctid. */
static void
plan_by_ctid(void)
{
	static const char *const other_ways[] = {"enable_seqscan", "enable_bitmapscan", "enable_indexscan"};

	for (int i = 0; i < lengthof(other_ways); i++)
		(void) set_config_option(other_ways[i], "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_LOCAL, true, 0, false);
}

/* Returns false after the last rows. */
static bool
make_some_due(const AtpWaiting *kind, Portal places, const char *activity)
{
	Datum		ctids[ROWS];
	uint64		n;

	atp_begin(activity);
	SPI_cursor_fetch(places, true, ROWS);
	n = SPI_processed;
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;

		ctids[i] = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1, &isnull);
	}
	if (n > 0)
	{
		plan_by_ctid();
		atp_run(atp_identity_sql(kind->make_due), ATP_ARGS(atp_array_arg(TIDOID, ctids, NULL, n)));
		atp_wake_fetcher();
	}
	else
		SPI_cursor_close(places);
	atp_commit();
	return n > 0;
}

/*
 * One transaction for some rows of one table: transactions that lock rows of several of these tables do so
 * in different orders.  Each table is read once: a query for the next rows of a table would read again the rows
 * that are due already.
 */
void
atp_make_due(const AtpWaiting *kinds, int n, const char *activity)
{
	for (int i = 0; i < n; i++)
	{
		Portal		places = find_waiting(&kinds[i], activity);

		while (make_some_due(&kinds[i], places, activity))
			CHECK_FOR_INTERRUPTS();
	}
}
