/*
 * target_rename.c
 *		ALTER SCHEMA … RENAME of a schema that subscriptions fill: an event trigger.
 *
 * The extension's tables refer to a target by the name of its schema.  The event trigger changes the
 * name in all these rows, in the transaction of ALTER SCHEMA.  So held events, jobs, requests, audits
 * and gaps stay with their tables.
 *
 * A consumer may be about to commit rows with the old name.  Before it writes such rows, it locks its
 * row of atproto.subscription FOR KEY SHARE (progress.h; foreign keys take the same lock).  The event
 * trigger first locks these rows: so it sees all that the consumer has committed, and the consumer
 * repeats the rest under the new name.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "commands/event_trigger.h"
#include "config/cursor.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target_rename.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_target_renamed);

static bool renaming = false;

bool
atp_target_is_renamed(void)
{
	return renaming;
}

/*
 * The statements, in this order.  $1: the old name, $2: the new name.  Rows which already have the new name
 * belong to a schema that does not exist any more: where such a row has the key of a renamed row, it is deleted.
 */
static const char *const steps[] = {
	"UPDATE atproto.subscription SET target = $2::name WHERE target = $1::name",
	"UPDATE atproto.held_event SET target = $2::name WHERE target = $1::name",
	"UPDATE atproto.held_release SET target = $2::name WHERE target = $1::name",
	"DELETE FROM atproto.repo_job n USING atproto.repo_job o WHERE n.target = $2::name AND o.target = $1::name AND o.did::text = n.did::text",
	/* A running fetch will not find its job under the old name, so the job is queued again. */
	"UPDATE atproto.repo_job SET target = $2::name, state = CASE state WHEN 'running' THEN 'queued' ELSE state END WHERE target = $1::name",
	"DELETE FROM atproto.repo_fetched n USING atproto.repo_fetched o WHERE n.target = $2::name AND o.target = $1::name AND o.did::text = n.did::text",
	"UPDATE atproto.repo_fetched SET target = $2::name WHERE target = $1::name",
	"DELETE FROM atproto.status_request n USING atproto.status_request o WHERE n.target = $2::name AND o.target = $1::name AND o.did::text = n.did::text",
	"UPDATE atproto.status_request SET target = $2::name WHERE target = $1::name",
	"DELETE FROM atproto.audit_state n USING atproto.audit_state o WHERE n.target = $2::name AND o.target = $1::name",
	"UPDATE atproto.audit_state SET target = $2::name WHERE target = $1::name",
	/* Row security shows gaps without a subscription to the users of the schema with this name. */
	"UPDATE atproto.gap SET target = $2::name WHERE target = $1::name",
};

static AtpCaller
as_owner_of_subscriptions(void)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(atp_relation("subscription")));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "table \"%s\" does not exist", "subscription");
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return atp_owner_begin(owner);
}

static void
rename_target(const char *before, const char *now)
{
	AtpResult	locked = atp_query("SELECT FROM atproto.subscription WHERE target = $1::name ORDER BY name FOR UPDATE",
								   ATP_ARGS(atp_text_arg(before)));

	atp_result_free(locked);
	atp_cursors_rename_target(before, now);
	for (int i = 0; i < lengthof(steps); i++)
		atp_run(steps[i], ATP_ARGS(atp_text_arg(before), atp_text_arg(now)));
}

static void
rename_as_owner(const char *before, const char *now)
{
	AtpCaller	caller;

	SPI_connect();
	caller = as_owner_of_subscriptions();
	renaming = true;
	PG_TRY();
	{
		rename_target(before, now);
	}
	PG_FINALLY();
	{
		renaming = false;
	}
	PG_END_TRY();
	atp_owner_end(caller);
	SPI_finish();
}

/* SQL: atproto.target_renamed(), event trigger at the end of ALTER SCHEMA */
Datum
atp_target_renamed(PG_FUNCTION_ARGS)
{
	const Node *command;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired by an event trigger", "target_renamed")));
	command = ((EventTriggerData *) fcinfo->context)->parsetree;
	if (IsA(command, RenameStmt) && ((const RenameStmt *) command)->renameType == OBJECT_SCHEMA)
	{
		const RenameStmt *stmt = (const RenameStmt *) command;

		/* the extension's own schema has a fixed name */
		if (strcmp(stmt->subname, "atproto") != 0)
			rename_as_owner(stmt->subname, stmt->newname);
	}
	return (Datum) 0;
}
