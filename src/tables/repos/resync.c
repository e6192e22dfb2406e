/*
 * resync.c
 *		Schedule fetches of repositories that differ from the network.
 *
 * Jobs change in the transaction of the events, so a crash cannot lose a fetch.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "config/spi.h"
#include "config/wake.h"
#include "executor/spi.h"
#include "identity/identity.h"
#include "tables/repos/resync.h"
#include "tables/repos/held.h"
#include "tables/repos/hold.h"
#include "tables/base/job.h"
#include "tables/repos/repo.h"
#include "types/types.h"

/* Repositories examined by a call of atp_resync_end_abandoned(). */
#define LOOK_MAX	"1000"

enum
{
	FETCHED_REPOS,				/* -> did */
	LOCK_FETCHED				/* did[] */
};

static const AtpStatement statements[] = {
	[FETCHED_REPOS] = {
		"SELECT did FROM #.repo WHERE hold = " ATP_SQL_RESYNC " ORDER BY did LIMIT " LOOK_MAX,
		SPI_OK_SELECT, {0}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW
	},
	[LOCK_FETCHED] = {
		"SELECT did FROM #.repo WHERE did OPERATOR(@.=) ANY ($1) AND hold = " ATP_SQL_RESYNC " ORDER BY did FOR NO KEY UPDATE",
		SPI_OK_SELECT, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table, ATP_PLANNED_ANEW,
		&(const AtpStatement) {
			"UPDATE #.repo SET hold = hold WHERE did OPERATOR(@.=) ANY ($1) AND hold = " ATP_SQL_RESYNC " RETURNING did",
			SPI_OK_UPDATE_RETURNING, {ATP_ARRAY(ATP_TYPE_DID)}, {ATP_TYPE_DID}, &atp_repo_table
		}
	},
};

/* ------------------------------------------------------------------------
 * Fetches demanded by events
 * ------------------------------------------------------------------------
 */
static const struct
{
	AtpJobPriority priority;
	const char *name;
}			reasons[] = {
	[ATP_FETCH_BREAK] = {ATP_JOB_BREAK, "break"},
	[ATP_FETCH_MISMATCH] = {ATP_JOB_BREAK, "mismatch"},
	[ATP_FETCH_SYNC] = {ATP_JOB_BREAK, "sync"},
	[ATP_FETCH_FORK] = {ATP_JOB_BREAK, "fork"},
	[ATP_FETCH_SEEN] = {ATP_JOB_SEEN, "seen"},
	[ATP_FETCH_MISSED] = {ATP_JOB_BREAK, "active"},
};

static int
compare_events(const void *x, const void *y)
{
	const AtpEvent *a = *(AtpEvent *const *) x;
	const AtpEvent *b = *(AtpEvent *const *) y;
	int			cmp = atp_compare_dids(a->did, b->did);

	return cmp != 0 ? cmp : a < b ? -1 : a > b;
}

/*
 * The result of all events of one repository, which are in their order.  Returns the most urgent reason for a fetch
 * since the last deletion.  *account: active or inactive, as the last #account event says; *deleted: an event
 * deleted the account.
 */
static AtpFetchWhy
fold_events(AtpEvent *const *events, int n, bool *deleted, AtpFetchWhy *account)
{
	AtpFetchWhy why = ATP_FETCH_NOT;

	*deleted = false;
	*account = ATP_FETCH_NOT;
	for (int i = 0; i < n; i++)
		switch (events[i]->effects.fetch)
		{
			case ATP_FETCH_DELETED:
				*deleted = true;
				why = *account = ATP_FETCH_NOT;
				break;
			case ATP_FETCH_ACTIVE:
			case ATP_FETCH_INACTIVE:
				*account = events[i]->effects.fetch;
				break;
			default:
				if (events[i]->effects.fetch == ATP_FETCH_MISSED)
					*account = ATP_FETCH_ACTIVE;
				if (why == ATP_FETCH_NOT || reasons[events[i]->effects.fetch].priority < reasons[why].priority)
					why = events[i]->effects.fetch;
		}
	return why;
}

