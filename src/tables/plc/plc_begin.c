/*
 * plc_begin.c
 *		SQL: the trigger that has the log of a did:plc directory read again when the tables may lack operations.
 *
 * With "dids" NULL, the tables have each operation up to the cursor, so that a log without a gap answers for all accounts
 * (identity_log.h).  If "dids" becomes NULL, or the target changes, operations up to the cursor are missing: the log is read again from
 * its beginning, and stored operations are passed over by their CIDs (M-10).  With "dids", a new target lacks the stored operations:
 * the logs of the accounts are asked for again (M-14).
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/row_trigger.h"
#include "config/spi.h"
#include "config/target_rename.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "source.h"
#include "tables/base/gap.h"
#include "tables/plc/plc_request.h"

PG_FUNCTION_INFO_V1(atp_log_begins_again);

static bool
is_null(AtpTuple row, const char *column)
{
	bool		isnull;

	(void) SPI_getbinval(row.tuple, row.desc, atp_column(row, column), &isnull);
	return isnull;
}

/* Cursors at former URLs, too: the subscription may follow these streams again. */
static void
read_from_beginning(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("cursor");

	atp_run("UPDATE atproto.cursor SET seq = 0, read_from = 0, last_row = NULL, left_at = NULL, updated_at = now()"
			" WHERE subscription = $1", ATP_ARGS(atp_text_arg(name)));
	atp_owner_end(caller);
	caller = atp_as_table_owner("gap");
	atp_gap_read_again(name, 0);
	atp_owner_end(caller);
}

/* SQL: atproto_internal.log_begins_again(), AFTER UPDATE OF target, dids, for each row */
Datum
atp_log_begins_again(PG_FUNCTION_ARGS)
{
	AtpRowTrigger call = atp_row_trigger(fcinfo, "log_begins_again", ATP_AFTER_ROW, ATP_ON_UPDATE);
	AtpTuple	old = call.old;
	AtpTuple	row = call.row;
	const AtpSubscription *sub;
	bool		moves;

	SPI_connect();
	sub = atp_subscription_get(atp_get_text(row, "name"), CurrentMemoryContext);
	moves = !atp_target_is_renamed() && strcmp(atp_get_text(old, "target"), atp_get_text(row, "target")) != 0;
	if (sub != NULL && sub->source->pages != NULL)
	{
		if (!is_null(row, "dids") && moves)
			(void) atp_plc_request_again(sub->name);
		else if (is_null(row, "dids") && (moves || !is_null(old, "dids")))
			read_from_beginning(sub->name);
	}
	SPI_finish();
	return PointerGetDatum(NULL);
}
