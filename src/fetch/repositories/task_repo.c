/*
 * task_repo.c
 *		The fetcher's task that fetches repositories: starts transfers for jobs,
 *		as far as hosts and memory allow, and lets the transfers (repo_transfer.c) take turns.
 */
#include "postgres.h"

#include "config/free_disk.h"
#include "config/transaction.h"
#include "fetch/engine/run_as_owner.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "fetch/engine/owner_backoff.h"
#include "fetch/repositories/repo_limits.h"
#include "fetch/repositories/repo_parts.h"
#include "fetch/repositories/repo_request.h"
#include "fetch/repositories/repo_statements.h"
#include "fetch/repositories/repo_transfer.h"
#include "miscadmin.h"
#include "tables/base/job.h"
#include "utils/memutils.h"

#define LOOK_MS			1000	/* between two looks for jobs, if no transfer ended */
#define LOOK_LEAST_MS	20		/* ... after a transfer ended, or LOOK_SHARE times the duration of
								 * the last query */
#define LOOK_SHARE		3
#define PREPARE_MS		500		/* between two looks for new jobs: a broken repository is to be
								 * fetched within a second */
#define TRANSFERS_MAX	32		/* transfers at a time */
#define SHARE			3		/* most transfers of a role, for each place that is left to other roles */
#define DUE_MAX			64		/* jobs read in a look */
#define BUSY_MAX		64		/* hosts remembered as busy in a look */
#define PLACED_MAX		1000	/* new jobs whose server is determined at a time */
#define FORGET_MS		(60 * 60 * 1000)	/* between two deletions of old rows of
											 * atproto.repo_fetched */
#define TRANSFER_BYTES	(4 * 1024 * 1024)	/* memory reserved for a transfer, without its index */
#define INDEX_BYTES		(1024 * 1024)	/* a transfer with a larger index may have to wait for
										 * memory */
#define HURRY_MS		30000	/* while transfers wait for its memory, a transfer must receive
								 * within this time ... */
#define HURRY_BYTES		(1024 * 1024)	/* ... so many bytes of its export */
#define SLOW_MS			(5 * 60 * 1000)	/* while no place is free, a transfer must receive within this
										 * time ... */
#define SLOW_BYTES		(1024 * 1024)	/* ... so many bytes */

static dlist_head transfers = DLIST_STATIC_INIT(transfers);
static AtpTime prepared;
static AtpTime forgot;
static AtpTime looked_for_ends;
static bool several_owners;		/* have several roles subscriptions that fetch repositories? */

/* When the next look comes: soon if there is news, later otherwise. */
static AtpTime looked;			/* end of the last look */
static long look_least_ms;
static long look_most_ms;
static int	news;				/* transfers that have ended and jobs that have come since */

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
		AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);

		if (strcmp(t->job.target, job->target) == 0 && strcmp(t->job.did_text, job->did_text) == 0)
			return true;
	}
	return false;
}

static bool
has_request(const AtpTransfer *t)
{
	return t->parts != NULL ? atp_sparse_fetch_running(t->parts) > 0 : t->http != NULL;
}

/*
 * how many more transfers have room?  A transfer that is still being read may come to need its whole reserve of
 * memory.  Where nothing is transferred, there is always room for one.
 */
static int
free_places(void)
{
	int64		bytes = 0;
	int			by_memory;
	int			kept = 0;
	dlist_iter	iter;

	dlist_foreach(iter, &transfers)
	{
		AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);

		bytes += t->phase == ATP_TRANSFER_READING ? TRANSFER_BYTES : atp_export_memory(t->export);
		/* between two requests, a transfer keeps the place of the next one */
		kept += t->phase == ATP_TRANSFER_READING && !has_request(t);
	}
	by_memory = Max((int64) atp_fetch_memory_kb * 1024 - bytes, 0) / TRANSFER_BYTES;
	return Min(Min(Max(by_memory, atp_transfers == 0), TRANSFERS_MAX - atp_transfers), atp_fetch_free_places(&transfers) - kept);
}

static bool
has_room(void)
{
	return free_places() > 0;
}

static int
count_transfers(Oid owner)
{
	dlist_iter	iter;
	int			n = 0;

	dlist_foreach(iter, &transfers)
		n += dlist_container(AtpTransfer, node, iter.cur)->job.owner == owner;
	return n;
}

/*
 * May a transfer for this owner start?  The hosts of a role can be so slow that its transfers last an hour.  So where
 * several roles fetch, a role may have at most SHARE times as many transfers as places that are left to the other roles.
 */
