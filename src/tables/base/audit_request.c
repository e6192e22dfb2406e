/*
 * audit_request.c
 *		Requests for audits: rows of the table atproto.audit_state, one for each target.
 *
 * The fetcher and the manager read this table of the extension to find work.  They do not read the
 * user's tables for that, because reading a user's table may run the user's code (a view, a
 * policy).
 */
#include "postgres.h"

#include "config/row_trigger.h"
#include "config/spi.h"
#include "config/target_rename.h"
#include "config/wake.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "tables/base/audit_request.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_subscription_audits);

typedef enum RequestState
{
	REQUEST_NONE,				/* the target has no row */
	REQUEST_ENDED,
	REQUEST_QUEUED
} RequestState;

/*
 * Looks for a pending request under FOR KEY SHARE, which many sessions can hold at once.  The fetcher does not clear
 * next_at of a row that is locked so (fetch/repositories/task_audit.c): without the lock, the fetcher could clear the
 * request before this transaction commits its unproven repository, and no audit would follow.
 */
static RequestState
find_request(AtpArg target)
{
	AtpResult	found = atp_query("SELECT next_at IS NOT NULL AS queued FROM atproto.audit_state WHERE target = $1 FOR KEY SHARE",
								  ATP_ARGS(target));
	RequestState state = found.n == 0 ? REQUEST_NONE : atp_get_bool(atp_result_row(found, 0), "queued") ? REQUEST_QUEUED : REQUEST_ENDED;

	atp_result_free(found);
	return state;
}

/* anew: only if an audit of the target was requested before */
static void
request_audit(const char *target, bool anew)
{
	AtpCaller	caller = atp_as_table_owner("audit_state");
	NameData	name;
	AtpArg		arg;
	RequestState there;

	namestrcpy(&name, target);
	arg = (AtpArg) {NameGetDatum(&name), NAMEOID, false};
	there = find_request(arg);
	if (there == REQUEST_ENDED || (there == REQUEST_NONE && !anew))
	{
		atp_run("INSERT INTO atproto.audit_state AS s (target, next_at) VALUES ($1, now())"
				" ON CONFLICT (target) DO UPDATE SET next_at = excluded.next_at WHERE s.next_at IS NULL", ATP_ARGS(arg));
		atp_wake_fetcher();
	}
	atp_owner_end(caller);
}

void
atp_audit_request(const char *target)
{
	request_audit(target, false);
}

/*
 * SQL: atproto_internal.subscription_audits(), AFTER INSERT, UPDATE or DELETE, for each row.  The fetcher gives up what no
 * subscription lets it audit (V-45); now another subscription may, or the one that was in the way has gone.
 */
Datum
atp_subscription_audits(PG_FUNCTION_ARGS)
{
	AtpRowTrigger call = atp_row_trigger(fcinfo, "subscription_audits", ATP_AFTER_ROW, ATP_ON_ALL);

	if (atp_target_is_renamed())
		return PointerGetDatum(NULL);
	SPI_connect();
	request_audit(atp_get_text(call.old, "target"), true);
	if (call.updated)
		request_audit(atp_get_text(call.row, "target"), true);
	SPI_finish();
	return PointerGetDatum(NULL);
}
