/*
 * repo.c
 *		The errand that fetches repositories: jobs become requests,
 *		as their hosts and memory allow, and transfers (repo_transfer.c) have their
 *		turns.
 */
#include "postgres.h"

#include "config/transaction.h"
#include "fetch/bounded.h"
#include "fetch/errand.h"
#include "fetch/fetch.h"
#include "fetch/repo_limits.h"
#include "fetch/repo_transfer.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define LOOK_MS			1000	/* so long between two looks */
#define TRANSFERS_MAX	32		/* at a time */
#define DUE_MAX			64		/* jobs that are looked at */
#define FORGET_MS		(60 * 60 * 1000)	/* ... of what limits go by */
#define WHOLE_MS		(60 * 60 * 1000)	/* */
#define SLOW_BYTES		1024
#define SLOW_S			30
#define REDIRECTS		3		/* W-53 */
#define TRANSFER_BYTES	(4 * 1024 * 1024)	/* what one may come to need */

static int	fetch_memory_kb;

static dlist_head transfers = DLIST_STATIC_INIT(transfers);
static AtpTime looked;
static AtpTime forgot;
static AtpTime looked_for_ends;

void
atp_repo_errand_init(void)
{
	DefineCustomIntVariable("atproto.fetch_memory",
							"Memory for the repositories that are being fetched.",
							"One is always fetched; the rest goes through temporary files.", &fetch_memory_kb, 64 * 1024, 1024, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
}

/* ------------------------------------------------------------------------
 * Beginning
 * ------------------------------------------------------------------------
 */
static bool
is_running(const AtpRepoJob *job)
{
	dlist_iter	iter;

	dlist_foreach(iter, &transfers)
	{
		AtpTransfer   *t = dlist_container(AtpTransfer, node, iter.cur);

		if (strcmp(t->job.target, job->target) == 0 && strcmp(t->job.did_text, job->did_text) == 0)
			return true;
	}
	return false;
}

/* */
static bool
has_room(void)
{
	Size		bytes = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &transfers)
	{
		AtpTransfer   *t = dlist_container(AtpTransfer, node, iter.cur);

		bytes += Max(atp_export_memory(t->export), TRANSFER_BYTES / 8);
	}
	return atp_transfers == 0 || (atp_transfers < TRANSFERS_MAX && bytes + TRANSFER_BYTES <= (Size) fetch_memory_kb * 1024);
}

static AtpTransfer *
make_transfer(const AtpRepoJob *job, AtpHttp *http)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto fetch", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AtpTransfer   *t = palloc0(sizeof(AtpTransfer));

	t->cxt = cxt;
	t->http = http;
	t->job = *job;
	t->job.target = pstrdup(job->target);
	t->job.did_text = pstrdup(job->did_text);
	t->job.subscription = pstrdup(job->subscription);
	t->job.did = (struct varlena *) PG_DETOAST_DATUM_COPY(PointerGetDatum(job->did));
	t->export = atp_export_create(cxt, (AtpSpan) {t->job.did_text, strlen(t->job.did_text)}, true);
	MemoryContextSwitchTo(old);
	dlist_push_tail(&transfers, &t->node);
	atp_transfers++;
	return t;
}

/* What it is for begins, or not. */
typedef struct Beginning
{
	AtpTransfer   *t;
	const char *host;
	MemoryContext cxt;
	AtpRepoFault fault;
	char	   *why;			/* NULL: it has begun */
} Beginning;

/* In the owner's tables. */
static void
hold_events(void *arg)
{
	Beginning  *b = arg;
	const char *why;
	AtpRefusal	refusal = atp_repo_job_begin(&b->t->job, b->t->sub, b->t->statements, b->host, &why);

	if (refusal == ATP_REFUSED_NOT)
		return;
	b->fault = refusal == ATP_REFUSED_INACTIVE ? ATP_REPO_NOTED : ATP_REPO_LATER;
	b->why = MemoryContextStrdup(b->cxt, why);
}

/* False: the job goes on waiting, or is put off. */
static bool
begin_transfer(AtpTransfer *t, const char *host)
{
	Beginning	b = {t, host, CurrentMemoryContext, ATP_REPO_FAULT, NULL};

	atp_begin("reading the subscription of a repository");
	t->sub = atp_subscription_get(t->job.subscription, t->cxt);
	atp_commit();
	if (t->sub == NULL || !OidIsValid(t->sub->owner))
		b.why = pstrdup("its subscription has no owner");
	else
	{
		t->statements = atp_statements_create(t->job.target);
		(void) atp_bounded(t->sub->owner, "beginning to fetch a repository", ATP_TRANSFER_MS, hold_events, &b, &b.why);
	}
	if (b.why == NULL)
		return true;
	atp_begin("putting off a repository");
	atp_repo_job_failed(&t->job, b.why, b.fault);
	atp_commit();
	return false;
}

static char *
url_of(const AtpRepoJob *job)
{
	StringInfoData url;

	initStringInfo(&url);
	appendStringInfo(&url, "%s/xrpc/com.atproto.sync.getRepo?did=", job->server);
	atp_fetch_append_escaped(&url, job->did_text);
	return url.data;
}