static bool
has_room_for(Oid owner)
{
	int			n = count_transfers(owner);
	int			places = free_places();

	return places > 0 && (!several_owners || n == 0 || n + 1 <= SHARE * (places - 1));
}

/* The owners whose jobs wait: because their tables block, or because they have their share.  Returns the number. */
static int
waiting_owners(Oid *owners)
{
	int			n = atp_owners_in_backoff(owners);
	dlist_iter	iter;

	dlist_foreach(iter, &transfers)
	{
		Oid			owner = dlist_container(AtpTransfer, node, iter.cur)->job.owner;

		if (!has_room_for(owner))
			owners[n++] = owner;
	}
	return n;
}

static void
count_owners(void)
{
	AtpResult	found = atp_query("SELECT COALESCE(min(owner::oid) <> max(owner::oid), false) AS several FROM atproto.subscription"
								  " WHERE backfill <> 'none'", ATP_NO_ARGS);

	several_owners = atp_get_bool(atp_result_row(found, 0), "several");
	atp_result_free(found);
}

/*
 * The index of an export grows with the data that strangers send.  All large indexes together may
 * have as much memory as all transfers may have without their indexes; beyond that, only the first
 * of the large transfers is read on.
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

/*
 * Give up the first large transfer if it is too slow while transfers wait for its memory: its
 * server decides how fast bytes come, and could make the transfers wait for an hour.
 */
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

/*
 * Give up transfers that are too slow while no place is free: otherwise the servers of a few accounts, which send a
 * thousand bytes a second, could take all places for an hour.  The time that a transfer waits for memory does not count.
 * Parts that wait for the limits of their host are put off, which is no fault of the account.
 */
static void
end_slow(AtpTime now)
{
	dlist_mutable_iter iter;
	bool		full = !has_room();

	dlist_foreach_modify(iter, &transfers)
	{
		AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);

		if (t->slow_since == 0 || waits_for_memory(t) || t->bytes - t->slow_bytes >= SLOW_BYTES)
		{
			t->slow_since = now;
			t->slow_bytes = t->bytes;
		}
		else if (full && t->phase == ATP_TRANSFER_READING && atp_remaining(now, t->slow_since, SLOW_MS) == 0)
			atp_transfer_fail(t, has_request(t) ? "the repository came too slowly, while others waited for a place"
							  : "the limits of the host left too few requests, while others waited for a place",
							  has_request(t) ? ATP_REPO_FAULT : ATP_REPO_LATER);
	}
}

static AtpTransfer *
make_transfer(const AtpRepoJob *job)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto fetch", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AtpTransfer *t = palloc0(sizeof(AtpTransfer));

	t->cxt = cxt;
	t->owner = &transfers;
	t->wait_ms = -1;
	t->job = *job;
	t->job.target = pstrdup(job->target);
	t->job.did_text = pstrdup(job->did_text);
	t->job.subscription = pstrdup(job->subscription);
	t->job.server = job->server == NULL ? NULL : pstrdup(job->server);
	t->job.did = (struct varlena *) PG_DETOAST_DATUM_COPY(PointerGetDatum(job->did));
	MemoryContextSwitchTo(old);
	dlist_push_tail(&transfers, &t->node);
	atp_transfers++;
	return t;
}

/* Arguments and result of hold_events(). */
typedef struct Beginning
{
	AtpTransfer *t;
	const char *host;
	MemoryContext cxt;
	AtpRepoFault fault;
	char	   *why;			/* NULL: the fetch has begun */
} Beginning;

/* Begin the fetch in the owner's tables; called as the owner. */
static void
hold_events(void *arg)
{
	Beginning  *b = arg;
	const char *why;
	AtpRefusal	refusal = atp_repo_job_begin(&b->t->job, b->t->sub, b->t->statements, b->host, &why);

	if (refusal == ATP_REFUSED_NOT)
		return;
	b->fault = refusal == ATP_REFUSED_INACTIVE || refusal == ATP_REFUSED_REMOVED ? ATP_REPO_NOTED : ATP_REPO_WAITS;
	b->why = MemoryContextStrdup(b->cxt, why);
}

static void
read_subscription(AtpTransfer *t)
{
	MemoryContext cxt = CurrentMemoryContext;

	atp_begin("reading the subscription of a repository");
	t->sub = atp_subscription_get(t->job.subscription, t->cxt);
	atp_commit();
	MemoryContextSwitchTo(cxt);
}

