/*
 * sweep_joined.c
 *		A subscription that begins to fill a target while an archive is read into the target (H-43).
 *
 * The deletions that the subscription's stream has brought before were not kept in the target.  The archive may bring such a record
 * back, so the rows of atproto.history say "joined".  sweep.c finds out whether a sweep runs.
 */
#include "postgres.h"

#include "config/owner.h"
#include "config/row_trigger.h"
#include "config/spi.h"
#include "config/target_rename.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "identity/identity.h"

PG_FUNCTION_INFO_V1(atp_sweep_joined);

/*
 * Sweeps of this transaction have not read any row yet, so a session can make both subscriptions in any order.  Where the subscription
 * that has moved reads an archive itself, the deletions of the other subscriptions of the target were not kept.
 */
static void
note_joined(AtpTuple row)
{
	AtpCaller	caller = atp_as_table_owner("history");

	atp_run("UPDATE atproto.history h SET incomplete = 'joined', incomplete_at = now() FROM atproto.subscription s"
			" WHERE s.name = h.subscription AND s.target = $1 AND s.history = 'archive' AND h.phase <> 'live' AND h.incomplete IS NULL AND h.sweep_since < now()"
			" AND EXISTS (SELECT FROM atproto.subscription o WHERE o.target = $1 AND o.by_repo AND o.name <> s.name AND $2 IN (o.name, s.name))",
			ATP_ARGS(atp_get_arg(row, "target", NAMEOID), atp_get_arg(row, "name", TEXTOID)));
	atp_owner_end(caller);
}

/* SQL: atproto_internal.sweep_joined(), AFTER INSERT or UPDATE of the target, for each row */
Datum
atp_sweep_joined(PG_FUNCTION_ARGS)
{
	AtpRowTrigger call = atp_row_trigger(fcinfo, "sweep_joined", ATP_AFTER_ROW, ATP_ON_ALL);

	/* only the name of the schema has changed */
	if (atp_target_is_renamed())
		return PointerGetDatum(NULL);
	SPI_connect();
	if (!call.updated || strcmp(atp_get_text(call.old, "target"), atp_get_text(call.row, "target")) != 0)
		note_joined(call.row);
	SPI_finish();
	return PointerGetDatum(NULL);
}
