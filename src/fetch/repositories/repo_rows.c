/*
 * repo_rows.c
 *		Rows of atproto.repo_job: which repositories are to be fetched, and how a job begins, fails
 *		and ends in the table and in the owner's table repo.  The transfer itself is in
 *		repo_transfer.c.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "core/syntax/did.h"
#include "fetch/repositories/repo_limits.h"
#include "fetch/repositories/repo_rows.h"
#include "identity/identity.h"
#include "identity/identity_request.h"
#include "mb/pg_wchar.h"
#include "net/http.h"
#include "tables/base/blocked.h"
#include "tables/base/job.h"
#include "tables/export/repo_export.h"
#include "types/types.h"
#include "utils/builtins.h"

/* W-36: an identity looked up longer ago is looked up again before the fetch. */
#define IDENTITY_AGE	"'1 hour'"

/* How long a job waits for a look-up, or for a host that is overloaded. */
#define SOON			"'2 s'"

/*
 * W-36: server and key of a row i of atproto.identity.  A fetch that failed with these values is
 * worth a new try only if a look-up brings different values.
 */
#define KNOWN			"concat_ws(' ', i.pds, encode(i.key, 'hex'))"

/* Bytes of an error that are kept. */
#define ERROR_MAX		1000

bool
atp_repo_jobs_wanted(void)
{
	return atp_run("SELECT FROM atproto.subscription s WHERE backfill <> 'none' AND EXISTS (SELECT FROM atproto.repo_job j"
				   " WHERE j.subscription = s.name AND kind = 'repo' AND state IN ('queued', 'running', 'throttled')) LIMIT 1", ATP_NO_ARGS) > 0;
}

/* doubled with each failure in a row, up to a day, plus or minus a fifth at random. */
#define BACK_OFF(first)	"least(" first " * power(2, least(tries, 20)), interval '1 day') * (0.8 + 0.4 * random())"

/* a job that is put off waits longer each time, too, because its reason may stay: the whole repository may have come for nothing. */
#define PUT_OFF(most) \
	"put_off = least(put_off + 1, 1000)," \
	" next_try = now() + least(interval " SOON " * power(2, least(put_off, 20)), interval " most ") * (0.8 + 0.4 * random())"
#define LATER_MOST		"'5 min'"
#define WAITS_MOST		"'30 s'"

/* The failure counts: if a job ended the fetcher, the job comes back less and less often. */
void
atp_repo_jobs_reset(const AtpRepoJob **running, int n, const char *error)
{
	Datum	   *targets = palloc(sizeof(Datum) * Max(n, 1));
	Datum	   *dids = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		targets[i] = CStringGetTextDatum(running[i]->target);
		dids[i] = PointerGetDatum(running[i]->did);
	}
	atp_run(atp_identity_sql("UPDATE atproto.repo_job SET state = 'queued', tries = tries + 1, next_try = now() + " BACK_OFF("interval " SOON) ","
							 " error = $3 WHERE ctid = ANY (ARRAY (SELECT ctid FROM atproto.repo_job j WHERE state = 'running'"
							 "  AND NOT EXISTS (SELECT FROM unnest($1, $2) u (target, did) WHERE u.target::name = j.target AND u.did OPERATOR(@.=) j.did)"
							 "  FOR UPDATE SKIP LOCKED))"),
			ATP_ARGS(atp_array_arg(TEXTOID, targets, NULL, n), atp_array_arg(atp_type("did"), dids, NULL, n), atp_text_arg(error)));
}