/* Begin the transfer in the owner's tables.  False: the job keeps waiting, or is put off. */
static bool
begin_transfer(AtpTransfer *t, const char *host)
{
	Beginning	b = {t, host, CurrentMemoryContext, ATP_REPO_FAULT, NULL};

	if (t->sub == NULL)
		read_subscription(t);
	if (t->sub == NULL || !OidIsValid(t->sub->owner))
		b.why = pstrdup("its subscription has no owner");
	else
	{
		t->statements = atp_repo_statements_get(t->job.target, t->sub->owner);
		(void) atp_transfer_act(t, "beginning to fetch a repository", hold_events, &b, &b.why);
		if (t->job.locked)
			atp_owner_backoff_begin(t->sub->owner);
	}
	if (b.why == NULL)
		return true;
	atp_begin("putting off a repository");
	atp_repo_job_failed(&t->job, b.why, b.fault);
	atp_commit();
	return false;
}

/*
 * Create the request for the whole repository, and the transfer.  NULL: the limits forbid a request now.
 */
static AtpTransfer *
make_whole(const AtpRepoJob *job, long *wait_ms)
{
	AtpHttp    *http = atp_repo_request(&transfers, job->server, job->did_text, wait_ms);
	AtpTransfer *t;

	if (http == NULL)
		return NULL;
	t = make_transfer(job);
	t->http = http;
	t->export = atp_export_create(t->cxt, (AtpSpan) {t->job.did_text, strlen(t->job.did_text)}, true);
	return t;
}

/* P-30: of the subscription's collections alone.  NULL: the limits forbid a request now. */
static AtpTransfer *
make_parts(const AtpRepoJob *job, long *wait_ms)
{
	AtpTransfer *t = make_transfer(job);

	read_subscription(t);
	/* since the job was read, the subscription may have been changed */
	if (t->sub != NULL && t->sub->settings.ncollections > 0 && atp_parts_start(t, wait_ms))
		return t;
	atp_transfer_free(t);
	return NULL;
}

/*
 * Create the requests and the transfer.  Nothing is sent before the repository's state is committed
 * .  False: the limits forbid a request now.
 */
static bool
start_transfer(const AtpRepoJob *job, const char *host, long *wait_ms)
{
	bool		parts = job->parts && (job->only_parts || host == NULL || atp_host_has_parts(host, atp_now()));
	AtpTransfer *t = parts ? make_parts(job, wait_ms) : make_whole(job, wait_ms);

	if (t == NULL)
		return false;
	t->began = begin_transfer(t, host);
	if (!t->began)
		atp_transfer_free(t);
	return true;
}

/*
 * The job cannot start yet (throttled, look-up needed, or a problem).  Uses a transaction for each
 * job, since consumers lock rows of jobs in a different order.
 */
static void
put_off_job(const AtpRepoJob *job)
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

/* Queue jobs again whose end could not be written, because a session had locked the row. */
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

/* Called at intervals: begin storms, end throttling, and determine servers of new jobs. */
static void
prepare_jobs(void)
{
	MemoryContext cxt = CurrentMemoryContext;
	List	   *problems;
	ListCell   *cell;
	int			placed;

	atp_begin("looking for repositories that may be fetched");
	MemoryContextSwitchTo(cxt);
	count_owners();
	atp_repo_storms();
	atp_repos_unthrottle();
	atp_jobs_take_from_unentitled();
	reset_some();
	problems = atp_repo_jobs_place(PLACED_MAX, &placed);
	atp_commit();
	foreach(cell, problems)
		put_off_job(lfirst(cell));
	news += placed;
}

/*
 * Try to start a transfer.  False and *waits: the host's limits, or the limit of all requests,
 * forbid a start now.
 */