/* The request is made, but not sent before the repository's state is committed.  False: nobody may ask there now. */
static bool
start(const AtpRepoJob *job, const char *host, long *wait_ms)
{
	AtpHttp    *http = atp_fetch_start(&(AtpHttpRequest) {
									   .owner = &transfers, .url = url_of(job),
									   .accept = "application/vnd.ipld.car", .redirects = REDIRECTS, .whole_ms = WHOLE_MS, .gzip = true, .stream = true,
									   .body_max = (int64) atp_max_repo_kb * 1024, .slow_bytes = SLOW_BYTES, .slow_s = SLOW_S
									   }, NULL, wait_ms);
	AtpTransfer   *t;

	if (http == NULL)
		return false;
	t = make_transfer(job, http);
	t->began = begin_transfer(t, host);
	if (!t->began)
		atp_transfer_free(t);
	return true;
}

/* Somebody else has to do something before it can be fetched: in a transaction of its own, for consumers have rows of jobs in another order. */
static void
put_off(const AtpRepoJob *job)
{
	atp_begin("putting off a repository");
	if (job->too_often)
		atp_repo_throttle(job);
	else if (job->asks)
		atp_repo_job_asks(job);
	else
		atp_repo_job_failed(job, job->problem, ATP_REPO_FAULT);
	atp_commit();
}

/* Jobs whose hosts may be asked, the most urgent first. */
static long
look(void)
{
	char	   *busy[DUE_MAX];
	int			nbusy = 0;
	bool		again;
	bool		storm;
	long		timeout = LOOK_MS;

	atp_begin("looking for repositories that may be fetched again");
	storm = atp_repo_storm();
	atp_repos_unthrottle();
	atp_commit();
	do
	{
		List	   *jobs;
		ListCell   *cell;
		MemoryContext cxt = CurrentMemoryContext;

		again = false;
		atp_begin("looking for repositories to fetch");
		MemoryContextSwitchTo(cxt);
		jobs = atp_repo_jobs_due(storm, busy, nbusy, DUE_MAX);
		atp_commit();
		foreach(cell, jobs)
		{
			AtpRepoJob *job = lfirst(cell);
			char	   *host;
			long		wait_ms = -1;
			bool		is_busy = false;

			if (job->too_often || job->asks || job->problem != NULL)
			{
				put_off(job);
				continue;
			}
			if (is_running(job) || !has_room())
				continue;
			host = atp_http_host_of(job->server);
			for (int i = 0; host != NULL && i < nbusy; i++)
				is_busy |= strcmp(busy[i], host) == 0;
			if (!is_busy && start(job, host, &wait_ms))
				continue;
			/* others, of other hosts, may be behind it */
			atp_begin("putting off a repository");
			atp_repo_job_waits(job, host);
			atp_commit();
			again = true;
			if (!is_busy && nbusy < DUE_MAX)
				busy[nbusy++] = host;
			if (wait_ms >= 0)
				timeout = Min(timeout, wait_ms);
		}
		again = again && list_length(jobs) == DUE_MAX && nbusy < DUE_MAX;
	} while (again && has_room());
	return timeout;
}

/* ------------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------------
 */

static void
begin(void)
{
	atp_begin("looking for repositories that were being fetched");
	atp_repo_jobs_reset();
	atp_commit();
}

/* whose jobs were suspended or removed meanwhile. */
static void
cancel_some(void)
{
	dlist_mutable_iter iter;
	AtpTransfer   *gone[TRANSFERS_MAX];
	int			ngone = 0;

	atp_begin("looking for repositories that are not to be fetched any more");
	dlist_foreach_modify(iter, &transfers)
	{
		AtpTransfer   *t = dlist_container(AtpTransfer, node, iter.cur);

		if (!atp_repo_job_is_running(&t->job))
			gone[ngone++] = t;
	}
	atp_commit();
	for (int i = 0; i < ngone; i++)
		atp_transfer_cancel(gone[i]);
}

static long
step(AtpTime now)
{
	MemoryContext cxt = CurrentMemoryContext;
	dlist_mutable_iter iter;
	bool		more = false;
	long		timeout = -1;
	AtpHttp    *http;

	while ((http = atp_fetch_next(&transfers)) != NULL)
		dlist_foreach_modify(iter, &transfers)
		{
			AtpTransfer   *t = dlist_container(AtpTransfer, node, iter.cur);

			if (t->http == http)
				t->ended = true;
		}
	dlist_foreach_modify(iter, &transfers)
	{
		AtpTransfer   *t = dlist_container(AtpTransfer, node, iter.cur);

		more |= atp_transfer_move_on(t);
		MemoryContextSwitchTo(cxt);
		CHECK_FOR_INTERRUPTS();
		atp_http_pump();
	}
	if (atp_transfers > 0 && atp_remaining(now, looked_for_ends, LOOK_MS) == 0)
	{
		looked_for_ends = now;
		cancel_some();
	}
	if (atp_remaining(now, forgot, FORGET_MS) == 0)
	{
		forgot = now;
		atp_begin("forgetting repositories that were fetched");
		atp_repos_forget_fetched();
		atp_commit();
	}
	if (has_room() && atp_remaining(now, looked, LOOK_MS) == 0)
	{
		looked = now;
		timeout = look();
	}
	return more ? 0 : timeout >= 0 ? timeout : atp_remaining(now, looked, LOOK_MS);
}

const AtpErrand atp_repo_errand = {.name = "repo", .wanted = atp_repo_jobs_wanted, .begin = begin, .step = step};
