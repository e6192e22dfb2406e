/*
 * task_repo.c
 *		The errand that fetches repositories: jobs become requests,
 *		as their hosts and memory allow, and transfers (repo_transfer.c) have their
 *		turns.
 */
#include "postgres.h"

#include "config/transaction.h"
#include "fetch/engine/run_as_owner.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "fetch/engine/owner_backoff.h"
#include "fetch/repositories/repo_limits.h"
#include "fetch/repositories/repo_statements.h"
#include "fetch/repositories/repo_transfer.h"
#include "miscadmin.h"
#include "tables/base/job.h"
#include "utils/memutils.h"

#define LOOK_MS			1000	/* so long between two looks, unless a transfer ended */
#define LOOK_LEAST_MS	20		/* ... or this, and so many times as long as finding jobs took */
#define LOOK_SHARE		3
#define PREPARE_MS		500		/* jobs that are new are looked for so often: what breaks is to heal within a second */
#define TRANSFERS_MAX	32		/* at a time */
#define DUE_MAX			64		/* jobs that are looked at */
#define BUSY_MAX		64		/* hosts */
#define PLACED_MAX		1000	/* jobs, of which it is found out who is to be asked */
#define FORGET_MS		(60 * 60 * 1000)	/* ... of what limits go by */
#define WHOLE_MS		(60 * 60 * 1000)	/* */
#define SLOW_BYTES		1024
#define SLOW_S			30
#define REDIRECTS		3		/* W-53 */
#define TRANSFER_BYTES	(4 * 1024 * 1024)	/* what one may come to need, without its index */
#define INDEX_BYTES		(1024 * 1024)	/* an index that is larger may have to wait */
#define HURRY_MS		30000	/* so long has who is waited for, ... */
#define HURRY_BYTES		(1024 * 1024)	/* ... for so much more of the export */

static dlist_head transfers = DLIST_STATIC_INIT(transfers);
static AtpTime prepared;
static AtpTime forgot;
static AtpTime looked_for_ends;

/* The next look at jobs: soon when there is news, later at any rate. */
static AtpTime looked;			/* it was over */
static long look_least_ms;
static long look_most_ms;
static int	news;				/* transfers that have ended since, and jobs that have come */

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

/* Those that are still read may come to need all. */
static bool
has_room(void)
{
	Size		bytes = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &transfers)
	{
		AtpTransfer   *t = dlist_container(AtpTransfer, node, iter.cur);

		bytes += t->phase == ATP_TRANSFER_READING ? TRANSFER_BYTES : atp_export_memory(t->export);
	}
	return atp_fetch_has_place(&transfers) &&
		(atp_transfers == 0 || (atp_transfers < TRANSFERS_MAX && bytes + TRANSFER_BYTES <= (Size) atp_fetch_memory_kb * 1024));
}

/*
 * Indexes grow with what strangers send: those that are large may together have as much as is
 * for the rest.  Where they have more, one at a time is read on.
 */
static AtpTransfer *
first_large(Size *bytes)
{
	AtpTransfer *first = NULL;
	dlist_iter	iter;

	*bytes = 0;
	dlist_foreach(iter, &transfers)
	{
		AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);
		Size		index = atp_export_index(t->export);

		if (first == NULL && index >= INDEX_BYTES)
			first = t;
		*bytes += index;
	}
	return first;
}

static bool
waits_for_memory(const AtpTransfer *t)
{
	Size		bytes;

	return t->phase == ATP_TRANSFER_READING && atp_export_index(t->export) >= INDEX_BYTES &&
		first_large(&bytes) != t && bytes > (Size) atp_fetch_memory_kb * 1024;
}

/* Who is waited for has to get on: his server decides how fast its bytes come, and might let the others wait for an hour. */
static void
end_idle(AtpTime now)
{
	Size		bytes;
	AtpTransfer *first = first_large(&bytes);
	bool		waited_for = false;
	dlist_iter	iter;

	dlist_foreach(iter, &transfers)
	{
		AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);

		if (waits_for_memory(t))
			waited_for = true;
		if (t != first)
			t->waited_for = false;
	}
	if (first == NULL)
		return;
	waited_for &= first->phase == ATP_TRANSFER_READING;
	if (waited_for && first->waited_for && atp_remaining(now, first->waited_since, HURRY_MS) > 0)
		return;
	if (waited_for && first->waited_for && first->bytes - first->waited_bytes < HURRY_BYTES)
	{
		atp_transfer_give_up(first, "the export came too slowly, while others waited for the memory that it has");
		return;
	}
	first->waited_for = waited_for;
	first->waited_since = now;
	first->waited_bytes = first->bytes;
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
		t->statements = atp_repo_statements_get(t->job.target, t->sub->owner);
		(void) atp_transfer_act(t, "beginning to fetch a repository", hold_events, &b, &b.why);
		if (t->job.locked)
			atp_owner_kept_waiting(t->sub->owner);
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
									   /* what is larger the export refuses, and says by which limit */
									   .body_max = (int64) atp_max_repo_kb * 1024 + 1, .slow_bytes = SLOW_BYTES, .slow_s = SLOW_S
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
		atp_repo_job_moves(job, NULL);
	else
		atp_repo_job_failed(job, job->problem, ATP_REPO_FAULT);
	atp_commit();
}

/* Jobs whose end could not be written. */
static void
reset_some(void)
{
	const AtpRepoJob *running[TRANSFERS_MAX];
	dlist_iter	iter;
	int			n = 0;

	dlist_foreach(iter, &transfers)
		running[n++] = &dlist_container(AtpTransfer, node, iter.cur)->job;
	atp_repo_jobs_reset(running, n, "its job was locked when fetching it ended");
}