static AtpRepoJob *
read_job(AtpTuple row)
{
	AtpRepoJob *job = palloc0(sizeof(AtpRepoJob));
	char		text[ATP_DID_MAX];
	char	   *state = atp_get_text_or_null(row, "identity");
	char	   *why = atp_get_text_or_null(row, "identity_error");
	bool		isnull;

	job->target = atp_get_text(row, "target");
	job->did = atp_get_copy(row, "did", atp_type("did"));
	job->did_text = pnstrdup(text, atp_did_copy(job->did, text));
	job->subscription = atp_get_text(row, "subscription");
	job->server = atp_get_text_or_null(row, "server");
	job->host = atp_get_text_or_null(row, "host");
	job->urgent = atp_get_bool(row, "urgent");
	job->force = atp_get_bool(row, "force");
	job->asks = atp_get_bool(row, "asks");
	job->owner = DatumGetObjectId(atp_get(row, "owner", OIDOID, &isnull));
	job->at_pds = atp_get_bool(row, "at_pds");
	job->broke = atp_get_bool(row, "broke");
	job->by_itself = atp_get_bool(row, "by_itself");
	job->parts = atp_get_bool(row, "parts");
	job->only_parts = atp_get_bool(row, "only_parts");
	job->expects_none = atp_get_bool(row, "expects_none");
	job->too_often = atp_get_bool(row, "too_often");
	job->problem = atp_get_text_or_null(row, "failed");
	if (job->server == NULL)
		job->problem = psprintf("the account's identity is %s%s%s", state == NULL ? "not known" : state, why == NULL ? "" : ": ", why == NULL ? "" : why);
	return job;
}

/*
 * Jobs that are due, with their servers, at most $1.  During a storm only jobs that a session asked for.
 *
 * The jobs are taken in turn from the owners: the most urgent job of each owner, then the next of each.  By priority
 * alone, a role with millions of jobs would keep the fetcher from the less urgent jobs of all other roles for days.
 * With a single free place at a time, random() decides which owner's job comes first: no order would be fair.
 * An index returns the first jobs of each subscription: no more rows are read, however many jobs wait.
 */
#define DUE_JOBS(which, which_owner) \
	"WITH due AS (SELECT j.*, random() AS chance, row_number() OVER (PARTITION BY s.owner ORDER BY j.priority, j.next_try) AS turn" \
	"  FROM atproto.subscription s CROSS JOIN LATERAL (SELECT j.* FROM atproto.repo_job j" \
	"   LEFT JOIN atproto.identity i ON i.did OPERATOR(@.=) j.did WHERE j.subscription = s.name" \
	"   AND j.state = 'queued' AND j.next_try <= now() AND (j.priority = 0 OR NOT " ATP_REPO_STORM ") AND " which \
	"   ORDER BY j.priority, j.next_try LIMIT $1) j" \
	"  WHERE s.backfill <> 'none' AND " which_owner " ORDER BY turn, chance LIMIT $1)" \
	" SELECT j.target::text, j.did, j.subscription, j.host, j.force, i.state AS identity, i.error AS identity_error," \
	" " ATP_REPO_SERVER " AS server, " ATP_REPO_SOURCE " = 'pds' AS at_pds," \
	" (" ATP_REPO_SOURCE " = 'pds' OR s.verify = 'full') AND (i.resolved_at IS NULL OR i.resolved_at < now() - interval " IDENTITY_AGE ")" \
	"  AND (i.asked_at IS NULL OR i.asked_at < now() - interval " IDENTITY_AGE ")" \
	"  OR j.doubted_at IS NOT NULL AND COALESCE(i.asked_at < j.doubted_at, true) AS asks," \
	" CASE WHEN j.doubted = " KNOWN " THEN j.error END AS failed, s.owner::oid AS owner," \
	" s.fetch_as = 'sparse' AS only_parts, COALESCE(s.fetch_as <> 'whole' AND (s.fetch_as = 'sparse' OR NOT j.whole) AND cardinality(s.collections) > 0 AND '*' <> ALL (s.collections), false) AS parts," \
	" s.backfill = 'network' AND j.priority = 3 AS expects_none," \
	" j.priority <= 1 AS urgent, j.priority = 1 AS broke, j.priority > 0 AS by_itself," \
	" j.priority > 0 AND COALESCE(" ATP_REPO_MAY_BE_FETCHED " > now(), false) AS too_often" \
	" FROM due j JOIN atproto.subscription s ON s.name = j.subscription" \
	" LEFT JOIN atproto.identity i ON i.did OPERATOR(@.=) j.did" \
	" LEFT JOIN atproto.repo_fetched f ON f.target = j.target AND f.did OPERATOR(@.=) j.did" \
	" ORDER BY j.turn, j.chance"

