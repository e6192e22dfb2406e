/*
 * audit_request.c
 *		Requests for audits: rows of the table atproto.audit_state, one for each target.
 *
 * The fetcher and the manager read this table of the extension to find work.  They do not read the
 * user's tables for that, because reading a user's table may run the user's code (a view, a
 * policy).
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "config/spi.h"
#include "config/target_rename.h"
#include "config/wake.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "tables/base/audit_request.h"
#include "utils/builtins.h"
#include "utils/rel.h"

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
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	TupleDesc	desc;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event) || !TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired after each row", "subscription_audits")));
	if (atp_target_is_renamed())
		return PointerGetDatum(NULL);
	desc = RelationGetDescr(trigger->tg_relation);
	SPI_connect();
	request_audit(atp_get_text((AtpTuple) {trigger->tg_trigtuple, desc}, "target"), true);
	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		request_audit(atp_get_text((AtpTuple) {trigger->tg_newtuple, desc}, "target"), true);
	SPI_finish();
	return PointerGetDatum(NULL);
}