void
atp_resync_after_apply(AtpApply *a)
{
	const char *target = atp_target(a->statements);
	AtpEvent  **events = palloc(sizeof(AtpEvent *) * Max(a->hi - a->lo, 1));
	int			n = 0;
	AtpJobRequest *requests;
	struct varlena **deleted;
	struct varlena **active;
	struct varlena **inactive;
	int			nrequests = 0;
	int			ndeleted = 0;
	int			nactive = 0;
	int			ninactive = 0;

	for (int i = a->lo; i < a->hi; i++)
		if (!a->batch->events[i].ignored && a->batch->events[i].effects.fetch != ATP_FETCH_NOT)
			events[n++] = &a->batch->events[i];
	if (n == 0)
		return;
	qsort(events, n, sizeof(AtpEvent *), compare_events);
	requests = palloc(sizeof(AtpJobRequest) * n);
	deleted = palloc(sizeof(struct varlena *) * n);
	active = palloc(sizeof(struct varlena *) * n);
	inactive = palloc(sizeof(struct varlena *) * n);
	for (int i = 0, end; i < n; i = end)
	{
		AtpFetchWhy why;
		AtpFetchWhy account;
		bool		is_deleted;

		for (end = i; end < n && atp_compare_dids(events[end]->did, events[i]->did) == 0; end++)
			;
		why = fold_events(&events[i], end - i, &is_deleted, &account);
		if (is_deleted)
			deleted[ndeleted++] = events[i]->did;
		if (account == ATP_FETCH_ACTIVE)
			active[nactive++] = events[i]->did;
		else if (account == ATP_FETCH_INACTIVE)
			inactive[ninactive++] = events[i]->did;
		if (why != ATP_FETCH_NOT)
			requests[nrequests++] = (AtpJobRequest) {
				.did = events[i]->did, .priority = reasons[why].priority, .reason = reasons[why].name
			};
	}
	atp_jobs_remove(target, deleted, ndeleted);
	atp_jobs_resume(target, active, nactive);
	if (atp_jobs_request(target, a->sub->name, requests, nrequests) > 0)
		atp_wake_fetcher();
	atp_jobs_suspend(target, inactive, ninactive);
}

/* ------------------------------------------------------------------------
 * Repositories waiting for a fetch that does not run
 * ------------------------------------------------------------------------
 */

/* The DIDs returned by the last statement, sorted: Citus returns the rows of an UPDATE in any order. */
static int
take_dids(uint64 n, struct varlena ***dids)
{
	*dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	return atp_sort_dids(*dids, atp_take_dids(*dids, n));
}

static Datum
did_array(AtpApply *a, struct varlena **dids, int n)
{
	return atp_array(a->statements, ATP_TYPE_DID, (Datum *) dids, NULL, n);
}

/*
 * Keep the DIDs without a running job; returns the number kept.  A job that is not running has no fetch to end: if the
 * fetcher has ended, the job is queued again, or an #account event has suspended it, for as long as the account likes.
 */
static int
without_running(const AtpApply *a, struct varlena **dids, int n)
{
	AtpCaller	caller = atp_as_table_owner("repo_job");
	AtpResult	found = atp_query(atp_identity_sql("SELECT n::integer FROM unnest($2) WITH ORDINALITY u (did, n) WHERE NOT EXISTS"
												   " (SELECT FROM atproto.repo_job j JOIN atproto.subscription s ON s.name = j.subscription AND s.backfill <> 'none'"
												   "  WHERE j.target = $1::name AND j.did OPERATOR(@.=) u.did AND j.state = 'running')"
												   " ORDER BY n"),
								  ATP_ARGS(atp_text_arg(atp_target(a->statements)), atp_dids_arg(dids, n)));
	int			left = (int) found.n;

	atp_owner_end(caller);
	for (int i = 0; i < left; i++)
		dids[i] = dids[atp_get_int4(atp_result_row(found, i), "n") - 1];
	atp_result_free(found);
	return left;
}

void
atp_resync_end_abandoned(AtpApply *a)
{
	struct varlena **dids;
	int			n = take_dids(atp_execute(a->statements, &statements[FETCHED_REPOS], NULL, NULL), &dids);
	Datum		arg;

	if (n == 0 || (n = without_running(a, dids, n)) == 0)
		return;
	/*
	 * A process that begins a fetch locks the repository's row, and sets its job to running in the same transaction.  So
	 * the job is visible after this lock, and the second look finds every fetch that began since the first look.  A
	 * transfer whose job does not run any more writes nothing (atp_repo_job_lock()).
	 */
	arg = did_array(a, dids, n);
	n = take_dids(atp_execute(a->statements, &statements[LOCK_FETCHED], &arg, NULL), &dids);
	if (n == 0 || (n = without_running(a, dids, n)) == 0)
		return;
	atp_repos_give_up(a, dids, n);
	atp_held_release(dids, n);
}