static bool
try_start(const AtpRepoJob *job, const char *host, long *wait_ms, bool *waits)
{
	*waits = false;
	if (job->too_often || job->asks || job->problem != NULL)
		put_off_job(job);
	else if (!is_running(job) && has_room_for(job->owner))
	{
		if (start_transfer(job, host, wait_ms))
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

/*
 * Start transfers, most urgent first, of hosts that may be asked.  Returns milliseconds until more
 * may start; *us: duration of the queries.
 */
static long
start_due_transfers(int64 *us)
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
		Oid			owners[ATP_OWNER_BACKOFF_MAX + TRANSFERS_MAX];
		int			nowners = waiting_owners(owners);

		again = false;
		atp_begin("looking for repositories to fetch");
		MemoryContextSwitchTo(cxt);
		jobs = atp_repo_jobs_due(busy, nbusy, owners, nowners, DUE_MAX);
		atp_commit();
		*us += atp_now() - began;
		foreach(cell, jobs)
		{
			const AtpRepoJob *job = lfirst(cell);
			char	   *host = job->server != NULL ? atp_http_host_of(job->server) : NULL;
			long		wait_ms = -1;
			bool		waits = false;

			/*
			 * since the query, the owner's backoff has begun (a session that has locked a row of this owner may have
			 * locked all), or the owner has got its share
			 */
			if (atp_owner_backoff_ms(job->owner) > 0 || (has_room() && !has_room_for(job->owner)))
			{
				again = true;
				continue;
			}
			for (int i = 0; host != NULL && i < nbusy; i++)
				waits |= strcmp(busy[i], host) == 0;
			/* jobs of different hosts may be hidden behind the jobs of this host */
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

/* start_due_transfers(), unless the last look was just now. */
static long
look_if_due(void)
{
	long		wait_ms = atp_remaining(atp_now(), looked, news > 0 ? look_least_ms : look_most_ms);
	int64		us = 0;

	if (wait_ms > 0)
		return wait_ms;
	news = 0;
	look_most_ms = start_due_transfers(&us);
	looked = atp_now();
	look_least_ms = Min(Max(LOOK_LEAST_MS, LOOK_SHARE * us / 1000), LOOK_MS);
	return look_most_ms;
}

/* ------------------------------------------------------------------------
 * Steps
 * ------------------------------------------------------------------------
 */

static void
begin_repos(void)
{
	atp_begin("looking for repositories that were being fetched");
	atp_repo_jobs_reset(NULL, 0, "the fetcher ended while the repository was being fetched");
	atp_commit();
}

/* end transfers whose jobs were suspended or removed meanwhile. */
static void
cancel_some(void)
{
	dlist_mutable_iter iter;
	AtpTransfer *gone[TRANSFERS_MAX];
	int			ngone = 0;

	atp_begin("looking for repositories that are not to be fetched any more");
	dlist_foreach_modify(iter, &transfers)
	{
		AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);

		if (!atp_repo_job_is_running(&t->job))
			gone[ngone++] = t;
	}
	atp_commit();
	for (int i = 0; i < ngone; i++)
		if (atp_owner_backoff_ms(gone[i]->sub->owner) == 0)
			atp_transfer_cancel(gone[i]);
}

/* Milliseconds until the limits of a host allow the next request for parts, or else this time. */
static long
shortest_wait(long timeout)
{
	dlist_iter	iter;

	dlist_foreach(iter, &transfers)
	{
		const AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);

		if (t->phase == ATP_TRANSFER_READING && t->wait_ms >= 0)
			timeout = Min(timeout, t->wait_ms);
	}
	return timeout;
}

static long
step_repos(AtpTime now)
{
	MemoryContext cxt = CurrentMemoryContext;
	dlist_mutable_iter iter;
	int			before = atp_transfers;
	bool		more = false;
	long		timeout = LOOK_MS;
	bool		disk_is_full = atp_free_disk_fault(now) != NULL;
	AtpHttp    *http;

	while ((http = atp_fetch_next(&transfers)) != NULL)
		dlist_foreach_modify(iter, &transfers)
		{
			AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);

			if (t->http == http)
				t->ended = true;
			else if (t->parts != NULL)
				(void) atp_sparse_fetch_ended(t->parts, http);
		}
	dlist_foreach_modify(iter, &transfers)
	{
		AtpTransfer *t = dlist_container(AtpTransfer, node, iter.cur);
		long		rests = Max(atp_transfer_backoff_ms(t, now), atp_owner_backoff_ms(t->sub->owner));

		if (rests > 0)
			timeout = Min(timeout, rests);
		if (rests > 0 || disk_is_full || waits_for_memory(t))
			continue;
		more |= atp_transfer_move_on(t);
		MemoryContextSwitchTo(cxt);
		CHECK_FOR_INTERRUPTS();
		atp_http_pump();
	}
	timeout = shortest_wait(timeout);
	if (atp_transfers > 0 && atp_remaining(now, looked_for_ends, LOOK_MS) == 0)
	{
		looked_for_ends = now;
		cancel_some();
		end_idle(now);
		end_slow(now);
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
		prepare_jobs();
	}
	if (has_room())
		timeout = Min(timeout, look_if_due());
	return more ? 0 : Min(timeout, atp_remaining(now, prepared, PREPARE_MS));
}

const AtpTask atp_repo_task = {.name = "repo", .wanted = atp_repo_jobs_wanted, .begin = begin_repos, .step = step_repos, .kinds = 1};