static List *
read_jobs(const char *sql, const AtpArg *args, int nargs)
{
	AtpResult	found = atp_query(atp_identity_sql(sql), args, nargs);
	List	   *jobs = NIL;

	for (uint64 i = 0; i < found.n; i++)
		jobs = lappend(jobs, read_job(atp_result_row(found, i)));
	atp_result_free(found);
	return jobs;
}

static AtpArg
texts_arg(char **texts, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(n, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(n, 1));

	for (int i = 0; i < n; i++)
	{
		nulls[i] = texts[i] == NULL;
		values[i] = nulls[i] ? (Datum) 0 : CStringGetTextDatum(texts[i]);
	}
	return atp_array_arg(TEXTOID, values, nulls, n);
}

static AtpArg
oids_arg(const Oid *oids, int n)
{
	Datum	   *values = palloc(sizeof(Datum) * Max(n, 1));

	for (int i = 0; i < n; i++)
		values[i] = ObjectIdGetDatum(oids[i]);
	return atp_array_arg(OIDOID, values, NULL, n);
}

List *
atp_repo_jobs_due(char **hosts, int nhosts, const Oid *owners, int nowners, int max)
{
	return read_jobs(DUE_JOBS("j.host IS NOT NULL AND j.host <> ALL ($2)", "s.owner::oid <> ALL ($3)"),
					 ATP_ARGS(atp_int4_arg(max), texts_arg(hosts, nhosts), oids_arg(owners, nowners)));
}

/* Queue look-ups of the identities of an owner's jobs, urgent jobs with a higher priority. */
static void
request_lookups_of(Oid owner, List *jobs, bool urgent)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(list_length(jobs), 1));
	ListCell   *cell;
	int			n = 0;

	foreach(cell, jobs)
	{
		const AtpRepoJob *job = lfirst(cell);

		if (job->asks && job->owner == owner && job->urgent == urgent)
			dids[n++] = job->did;
	}
	atp_identity_requests_add(dids, atp_sort_dids(dids, n), true, urgent ? ATP_REQUEST_HELD : ATP_REQUEST_OTHER, owner, false);
}

static void
request_lookups(List *jobs)
{
	List	   *owners = NIL;
	ListCell   *cell;

	foreach(cell, jobs)
		owners = list_append_unique_oid(owners, ((const AtpRepoJob *) lfirst(cell))->owner);
	foreach(cell, owners)
	{
		request_lookups_of(lfirst_oid(cell), jobs, true);
		request_lookups_of(lfirst_oid(cell), jobs, false);
	}
}

/*
 * Rows locked by a consumer are skipped, since consumers lock rows of jobs in a different order;
 * the next call gets these rows.
 */
List *
atp_repo_jobs_place(int max, int *placed)
{
	List	   *jobs = read_jobs(DUE_JOBS("j.host IS NULL", "true"), ATP_ARGS(atp_int4_arg(max)));
	char	  **targets = palloc(sizeof(char *) * Max(list_length(jobs), 1));
	Datum	   *dids = palloc(sizeof(Datum) * Max(list_length(jobs), 1));
	char	  **hosts = palloc(sizeof(char *) * Max(list_length(jobs), 1));
	List	   *problems = NIL;
	ListCell   *cell;
	int			n = 0;

	*placed = 0;
	foreach(cell, jobs)
	{
		AtpRepoJob *job = lfirst(cell);

		if (!job->asks && job->problem == NULL && (job->host = atp_http_host_of(job->server)) == NULL)
			job->problem = "the account's server has no valid URL";
		if (!job->asks && job->problem != NULL)
		{
			problems = lappend(problems, job);
			continue;
		}
		targets[n] = job->target;
		dids[n] = PointerGetDatum(job->did);
		hosts[n++] = job->asks ? NULL : job->host;
		*placed += !job->asks;
	}
	if (n > 0)
		atp_run(atp_identity_sql("WITH l AS (SELECT j.target, j.did, u.host FROM unnest($1, $2, $3) u (target, did, host)"
								 "  JOIN atproto.repo_job j ON j.target = u.target::name AND j.did OPERATOR(@.=) u.did"
								 "  FOR UPDATE OF j SKIP LOCKED)"
								 " UPDATE atproto.repo_job j SET host = l.host,"
								 "  next_try = CASE WHEN l.host IS NULL THEN now() + interval " SOON " ELSE j.next_try END"
								 " FROM l WHERE j.target = l.target AND j.did OPERATOR(@.=) l.did"),
				ATP_ARGS(texts_arg(targets, n), atp_array_arg(atp_type("did"), dids, NULL, n), texts_arg(hosts, n)));
	request_lookups(jobs);
	return problems;
}

