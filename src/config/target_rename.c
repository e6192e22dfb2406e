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
 * trigger first locks these rows, and sees all that the consumer has committed.  The cursors get a new layout: the consumer
 * reads the rest again, under the new name.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "commands/event_trigger.h"
#include "config/cursor.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/target_rename.h"
#include "fmgr.h"
#include "nodes/parsenodes.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_target_renamed);

static bool renaming = false;

bool
atp_target_is_renamed(void)
{
	return renaming;
}

/*
 * The statements, in this order.  $1: the old name, $2: the new name, $3: the subscriptions that go along.  Rows which
 * already have the new name belong to a schema that does not exist any more: where such a row has the key of a renamed row,
 * it is deleted.
 */
#define OF_SCHEMA			" WHERE target = $1::name"
#define OF_SUBSCRIPTIONS	OF_SCHEMA " AND subscription = ANY ($3)"
static const char *const steps[] = {
	"UPDATE atproto.subscription SET target = $2::name" OF_SCHEMA " AND name = ANY ($3)",
	"UPDATE atproto.held_event SET target = $2::name" OF_SUBSCRIPTIONS,
	"UPDATE atproto.held_release SET target = $2::name" OF_SUBSCRIPTIONS,
	"DELETE FROM atproto.repo_job n USING atproto.repo_job o WHERE n.target = $2::name AND o.target = $1::name AND o.subscription = ANY ($3) AND o.did::text = n.did::text",
	/* A running fetch will not find its job under the old name, so the job is queued again. */
	"UPDATE atproto.repo_job SET target = $2::name, state = CASE state WHEN 'running' THEN 'queued' ELSE state END" OF_SUBSCRIPTIONS,
	"DELETE FROM atproto.status_request n USING atproto.status_request o WHERE n.target = $2::name AND o.target = $1::name AND o.subscription = ANY ($3) AND o.did::text = n.did::text",
	"UPDATE atproto.status_request SET target = $2::name" OF_SUBSCRIPTIONS,
	"DELETE FROM atproto.proof_result n USING atproto.proof_result o WHERE n.target = $2::name AND o.target = $1::name AND o.subscription = ANY ($3) AND o.did::text = n.did::text",
	"UPDATE atproto.proof_result SET target = $2::name" OF_SUBSCRIPTIONS,
	/* Row security shows gaps without a subscription to the users of the schema with this name. */
	"UPDATE atproto.gap SET target = $2::name" OF_SCHEMA " AND (subscription IS NULL OR subscription = ANY ($3))",
};

/* Rows of the schema alone.  $1: the old name, $2: the new name. */
static const char *const steps_of_schema[] = {
	"DELETE FROM atproto.repo_fetched n USING atproto.repo_fetched o WHERE n.target = $2::name AND o.target = $1::name AND o.did::text = n.did::text",
	"UPDATE atproto.repo_fetched SET target = $2::name" OF_SCHEMA,
	"DELETE FROM atproto.audit_state n USING atproto.audit_state o WHERE n.target = $2::name AND o.target = $1::name",
	"UPDATE atproto.audit_state SET target = $2::name" OF_SCHEMA,
	"DELETE FROM atproto.proved_set n USING atproto.proved_set o WHERE n.target = $2::name AND o.target = $1::name AND o.id = n.id",
	"UPDATE atproto.proved_set SET target = $2::name" OF_SCHEMA,
	"DELETE FROM atproto.proof_sample n USING atproto.proof_sample o WHERE n.target = $2::name AND o.target = $1::name",
	"DELETE FROM atproto.blocked_account n USING atproto.blocked_account o WHERE n.target = $2::name AND o.target = $1::name AND o.did::text = n.did::text",
	"UPDATE atproto.blocked_account SET target = $2::name" OF_SCHEMA,
	"UPDATE atproto.proof_sample SET target = $2::name" OF_SCHEMA,
};

static AtpCaller
as_owner_of_subscriptions(void)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(atp_relation("subscription")));
	AtpCaller	caller;
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "table \"%s\" does not exist", "subscription");
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	caller = atp_owner_begin(owner);
	atp_fix_search_path();
	return caller;
}

/*
 * The subscriptions that go along with the schema, as a parameter.  The row of a subscription whose schema was dropped may
 * have the name of a schema that another role has made since (target.h): this role must not change or lock the row by a
 * renaming.
 */
static AtpArg
lock_subscriptions(Oid role, const char *before, const char *now)
{
	AtpResult	found = atp_query("SELECT name, owner::oid AS owner, target_owner FROM atproto.subscription WHERE target = $1::name",
								  ATP_ARGS(atp_text_arg(before)));
	AtpArg		subscriptions;
	Datum	   *names = palloc(sizeof(Datum) * Max(found.n, 1));
	int			n = 0;

	for (uint64 i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);
		Oid			owner = DatumGetObjectId(atp_get_arg(row, "owner", OIDOID).value);

		if (has_privs_of_role(role, owner) ||
			!atp_target_is_strange(owner, now, DatumGetObjectId(atp_get_arg(row, "target_owner", OIDOID).value)))
			names[n++] = CStringGetTextDatum(atp_get_text(row, "name"));
	}
	atp_result_free(found);
	subscriptions = atp_array_arg(TEXTOID, names, NULL, n);
	atp_result_free(atp_query("SELECT FROM atproto.subscription WHERE target = $1::name AND name = ANY ($2) ORDER BY name FOR UPDATE",
							  ATP_ARGS(atp_text_arg(before), subscriptions)));
	return subscriptions;
}

static void
rename_target(Oid role, const char *before, const char *now)
{
	AtpArg		subscriptions = lock_subscriptions(role, before, now);

	atp_cursors_rename_target(before, now, subscriptions);
	for (int i = 0; i < lengthof(steps); i++)
		atp_run(steps[i], ATP_ARGS(atp_text_arg(before), atp_text_arg(now), subscriptions));
	for (int i = 0; i < lengthof(steps_of_schema); i++)
		atp_run(steps_of_schema[i], ATP_ARGS(atp_text_arg(before), atp_text_arg(now)));
}

/* The triggers of atproto.subscription see that the target's name changes, not the target. */
static void
rename_marked(Oid role, const char *before, const char *now)
{
	renaming = true;
	PG_TRY();
	{
		rename_target(role, before, now);
	}
	PG_FINALLY();
	{
		renaming = false;
	}
	PG_END_TRY();
}

static void
rename_as_owner(const char *before, const char *now)
{
	AtpCaller	caller;

	SPI_connect();
	caller = as_owner_of_subscriptions();
	rename_marked(caller.user, before, now);
	atp_owner_end(caller);
	SPI_finish();
}

/* SQL: atproto_internal.target_renamed(), event trigger at the end of ALTER SCHEMA */
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
