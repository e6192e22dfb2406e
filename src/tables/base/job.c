/*
 * job.c
 *		Requests to fetch repositories: rows of atproto.repo_job.
 */
#include "postgres.h"

#include "config/owner.h"
#include "config/spi.h"
#include "config/wake.h"
#include "identity/identity.h"
#include "tables/base/job.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"

/*
 * Two further limits follow from atproto.fetch_queue: MANY_FAILED times this number for all queued jobs of an owner, also
 * failed ones; this number divided by HOST_SHARE for a subscription's jobs from a single host's list.
 */
#define MANY_FAILED		10
#define HOST_SHARE		16

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
							"Of the subscriptions of one role.", &atp_fetch_queue, 100000, 1, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

void
atp_jobs_await(const char *subscription)
{
	AtpCaller	caller = atp_as_table_owner("subscription");

	atp_result_free(atp_query("SELECT FROM atproto.subscription WHERE name = $1 FOR UPDATE", ATP_ARGS(atp_text_arg(subscription))));
	atp_owner_end(caller);
}

bool
atp_jobs_hold(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	bool		any = atp_run("SELECT FROM atproto.subscription WHERE name = $1 FOR KEY SHARE", ATP_ARGS(atp_text_arg(name))) > 0;

	atp_owner_end(caller);
	return any;
}

bool
atp_jobs_are_past(const char *target, const char *subscription)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT target <> $1::name AS other FROM atproto.subscription WHERE name = $2 FOR KEY SHARE",
								  ATP_ARGS(atp_text_arg(target), atp_text_arg(subscription)));
	bool		other = found.n > 0 && atp_get_bool(atp_result_row(found, 0), "other");

	atp_result_free(found);
	atp_owner_end(caller);
	return other;
}

uint64
atp_jobs_request(const char *target, const char *subscription, const AtpJobRequest *requests, int n)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	Datum	   *priorities = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *reasons = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *listed_by = palloc0(sizeof(Datum) * Max(n, 1));
	bool	   *unlisted = palloc(sizeof(bool) * Max(n, 1));
	Datum	   *suspended = palloc(sizeof(Datum) * Max(n, 1));
	AtpCaller	caller;
	uint64		added;

	if (n == 0)
		return 0;
	for (int i = 0; i < n; i++)
	{
		dids[i] = requests[i].did;
		priorities[i] = Int16GetDatum(requests[i].priority);
		reasons[i] = CStringGetTextDatum(requests[i].reason);
		unlisted[i] = requests[i].listed_by == NULL;
		suspended[i] = BoolGetDatum(requests[i].suspended);
		if (!unlisted[i])
			listed_by[i] = CStringGetTextDatum(requests[i].listed_by);
	}
	caller = atp_as_table_owner("repo_job");
	/* Jobs in need of no change are filtered out first, so that no row is locked for nothing. */
	added = atp_run(atp_identity_sql("INSERT INTO atproto.repo_job AS j (target, did, subscription, priority, reason, listed_by, state, error)"
									 " SELECT $1::name, u.did, $2, u.priority, u.reason, u.listed_by,"
									 "  CASE WHEN u.suspended THEN 'suspended' ELSE 'queued' END, CASE WHEN u.suspended THEN 'the account is not active' END"
									 " FROM unnest($3, $4, $5, $6, $7) u (did, priority, reason, listed_by, suspended)"
									 " WHERE NOT EXISTS (SELECT FROM atproto.repo_job o WHERE o.target = $1::name"
									 "  AND o.did OPERATOR(@.=) u.did AND o.priority <= u.priority AND (u.suspended OR o.state <> 'suspended'))"
									 " AND NOT EXISTS (SELECT FROM atproto.blocked_account b"
									 "  WHERE b.did OPERATOR(@.=) u.did AND (b.target IS NULL OR b.target = $1::name))"
									 " ORDER BY u.did USING OPERATOR(@.<)"
									 /*
									  * The caller requests a fetch of an account that was inactive only after
									  * learning that the account is active again.
									  */
									 " ON CONFLICT (target, did) DO UPDATE SET priority = LEAST(excluded.priority, j.priority),"
									 "  reason = CASE WHEN excluded.priority < j.priority THEN excluded.reason ELSE j.reason END,"
									 "  state = CASE WHEN j.state = 'suspended' THEN excluded.state ELSE j.state END,"
									 "  next_try = CASE WHEN j.state = 'suspended' AND excluded.state = 'queued' THEN 'epoch' ELSE j.next_try END"
									 " WHERE excluded.priority < j.priority OR (j.state = 'suspended' AND excluded.state = 'queued')"),
					ATP_ARGS(atp_text_arg(target), atp_text_arg(subscription), atp_dids_arg(dids, n),
							 atp_array_arg(INT2OID, priorities, NULL, n), atp_array_arg(TEXTOID, reasons, NULL, n),
							 atp_array_arg(TEXTOID, listed_by, unlisted, n),
							 atp_array_arg(BOOLOID, suspended, NULL, n)));
	if (added > 0 && atp_jobs_are_past(target, subscription))
	{
		atp_run("DELETE FROM atproto.repo_job WHERE target = $1::name AND subscription = $2", ATP_ARGS(atp_text_arg(target), atp_text_arg(subscription)));
		added = 0;
	}
	atp_owner_end(caller);
	return added;
}