#define OF_JOB	" WHERE target = $1::name AND did OPERATOR(@.=) $2"

/* OF_JOB for transactions without a time limit: a row locked by a session is skipped. */
#define OF_FREE_JOB	" WHERE ctid = (SELECT ctid FROM atproto.repo_job" OF_JOB " FOR UPDATE SKIP LOCKED)"

void
atp_repo_job_moves(const AtpRepoJob *job, const char *host)
{
	atp_run(atp_identity_sql("UPDATE atproto.repo_job SET host = $3" OF_FREE_JOB),
			ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did), atp_text_arg(host)));
}

static bool
find_running(const AtpRepoJob *job, const char *sql)
{
	AtpResult	found = atp_query(atp_identity_sql(sql), ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did)));

	atp_result_free(found);
	return found.n > 0;
}

#define RUNNING_JOB	"SELECT FROM atproto.repo_job" OF_JOB " AND state = 'running'"

bool
atp_repo_job_is_running(const AtpRepoJob *job)
{
	return find_running(job, RUNNING_JOB);
}

/* SKIP LOCKED: the process that is about to remove the job may wait for rows that this transaction has written. */
bool
atp_repo_job_lock(const AtpRepoJob *job)
{
	return find_running(job, RUNNING_JOB " FOR KEY SHARE SKIP LOCKED");
}

/* Has erase() blocked the account since the job was made?  Then the job goes. */
static bool
is_blocked(const AtpRepoJob *job, const char **why)
{
	if (!atp_is_blocked_now(job->target, job->did))
		return false;
	atp_jobs_remove(job->target, &job->did, 1);
	*why = "the account is blocked";
	return true;
}

AtpRefusal
atp_repo_job_look(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set, const AtpCommit *commit, const char **why)
{
	AtpApply	a = {.sub = sub, .sink = &atp_repos_sink, .statements = set};
	AtpRefusal	refusal;

	if (is_blocked(job, why))
		return ATP_REFUSED_REMOVED;
	refusal = atp_repo_export_refused(atp_repo_export_begin(&a, job->did), commit, job->force, true, why);

	/*
	 * the repository's row is locked: an #account that makes the account active is either seen
	 * here, or finds the job suspended and resumes the job
	 */
	if (refusal == ATP_REFUSED_INACTIVE)
		atp_jobs_suspend(job->target, &job->did, 1);
	return refusal;
}

bool
atp_repo_job_inactive(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set,
					  const char *status, const char *host)
{
	AtpApply	a = {.sub = sub, .sink = &atp_repos_sink, .statements = set};
	AtpRepoExport *repo;
	const char *why;
	bool		active;

	if (is_blocked(job, &why))
		return true;
	repo = atp_repo_export_begin(&a, job->did);
	active = atp_repo_export_inactive(repo, &job->account, status, host);

	atp_repo_export_release(repo, 0);
	if (!active)
		atp_jobs_suspend(job->target, &job->did, 1);
	return !active;
}

AtpRefusal
atp_repo_job_begin(AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set,
				   const char *host, const char **why)
{
	AtpApply	a = {.sub = sub, .sink = &atp_repos_sink, .statements = set};
	AtpRepoExport *repo;
	AtpRefusal	refusal;
	AtpCaller	caller;
	uint64		begun;

	if (is_blocked(job, why))
		return ATP_REFUSED_REMOVED;
	repo = atp_repo_export_begin(&a, job->did);
	refusal = atp_repo_export_refused(repo, NULL, false, false, why);

	if (refusal == ATP_REFUSED_INACTIVE)
		atp_jobs_suspend(job->target, &job->did, 1);
	if (refusal != ATP_REFUSED_NOT)
		return refusal;
	job->account = atp_repo_export_account(repo);
	atp_repo_export_hold(repo);
	caller = atp_as_table_owner("repo_job");
	begun = atp_run(atp_identity_sql("UPDATE atproto.repo_job SET state = 'running', host = $3, doubted = NULL, doubted_at = NULL" OF_FREE_JOB),
					ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did), atp_text_arg(host)));
	atp_owner_end(caller);
	job->locked = begun == 0;
	if (job->locked)
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE), errmsg("a session has locked its job, or removed it")));
	return ATP_REFUSED_NOT;
}

