/*
 * job.c
 *		Repositories that are to be fetched: rows of atproto.repo_job.
 */
#include "postgres.h"

#include "config/spi.h"
#include "config/wake.h"
#include "identity/identity.h"
#include "tables/job.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"

int			atp_fetch_retry_s;
int			atp_fetch_queue;

void
atp_job_init(void)
{
	DefineCustomIntVariable("atproto.fetch_retry",
							"Least time after which what could not be fetched is tried again.",
							NULL, &atp_fetch_retry_s, 60, 1, 86400,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.fetch_queue",
							"Number of repositories waiting to be fetched from which on no lists are read.",
							NULL, &atp_fetch_queue, 100000, 1, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

uint64
atp_jobs_wish(const char *target, const char *subscription, const AtpJobWish *wishes, int n)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	Datum	   *priorities = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *reasons = palloc(sizeof(Datum) * Max(n, 1));
	AtpCaller	caller;
	uint64		added;

	if (n == 0)
		return 0;
	for (int i = 0; i < n; i++)
	{
		dids[i] = wishes[i].did;
		priorities[i] = Int16GetDatum(wishes[i].priority);
		reasons[i] = CStringGetTextDatum(wishes[i].reason);
	}
	caller = atp_as_table_owner("repo_job");
	/* rows that need no change are not locked, either */
	added = atp_run(atp_identity_sql("INSERT INTO atproto.repo_job AS j (target, did, subscription, priority, reason)"
									 " SELECT $1::name, u.did, $2, u.priority, u.reason FROM unnest($3, $4, $5) u (did, priority, reason)"
									 " WHERE NOT EXISTS (SELECT FROM atproto.repo_job o WHERE o.target = $1::name"
									 "  AND o.did OPERATOR(@.=) u.did AND o.priority <= u.priority)"
									 " ORDER BY u.did USING OPERATOR(@.<)"
									 " ON CONFLICT (target, did) DO UPDATE SET priority = excluded.priority, reason = excluded.reason"
									 " WHERE excluded.priority < j.priority"),
					ATP_ARGS(atp_text_arg(target), atp_text_arg(subscription), atp_dids_arg(dids, n),
							 atp_array_arg(INT2OID, priorities, NULL, n), atp_array_arg(TEXTOID, reasons, NULL, n)));
	atp_owner_end(caller);
	return added;
}

uint64
atp_jobs_add(const AtpSubscription *sub, struct varlena *const *dids, int n,
			 AtpJobPriority priority, const char *reason)
{
	AtpJobWish *wishes = palloc(sizeof(AtpJobWish) * Max(n, 1));

	for (int i = 0; i < n; i++)
		wishes[i] = (AtpJobWish) {dids[i], priority, reason};
	return atp_jobs_wish(sub->target, sub->name, wishes, n);
}

/* Of the jobs of n accounts; how many it changed. */
static uint64
change(const char *target, struct varlena *const *dids, int n, const char *sql)
{
	AtpCaller	caller;
	uint64		changed;

	if (n == 0)
		return 0;
	caller = atp_as_table_owner("repo_job");
	changed = atp_run(atp_identity_sql(psprintf("%s target = $1::name AND did OPERATOR(@.=) ANY ($2)", sql)),
					  ATP_ARGS(atp_text_arg(target), atp_dids_arg(dids, n)));
	atp_owner_end(caller);
	return changed;
}

void
atp_jobs_remove(const char *target, struct varlena *const *dids, int n)
{
	(void) change(target, dids, n, "DELETE FROM atproto.repo_job WHERE");
}

void
atp_jobs_suspend(const char *target, struct varlena *const *dids, int n)
{
	(void) change(target, dids, n, "UPDATE atproto.repo_job SET state = 'suspended', error = 'the account is not active' WHERE state <> 'suspended' AND");
}

void
atp_jobs_resume(const char *target, struct varlena *const *dids, int n)
{
	if (change(target, dids, n, "UPDATE atproto.repo_job SET state = 'queued', next_try = '-infinity' WHERE state = 'suspended' AND") > 0)
		atp_wake_fetcher();
}

void
atp_jobs_repair(const char *target, struct varlena *const *dids, int n, const char *reason)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpJobWish *wishes = palloc(sizeof(AtpJobWish) * Max(n, 1));
	AtpResult	found = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name AND backfill <> 'none'"
								  " ORDER BY enabled DESC, name LIMIT 1", ATP_ARGS(atp_text_arg(target)));

	atp_owner_end(caller);
	for (int i = 0; i < n; i++)
		wishes[i] = (AtpJobWish) {dids[i], ATP_JOB_BREAK, reason};
	if (found.n > 0 && atp_jobs_wish(target, atp_get_text(atp_result_row(found, 0), "name"), wishes, n) > 0)
		atp_wake_fetcher();
	atp_result_free(found);
}

bool
atp_jobs_are_many(void)
{
	AtpResult	found = atp_query("SELECT FROM atproto.repo_job WHERE state = 'queued' OFFSET $1 LIMIT 1",
								  ATP_ARGS(atp_int8_arg((int64) atp_fetch_queue - 1)));
	bool		many = found.n > 0;

	atp_result_free(found);
	return many;
}
