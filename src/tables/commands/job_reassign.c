/*
 * job_reassign.c
 *		Gives the jobs of a subscription that leaves to another subscription (SQL: a trigger of
 *		atproto.subscription), and the jobs of a subscription whose owner may not fill the target any more.
 *
 * A job belongs to its target; its subscription only has the settings.  A break of a repository is
 * noted once: if its job were lost, the missed records would stay missing.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "config/row_trigger.h"
#include "config/spi.h"
#include "config/target_rename.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "storage/lmgr.h"
#include "tables/base/job.h"

PG_FUNCTION_INFO_V1(atp_subscription_jobs);

/*
 * $1, a subscription of the target $2, hands each job to the first subscription, by name, that fetches the
 * repository into the same tables.
 */
#define TO_HEIR(changes) \
	"WITH o AS (SELECT name, dids FROM atproto.subscription WHERE target = $2 AND name <> $1 AND backfill <> 'none'" \
	"  AND atproto.role_may_fill(owner, target, target_owner))," \
	" t AS (SELECT did, min(name) AS name FROM" \
	"  (SELECT k.did::text AS did, o.name FROM atproto.repo_job k CROSS JOIN o WHERE k.subscription = $1 AND k.target = $2 AND o.dids IS NULL" \
	"   UNION ALL SELECT d::text, o.name FROM o CROSS JOIN unnest(o.dids) d) x GROUP BY did)" \
	" UPDATE atproto.repo_job j SET subscription = t.name" changes " FROM t WHERE j.subscription = $1 AND j.target = $2 AND j.did::text = t.did"

/* leaves: the subscription leaves the target, so jobs without a new subscription are deleted. */
static void
hand_over(AtpTuple old, bool leaves)
{
	AtpArg		args[] = {atp_get_arg(old, "name", TEXTOID), atp_get_arg(old, "target", NAMEOID)};
	AtpCaller	caller;

	SPI_connect();
	atp_jobs_await(atp_get_text(old, "name"));
	caller = atp_as_table_owner("repo_job");
	atp_run(TO_HEIR(""), args, lengthof(args));
	if (leaves)
		atp_run("DELETE FROM atproto.repo_job WHERE subscription = $1 AND target = $2", args, lengthof(args));
	atp_owner_end(caller);
	SPI_finish();
}

/* The lock conflicts with itself and with DROP SCHEMA, but not with the locks of consumers on the schema (target.c). */
void
atp_jobs_lock_target(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT target::pg_catalog.text FROM atproto.subscription WHERE name = $1", ATP_ARGS(atp_text_arg(name)));
	Oid			schema = InvalidOid;

	if (found.n > 0)
		schema = get_namespace_oid(atp_get_text(atp_result_row(found, 0), "target"), true);
	if (OidIsValid(schema))
		LockDatabaseObject(NamespaceRelationId, schema, 0, ShareUpdateExclusiveLock);
	atp_result_free(found);
	atp_owner_end(caller);
}

void
atp_jobs_take_from_unentitled(void)
{
	AtpResult	found = atp_query("SELECT name, target FROM atproto.subscription s WHERE NOT atproto.role_may_fill(owner, target, target_owner)"
								  " AND EXISTS (SELECT FROM atproto.repo_job j WHERE j.subscription = s.name)", ATP_NO_ARGS);

	for (uint64 i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);

		/* it failed for want of rights; a request that is under way fails first */
		atp_run(TO_HEIR(", tries = 0, next_try = 'epoch', error = NULL") " AND j.state <> 'running'",
				ATP_ARGS(atp_get_arg(row, "name", TEXTOID), atp_get_arg(row, "target", NAMEOID)));
	}
	atp_result_free(found);
}

/* SQL: atproto_internal.subscription_jobs(), BEFORE UPDATE OF target, backfill or DELETE, for each row */
Datum
atp_subscription_jobs(PG_FUNCTION_ARGS)
{
	AtpRowTrigger call = atp_row_trigger(fcinfo, "subscription_jobs", ATP_BEFORE_ROW, ATP_ON_UPDATE | ATP_ON_DELETE);
	AtpTuple	old = call.old;
	AtpTuple	row = call.row;
	const char *target,
			   *backfill;

	if (call.deleted)
	{
		hand_over(old, false);
		return PointerGetDatum(old.tuple);
	}
	target = atp_get_text_or_null(row, "target");
	backfill = atp_get_text_or_null(row, "backfill");
	/* a NULL is left to the table's constraints */
	if (atp_target_is_renamed())
		return PointerGetDatum(row.tuple);
	if (target != NULL && strcmp(target, atp_get_text(old, "target")) != 0)
		hand_over(old, true);
	else if (backfill != NULL && strcmp(backfill, "none") == 0)
		hand_over(old, false);
	return PointerGetDatum(row.tuple);
}