uint64
atp_jobs_add(const AtpSubscription *sub, struct varlena *const *dids, int n,
			 AtpJobPriority priority, const char *reason)
{
	AtpJobRequest *requests = palloc(sizeof(AtpJobRequest) * Max(n, 1));

	for (int i = 0; i < n; i++)
		requests[i] = (AtpJobRequest) {.did = dids[i], .priority = priority, .reason = reason};
	return atp_jobs_request(sub->target, sub->name, requests, n);
}

/* Run sql on the jobs of n accounts.  Returns how many jobs changed. */
static uint64
change_jobs(const char *target, struct varlena *const *dids, int n, const char *sql)
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
	(void) change_jobs(target, dids, n, "DELETE FROM atproto.repo_job WHERE");
}

void
atp_jobs_suspend(const char *target, struct varlena *const *dids, int n)
{
	(void) change_jobs(target, dids, n, "UPDATE atproto.repo_job SET state = 'suspended', error = 'the account is not active' WHERE state <> 'suspended' AND");
}

void
atp_jobs_resume(const char *target, struct varlena *const *dids, int n)
{
	if (change_jobs(target, dids, n, "UPDATE atproto.repo_job SET state = 'queued', put_off = 0, next_try = 'epoch' WHERE state = 'suspended' AND") > 0)
		atp_wake_fetcher();
}

/*
 * A job has a foreign key to its subscription's row.  A session that removes or renames the subscription has locked this
 * row, and may wait for repositories that the caller has locked.  So a caller with limited waits waits for a moment, and
 * is repeated: the subscription may stay.  Without a limit, waiting could be a deadlock, so a locked row is passed over.
 */
void
atp_jobs_repair(const char *target, struct varlena *const *dids, int n, AtpJobPriority priority, const char *reason)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpJobRequest *requests = palloc(sizeof(AtpJobRequest) * Max(n, 1));
	AtpResult	found =
		atp_query(psprintf("SELECT name FROM atproto.subscription WHERE target = $1::name AND backfill <> 'none'"
						   " AND atproto.role_may_fill(owner, target, target_owner)"
						   " ORDER BY enabled DESC, name LIMIT 1 FOR KEY SHARE%s", atp_queue_wait.limited ? "" : " SKIP LOCKED"),
				  ATP_ARGS(atp_text_arg(target)));

	atp_owner_end(caller);
	for (int i = 0; i < n; i++)
		requests[i] = (AtpJobRequest) {.did = dids[i], .priority = priority, .reason = reason};
	if (found.n > 0 && atp_jobs_request(target, atp_get_text(atp_result_row(found, 0), "name"), requests, n) > 0)
		atp_wake_fetcher();
	atp_result_free(found);
}

/* Do at least n jobs satisfy the condition?  The condition's parameters begin with $2. */
static bool
are_there(int64 n, const char *condition, const char *a, const char *b)
{
	return atp_run(psprintf("SELECT FROM atproto.repo_job WHERE %s OFFSET $1 LIMIT 1", condition),
				   ATP_ARGS(atp_int8_arg(n - 1), atp_text_arg(a), atp_text_arg(b))) > 0;
}

/* More than $n queued jobs of the owner o. */
#define MORE_THAN(n, condition) \
	"EXISTS (SELECT FROM atproto.repo_job j WHERE j.state = 'queued' AND " condition \
	" AND j.subscription IN (SELECT s.name FROM atproto.subscription s WHERE s.owner = o.owner) OFFSET " n " LIMIT 1)"

/*
 * Failed jobs are never given up.  If failed jobs counted like new jobs, they alone could stop all listing for ever.
 * Where all owners together do not have many, no single owner's jobs are counted.
 */
AtpArg
atp_jobs_owners_of_many(void)
{
	AtpResult	found;
	Datum	   *owners;
	int			n = 0;

	if (!are_there(atp_fetch_queue, "state = 'queued'", NULL, NULL))
		return atp_array_arg(OIDOID, NULL, NULL, 0);
	found = atp_query("SELECT o.owner::oid AS owner FROM (SELECT DISTINCT owner FROM atproto.subscription WHERE backfill <> 'none') o"
					  " WHERE " MORE_THAN("$1", "j.tries = 0") " OR " MORE_THAN("$2", "true"),
					  ATP_ARGS(atp_int8_arg((int64) atp_fetch_queue - 1), atp_int8_arg((int64) MANY_FAILED * atp_fetch_queue - 1)));
	owners = palloc(sizeof(Datum) * Max(found.n, 1));
	for (uint64 i = 0; i < found.n; i++)
		owners[n++] = atp_get_arg(atp_result_row(found, i), "owner", OIDOID).value;
	atp_result_free(found);
	return atp_array_arg(OIDOID, owners, NULL, n);
}

bool
atp_jobs_of_list_are_many(const char *subscription, const char *listed_by)
{
	return are_there(Max(atp_fetch_queue / HOST_SHARE, 1), "state IN ('queued', 'running') AND subscription = $2 AND listed_by = $3", subscription, listed_by);
}

bool
atp_jobs_of_inactive_are_many(const char *subscription, const char *listed_by)
{
	return are_there(atp_fetch_queue, "state = 'suspended' AND subscription = $2 AND listed_by = $3", subscription, listed_by);
}