void
atp_repo_job_release(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set, uint64 rev)
{
	AtpApply	a = {.sub = sub, .sink = &atp_repos_sink, .statements = set};

	atp_repo_export_release(atp_repo_export_begin(&a, job->did), rev);
}

/* P-61: what a try has learned about parts stays. */
#define WHOLE(parameter)	"whole = whole OR " parameter " = 1"

static void
put_off(const AtpRepoJob *job, const char *until, const char *error)
{
	atp_run(atp_identity_sql(psprintf("UPDATE atproto.repo_job SET state = 'queued', error = $3, " WHOLE("$4") ", %s" OF_FREE_JOB, until)),
			ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did), atp_text_arg(error), atp_int4_arg(job->whole)));
}

void
atp_repo_job_failed(const AtpRepoJob *job, const char *error, AtpRepoFault fault)
{
	char	   *text = pnstrdup(error, pg_mbcliplen(error, strlen(error), ERROR_MAX));

	switch (fault)
	{
		case ATP_REPO_FAULT:
			atp_run(atp_identity_sql("UPDATE atproto.repo_job SET state = 'queued', error = $3, " WHOLE("$5") ", doubted = NULL, doubted_at = NULL, tries = tries + 1, put_off = 0, next_try = now()"
									 " + " BACK_OFF("$4 * interval '1 s'") OF_FREE_JOB),
					ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did), atp_text_arg(text), atp_int4_arg(atp_fetch_retry_s), atp_int4_arg(job->whole)));
			break;
		case ATP_REPO_LATER:
			put_off(job, PUT_OFF(LATER_MOST), text);
			break;
		case ATP_REPO_WAITS:
			put_off(job, PUT_OFF(WAITS_MOST), text);
			break;
		case ATP_REPO_DOUBTED:
			atp_identity_requests_add(&job->did, 1, true, ATP_REQUEST_HELD, job->owner, false);
			atp_run(atp_identity_sql("UPDATE atproto.repo_job SET state = 'queued', error = $3, " WHOLE("$5") ", next_try = now(), doubted_at = $4,"
									 " doubted = COALESCE((SELECT " KNOWN " FROM atproto.identity i WHERE i.did OPERATOR(@.=) $2), '')" OF_FREE_JOB),
					ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did), atp_text_arg(text), atp_time_arg(atp_time_of_day()), atp_int4_arg(job->whole)));
			break;
		case ATP_REPO_NOTED:
			break;
	}
}

/* count the export in atproto.repo_total. */
static void
count_fetched(const AtpRepoJob *job, int64 records, int64 bytes)
{
	AtpArg		args[] = {atp_text_arg(job->subscription), atp_int8_arg(records), atp_int8_arg(bytes)};

	if (atp_run("UPDATE atproto.repo_total SET repositories = repositories + 1, records = records + $2, bytes = bytes + $3,"
				" rate = atproto_internal.rate_now(rate, fetched_at) + 1 / 60.0, fetched_at = now() WHERE subscription = $1",
				args, lengthof(args)) == 0)
		/*
		 * a session that removes the subscription waits for the job row deleted above: waiting for
		 * that session would be a deadlock
		 */
		atp_run("INSERT INTO atproto.repo_total SELECT name, 1, $2, $3, 1 / 60.0, now() FROM atproto.subscription"
				" WHERE name = $1 FOR KEY SHARE SKIP LOCKED", args, lengthof(args));
}

void
atp_repo_job_done(const AtpRepoJob *job, int64 records, int64 bytes)
{
	atp_run(atp_identity_sql("DELETE FROM atproto.repo_job" OF_FREE_JOB),
			ATP_ARGS(atp_text_arg(job->target), atp_did_arg(job->did)));
	count_fetched(job, records, bytes);
}