/* Once in a while: what jobs wait for is begun, or over. */
static void
prepare(void)
{
	MemoryContext cxt = CurrentMemoryContext;
	List	   *problems;
	ListCell   *cell;
	int			placed;

	atp_begin("looking for repositories that may be fetched");
	MemoryContextSwitchTo(cxt);
	atp_repo_storms();
	atp_repos_unthrottle();
	atp_jobs_take_from_unentitled();
	reset_some();
	problems = atp_repo_jobs_place(PLACED_MAX, &placed);
	atp_commit();
	foreach(cell, problems)
		put_off(lfirst(cell));
	news += placed;
}

/* Is it begun?  If not, *waits says whether that is its host's doing. */
static bool
try_start(const AtpRepoJob *job, const char *host, long *wait_ms, bool *waits)
{
	*waits = false;
	if (job->too_often || job->asks || job->problem != NULL)
		put_off(job);
	else if (!is_running(job) && has_room())
	{
		if (start(job, host, wait_ms))
			return true;
		*waits = true;
		if (host != NULL && strcmp(job->host, host) != 0)
		{
			atp_begin("putting off a repository");
			atp_repo_job_moves(job, host);
			atp_commit();
		}
	}
	return false;
}

/* Jobs whose hosts may be asked, the most urgent first.  Returns ms until there may be more of them; *us: what finding them took. */
static long
look(int64 *us)
{
	char	   *busy[BUSY_MAX];
	int			nbusy = 0;
	bool		again;
	long		timeout = LOOK_MS;

	do
	{
		List	   *jobs;
		ListCell   *cell;
		MemoryContext cxt = CurrentMemoryContext;
		AtpTime		began = atp_now();
		Oid			resting[ATP_IMPATIENT_MAX];
		int			nresting = atp_owners_resting(resting);

		again = false;
		atp_begin("looking for repositories to fetch");
		MemoryContextSwitchTo(cxt);
		jobs = atp_repo_jobs_due(busy, nbusy, resting, nresting, DUE_MAX);
		atp_commit();
		*us += atp_now() - began;
		foreach(cell, jobs)
		{
			const AtpRepoJob *job = lfirst(cell);
			char	   *host = job->server != NULL ? atp_http_host_of(job->server) : NULL;
			long		wait_ms = -1;
			bool		waits = false;

			/* since he was looked for: who locks one row of his may have locked all */
			if (atp_owner_rests(job->owner) > 0)
			{
				again = true;
				continue;
			}
			for (int i = 0; host != NULL && i < nbusy; i++)
				waits |= strcmp(busy[i], host) == 0;
			/* others, of other hosts, may be behind it */
			again |= waits;
			if (waits || try_start(job, host, &wait_ms, &waits) || !waits)
				continue;
			again = true;
			if (nbusy < BUSY_MAX)
				busy[nbusy++] = host;
			if (wait_ms >= 0)
				timeout = Min(timeout, wait_ms);
		}
		again = again && list_length(jobs) == DUE_MAX && nbusy < BUSY_MAX;
	} while (again && has_room());
	return timeout;
}

/* The same, unless the last one was just now. */
static long
look_if_due(void)
{
	long		wait_ms = atp_remaining(atp_now(), looked, news > 0 ? look_least_ms : look_most_ms);
	int64		us = 0;

	if (wait_ms > 0)
		return wait_ms;
	news = 0;
	look_most_ms = look(&us);
	looked = atp_now();
	look_least_ms = Min(Max(LOOK_LEAST_MS, LOOK_SHARE * us / 1000), LOOK_MS);
	return look_most_ms;
}

/* ------------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------------
 */

static void
begin(void)
{
	atp_begin("looking for repositories that were being fetched");
	atp_repo_jobs_reset(NULL, 0, "the fetcher ended while the repository was being fetched");
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
		if (atp_owner_rests(gone[i]->sub->owner) == 0)
			atp_transfer_cancel(gone[i]);
}

static long
step(AtpTime now)
{
	MemoryContext cxt = CurrentMemoryContext;
	dlist_mutable_iter iter;
	int			before = atp_transfers;
	bool		more = false;
	long		timeout = LOOK_MS;
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
		long		rests = Max(atp_transfer_rests(t, now), atp_owner_rests(t->sub->owner));

		if (rests > 0)
			timeout = Min(timeout, rests);
		if (rests > 0 || waits_for_memory(t))
			continue;
		more |= atp_transfer_move_on(t);
		MemoryContextSwitchTo(cxt);
		CHECK_FOR_INTERRUPTS();
		atp_http_pump();
	}
	if (atp_transfers > 0 && atp_remaining(now, looked_for_ends, LOOK_MS) == 0)
	{
		looked_for_ends = now;
		cancel_some();
		end_idle(now);
	}
	news += before - atp_transfers;
	if (atp_remaining(now, forgot, FORGET_MS) == 0)
	{
		forgot = now;
		atp_begin("forgetting repositories that were fetched");
		atp_repos_forget_fetched();
		atp_commit();
	}
	if (atp_remaining(now, prepared, PREPARE_MS) == 0)
	{
		prepared = now;
		prepare();
	}
	if (has_room())
		timeout = Min(timeout, look_if_due());
	return more ? 0 : Min(timeout, atp_remaining(now, prepared, PREPARE_MS));
}

const AtpErrand atp_repo_errand = {.name = "repo", .wanted = atp_repo_jobs_wanted, .begin = begin, .step = step};
