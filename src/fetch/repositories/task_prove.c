/*
 * task_prove.c
 *		The fetcher's task that compares tables with the repositories of accounts (P-50 to P-54): fetches the tree of a
 *		repository (proof_fetch.h), and compares the records with the rows, under the lock of the repository's row.
 *
 * A proof holds no event and writes no record.  Rows that differ are fetched again, if a subscription of the target
 * fetches repositories.
 */
#include "postgres.h"

#include "access/xact.h"
#include "config/owner.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/transaction.h"
#include "core/syntax/tid.h"
#include "fetch/engine/fetch.h"
#include "fetch/engine/owner_backoff.h"
#include "fetch/engine/run_as_owner.h"
#include "fetch/engine/task.h"
#include "fetch/repositories/proof_fetch.h"
#include "fetch/repositories/proof_rows.h"
#include "fetch/repositories/repo_signer.h"
#include "fetch/repositories/repo_statements.h"
#include "identity/identity.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "stream/format.h"
#include "tables/base/error_class.h"
#include "tables/base/job.h"
#include "tables/base/table.h"
#include "tables/export/proof_compare.h"
#include "tables/export/repo_export.h"
#include "types/types.h"
#include "utils/memutils.h"

#define LOOK_MS			1000	/* between two looks for accounts */
#define PROOFS_MAX		24		/* accounts at a time ... */
#define OF_HOST_MAX		(PROOFS_MAX / 3)	/* ... and of a host */
#define DUE_MAX			64		/* accounts read in a look */
#define BUSY_MAX		(PROOFS_MAX / OF_HOST_MAX)	/* hosts that can have so many accounts */
#define INDEX_BYTES		(1024 * 1024)	/* parts of a repository with a larger index may have to wait for memory */
#define PLACED_MAX		1000
#define SLICE_US		(200 * 1000)	/* time of a comparison under the lock of the repository's row */
#define SLICE_MAX_MS	5000	/* ... with the owner's policies and views */
#define STATE_MS		2000	/* time limit for reading the repository's row */
#define WALKS_MAX		5		/* comparisons that began again because the repository's row had changed */
#define SLOW_MS			(2 * 60 * 1000)	/* while no place is free, a proof must receive within this time ... */
#define SLOW_BYTES		(1024 * 1024)	/* ... so many bytes */
#define REST_MS			5000	/* a host that may not be asked for longer rests after failures */

/* P-52: reasons of refused accounts. */
#define UNREADABLE		"the rows could not be read as the owner"
#define NO_SERVER		"the account's identity has no server any more"
#define WAITING			"events of the account wait"
#define MOVING			"the account goes on while its rows are compared"
#define BEHIND			"its server does not have the revision of the tables"

typedef struct Proof
{
	dlist_node	node;
	MemoryContext cxt;
	AtpProofJob job;
	char	   *host;			/* of the account's server */
	AtpSubscription *sub;
	AtpSettings settings;		/* of sub, with the collections that are compared */
	AtpStatements *statements;
	bool		spoilt;			/* an ERROR occurred, maybe because of these statements */
	AtpProofFetch *fetch;
	bool		walked;			/* the fetch has all nodes of the tree */
	AtpTime		slow_since;		/* fewer bytes than are enough have come since ... */
	int64		slow_bytes;		/* ... when so many had come */
	AtpProofCompare *compare;	/* NULL: not begun */
	uint64		before;			/* revision of the repository's row when the fetch began */
	uint64		stored;			/* ... and when the comparison began */
	int			walks;
} Proof;

static dlist_head proofs = DLIST_STATIC_INIT(proofs);
static int	nproofs;
static AtpTime looked;

static void
free_proof(Proof *p)
{
	dlist_delete(&p->node);
	nproofs--;
	if (p->fetch != NULL)
		atp_proof_fetch_free(p->fetch);
	if (p->statements != NULL)
		atp_repo_statements_put(p->statements, p->spoilt);
	MemoryContextDelete(p->cxt);
}

/* reason, asked: as in atp_proof_failed(); why: with the details of this account. */
static void
give_up_proof(Proof *p, const char *reason, const char *why, bool asked)
{
	atp_begin("giving up a proof");
	atp_proof_failed(&p->job, reason, why, asked);
	atp_commit();
	free_proof(p);
}

static void
fail_proof_for(Proof *p, const char *reason, const char *why)
{
	give_up_proof(p, reason, why, true);
}

static void
fail_proof(Proof *p, const char *why)
{
	fail_proof_for(p, why, why);
}

static void
put_off(Proof *p, const char *reason)
{
	atp_begin("putting off a proof");
	atp_proof_later(&p->job, reason);
	atp_commit();
	free_proof(p);
}

/* ------------------------------------------------------------------------
 * Beginning
 * ------------------------------------------------------------------------
 */
static bool
is_proving(const AtpProofJob *job)
{
	dlist_iter	iter;

	dlist_foreach(iter, &proofs)
	{
		const Proof *p = dlist_container(Proof, node, iter.cur);

		if (strcmp(p->job.target, job->target) == 0 && strcmp(p->job.did_text, job->did_text) == 0)
			return true;
	}
	return false;
}

/* The job and its collections, in the memory of the proof. */
static void
copy_job(Proof *p, const AtpProofJob *job)
{
	MemoryContext old = MemoryContextSwitchTo(p->cxt);

	p->job = *job;
	p->job.target = pstrdup(job->target);
	p->job.did_text = pstrdup(job->did_text);
	p->job.subscription = pstrdup(job->subscription);
	p->job.server = pstrdup(job->server);
	p->host = atp_http_host_of(p->job.server);
	p->job.did = PG_DETOAST_DATUM_COPY(PointerGetDatum(job->did));
	p->job.set.patterns = palloc(sizeof(char *) * Max(job->set.n, 1));
	for (int i = 0; i < job->set.n; i++)
		p->job.set.patterns[i] = pstrdup(job->set.patterns[i]);
	MemoryContextSwitchTo(old);
}

/*
 * P-50: only accounts that the subscription follows, and collections that it keeps, are compared: the filter may have become narrower
 * since prove().  NULL: the proof can begin.
 */
static const char *
read_settings(Proof *p)
{
	AtpProvedSet kept;
	AtpProvedSet set;
	MemoryContext old;

	atp_begin("reading the subscription of a proof");
	p->sub = atp_subscription_get(p->job.subscription, p->cxt);
	atp_commit();
	if (p->sub == NULL || !OidIsValid(p->sub->owner))
		return "its subscription has no owner";
	if (strcmp(p->sub->target, p->job.target) != 0)
		return "its subscription has a different target now";
	if (!atp_wants_did(&p->sub->settings, p->job.did))
		return "its subscription does not follow the account any more";
	old = MemoryContextSwitchTo(p->cxt);
	kept = atp_proved_kept(&p->sub->settings);
	set = atp_proved_common(&p->job.set, &kept);
	MemoryContextSwitchTo(old);
	if (set.n == 0)
		return "its subscription keeps none of the collections";
	p->settings = p->sub->settings;
	p->settings.ncollections = set.n;
	p->settings.collections = (char **) set.patterns;
	p->statements = atp_repo_statements_get(p->job.target, p->sub->owner);
	return NULL;
}

/* The revision of the repository's row; called as the owner. */
static void
read_rev(void *arg)
{
	Proof	   *p = arg;
	AtpResult	found = atp_query(atp_expand_sql("SELECT rev FROM #.repo WHERE did OPERATOR(@.=) $1 AND rev IS NOT NULL", p->job.target),
								  ATP_ARGS((AtpArg) {PointerGetDatum(p->job.did), atp_type("did"), false}));

	p->before = found.n == 0 ? 0 : DatumGetAtpTid(atp_get_arg(atp_result_row(found, 0), "rev", atp_type("tid")).value);
	atp_result_free(found);
}

static void
start_proof(const AtpProofJob *job)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto proof of an account", ALLOCSET_DEFAULT_SIZES);
	Proof	   *p = MemoryContextAllocZero(cxt, sizeof(Proof));
	const char *reason;
	char	   *failed = NULL;

	p->cxt = cxt;
	copy_job(p, job);
	dlist_push_tail(&proofs, &p->node);
	nproofs++;
	if ((reason = read_settings(p)) == NULL &&
		atp_run_as_owner(p->sub->owner, "reading the revision of a repository", STATE_MS, read_rev, p, &failed) != ATP_RUN_DONE)
		reason = UNREADABLE;
	if (reason != NULL)
	{
		fail_proof_for(p, reason, failed != NULL ? failed : reason);
		return;
	}
	p->fetch = atp_proof_fetch_create(p->cxt, &(AtpSparseAsk) {
									  .owner = &proofs, .server = p->job.server, .did = p->job.did_text,
									  .ncollections = p->settings.ncollections, .collections = p->settings.collections
									  }, p->sub->settings.fetch_as == ATP_FETCH_SPARSE);
	p->slow_since = atp_now();
}

/* The account had a server when the row got its host, and has none now: otherwise the row would be due for ever, before others. */
static void
lose_host(const AtpProofJob *job)
{
	atp_begin("noting an account without a server");
	atp_proof_failed(job, NO_SERVER, NO_SERVER, true);
	atp_commit();
}

/*
 * the memory for parts of repositories, which grows with what strangers send; *first is the first proof with a large
 * index, or NULL.  While the parts have more than atproto.fetch_memory, no proof begins, and of those with a large index only
 * the first one goes on.  proof_fetch.c limits whole repositories.
 */
static bool
has_memory(const Proof **first)
{
	Size		bytes = 0;
	dlist_iter	iter;

	*first = NULL;
	dlist_foreach(iter, &proofs)
	{
		const Proof *p = dlist_container(Proof, node, iter.cur);
		AtpExport  *export = atp_proof_fetch_export(p->fetch);

		if (!atp_proof_fetch_is_of_parts(p->fetch))
			continue;
		if (*first == NULL && atp_export_index(export) >= INDEX_BYTES)
			*first = p;
		bytes += atp_export_memory(export);
	}
	return bytes <= (Size) atp_fetch_memory_kb * 1024;
}

static bool
waits_for_memory(const Proof *p)
{
	const Proof *first;

	return !p->walked && atp_proof_fetch_is_of_parts(p->fetch) && atp_export_index(atp_proof_fetch_export(p->fetch)) >= INDEX_BYTES &&
		!has_memory(&first) && first != p;
}

static bool
has_place(void)
{
	const Proof *first;

	return nproofs < PROOFS_MAX && atp_fetch_has_place(&proofs) && has_memory(&first);
}

/* A host with several spellings of its URL is one host. */
static bool
host_is_full(const char *host)
{
	dlist_iter	iter;
	int			n = 0;

	dlist_foreach(iter, &proofs)
		n += strcmp(dlist_container(Proof, node, iter.cur)->host, host) == 0;
	return n >= OF_HOST_MAX;
}

/* Remember that the host is busy.  False: it is known. */
static bool
note_busy(char **busy, int *nbusy, char *host)
{
	for (int i = 0; i < *nbusy; i++)
		if (strcmp(busy[i], host) == 0)
			return false;
	if (*nbusy < BUSY_MAX)
		busy[(*nbusy)++] = host;
	return true;
}

/*
 * Start proofs, in turn of hosts: a host has at most a third of the places.  Where the accounts of a busy host fill a look,
 * the next look leaves out the host, so that its accounts do not hide those of other hosts.  Accounts of owners whose tables
 * block are left out, too.
 */
static void
start_due(void)
{
	char	   *busy[BUSY_MAX];
	int			nbusy = 0;
	bool		again = true;

	while (again && has_place())
	{
		MemoryContext cxt = CurrentMemoryContext;
		Oid			owners[ATP_OWNER_BACKOFF_MAX];
		int			nowners = atp_owners_in_backoff(owners);
		List	   *jobs;
		ListCell   *cell;

		again = false;
		atp_begin("looking for accounts to prove");
		MemoryContextSwitchTo(cxt);
		(void) atp_proofs_place(PLACED_MAX);
		MemoryContextSwitchTo(cxt);
		jobs = atp_proofs_due(busy, nbusy, owners, nowners, DUE_MAX);
		atp_commit();
		MemoryContextSwitchTo(cxt);
		foreach(cell, jobs)
		{
			const AtpProofJob *job = lfirst(cell);
			char	   *host = job->server == NULL ? NULL : atp_http_host_of(job->server);

			if (!has_place())
				return;
			if (host == NULL)
				lose_host(job);
			if (host == NULL || is_proving(job) || atp_owner_backoff_ms(job->owner) > 0)
				continue;
			if (!host_is_full(host))
				start_proof(job);
			else
				again |= note_busy(busy, &nbusy, host) && list_length(jobs) == DUE_MAX;
		}
	}
}

/* ------------------------------------------------------------------------
 * Comparing
 * ------------------------------------------------------------------------
 */

/* Arguments and result of compare_slice(). */
typedef struct Slice
{
	Proof	   *p;
	bool		more;
	const char *later;			/* no fault: try again from the beginning, for this reason; NULL: no */
	MemoryContext cxt;
	const char *reason;			/* NULL: no fault */
	char	   *why;
} Slice;

/* P-51: the commit is older than the repository's row. */
static void
refuse_old(Slice *slice, uint64 stored)
{
	char		text[ATP_TID_TEXT];

	/* a commit that came while the repository was walked through: the next walk finds a newer commit */
	if (stored != slice->p->before)
	{
		slice->later = MOVING;
		return;
	}
	atp_tid_format(stored, text);
	slice->reason = BEHIND;
	slice->why = MemoryContextStrdup(slice->cxt, psprintf("the tables have revision %.*s, which the account's server does not have", ATP_TID_TEXT, text));
}

/*
 * Compare some paths, under the lock of the repository's row.  Called as the owner.  The last slice writes the result in
 * the same transaction, so that no event comes in between.
 */
static void
compare_slice(void *arg)
{
	Slice	   *slice = arg;
	Proof	   *p = slice->p;
	AtpApply	a = {.sub = p->sub, .sink = &atp_repos_sink, .statements = p->statements};
	AtpExport  *export = atp_proof_fetch_export(p->fetch);
	const AtpCommit *commit = atp_export_head(export);
	AtpRepoExport *repo;
	AtpRefusal	refusal;
	uint64		stored;
	const char *why;

	atp_target_hold(p->sub->owner, p->sub->target, p->sub->target_owner);
	repo = atp_repo_export_begin(&a, p->job.did);
	refusal = atp_repo_export_refused(repo, commit, false, false, &why);
	stored = atp_repo_export_rev(repo);
	if (refusal == ATP_REFUSED_OLD)
		refuse_old(slice, stored);
	else if (refusal == ATP_REFUSED_WAITING)
		slice->later = WAITING;
	else if (refusal != ATP_REFUSED_NOT)
	{
		slice->why = MemoryContextStrdup(slice->cxt, why);
		slice->reason = refusal == ATP_REFUSED_BEHIND ? BEHIND : slice->why;
	}
	if (refusal != ATP_REFUSED_NOT)
		return;
	if (p->compare != NULL && p->stored != stored)
	{
		atp_proof_free(p->compare);
		p->compare = NULL;
		slice->later = ++p->walks >= WALKS_MAX ? MOVING : NULL;
	}
	if (p->compare == NULL)
		p->compare = atp_proof_begin(p->cxt, p->statements, &p->settings, export, p->job.did);
	p->stored = stored;
	slice->more = slice->later == NULL && atp_proof_some(p->compare, atp_now() + SLICE_US);
	if (slice->more || slice->later != NULL)
		return;
	if (atp_proof_settle(&p->job, commit->rev, stored, atp_proof_counts(p->compare)))
	{
		atp_repo_export_differs(repo);
		/* fetched again, if a subscription of the target fetches repositories */
		atp_jobs_repair(p->job.target, &p->job.did, 1, ATP_JOB_BREAK, "proof");
	}
}

/* True: call again at once. */
static bool
compare_some(Proof *p)
{
	MemoryContext cxt = CurrentMemoryContext;
	Slice		slice = {.p = p, .cxt = cxt};
	AtpRunResult result;
	char	   *failed = NULL;

	Assert(!atp_queue_wait.limited);
	atp_queue_wait.limited = true;
	result = atp_run_as_owner(p->sub->owner, "comparing a repository", SLICE_MAX_MS, compare_slice, &slice, &failed);
	atp_queue_wait.limited = false;
	MemoryContextSwitchTo(cxt);
	if (result == ATP_RUN_LATE)
		atp_owner_backoff_begin(p->sub->owner);
	p->spoilt |= result != ATP_RUN_DONE;
	if (result != ATP_RUN_DONE)
		fail_proof_for(p, UNREADABLE, failed);
	else if (slice.reason != NULL)
		fail_proof_for(p, slice.reason, slice.why);
	else if (slice.later != NULL)
		put_off(p, slice.later);
	else if (!slice.more)
		free_proof(p);
	return result == ATP_RUN_DONE && slice.reason == NULL && slice.more;
}

/* True: call again at once. */
static bool
move_on(Proof *p, long *wait_ms)
{
	long		wait = -1;
	AtpSparseState state;
	AtpRepoSigner signer;
	const char *why;
	bool		rests;
	bool		asked;

	if (p->walked)
		return compare_some(p);
	state = atp_proof_fetch_step(p->fetch, &wait);
	/* the accounts of a host that rests leave their places to accounts of other hosts */
	rests = state == ATP_SPARSE_WAITS && wait > REST_MS && !atp_proof_fetch_is_running(p->fetch);
	/* a reason: that of the collections, which the server was asked for alone */
	asked = !rests || atp_proof_fetch_reason(p->fetch) != NULL;
	if (rests)
		state = atp_proof_fetch_give_up(p->fetch);
	switch (state)
	{
		case ATP_SPARSE_WAITS:
			if (wait >= 0)
				*wait_ms = Min(*wait_ms, wait);
			return false;
		case ATP_SPARSE_MORE:
			return true;
		case ATP_SPARSE_NODES:
		case ATP_SPARSE_RECORDS:
			why = p->sub->settings.verify != ATP_VERIFY_FULL ? NULL
				: atp_repo_signer(atp_proof_fetch_export(p->fetch), p->job.did, p->job.server, &signer);
			p->walked = why == NULL;
			if (!p->walked)
				fail_proof(p, why);
			return p->walked;
		case ATP_SPARSE_FAILED:
			break;
	}
	if (atp_proof_fetch_fault(p->fetch)->kind == ATP_SPARSE_LATER)
		put_off(p, atp_proof_fetch_reason(p->fetch));
	else
		give_up_proof(p, atp_proof_fetch_reason(p->fetch), atp_proof_fetch_fault(p->fetch)->text, asked);
	return false;
}

/* move_on(); an ERROR ends the proof. */
static bool
try_to_move_on(Proof *p, long *wait_ms)
{
	MemoryContext cxt = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;
	volatile bool more = false;

	PG_TRY();
	{
		more = move_on(p, wait_ms);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
		MemoryContextSwitchTo(cxt);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	if (error == NULL)
		return more;
	p->spoilt = true;
	fail_proof_for(p, UNREADABLE, atp_error_text(error));
	return false;
}

/*
 * Give up proofs that are too slow while no place, request or memory is free: otherwise the servers of a few accounts, which send a thousand
 * bytes a second, could take all places for an hour.  Proofs that wait for the limits of their host are put off.
 */
static void
end_slow(AtpTime now)
{
	dlist_mutable_iter iter;
	bool		full = !has_place() || atp_proof_fetch_any_waits();

	dlist_foreach_modify(iter, &proofs)
	{
		Proof	   *p = dlist_container(Proof, node, iter.cur);
		int64		bytes = atp_proof_fetch_bytes(p->fetch);

		if (p->walked || waits_for_memory(p) || atp_proof_fetch_waits(p->fetch) || bytes - p->slow_bytes >= SLOW_BYTES)
		{
			p->slow_since = now;
			p->slow_bytes = bytes;
		}
		else if (!full || atp_remaining(now, p->slow_since, SLOW_MS) > 0)
			continue;
		else if (atp_proof_fetch_is_running(p->fetch))
			fail_proof(p, "its repository came too slowly, while others waited for a place");
		else
			put_off(p, "the limits of its host left too few requests");
	}
}

static long
step_proofs(AtpTime now)
{
	dlist_mutable_iter iter;
	AtpHttp    *http;
	bool		more = false;
	long		timeout = LOOK_MS;
	int			before = nproofs;

	while ((http = atp_fetch_next(&proofs)) != NULL)
		dlist_foreach_modify(iter, &proofs)
			if (atp_proof_fetch_ended(dlist_container(Proof, node, iter.cur)->fetch, http))
				break;
	dlist_foreach_modify(iter, &proofs)
	{
		Proof	   *p = dlist_container(Proof, node, iter.cur);
		long		rests = atp_owner_backoff_ms(p->sub->owner);

		if (rests > 0)
			timeout = Min(timeout, rests);
		else if (!waits_for_memory(p))
			more |= try_to_move_on(p, &timeout);
		CHECK_FOR_INTERRUPTS();
		atp_http_pump();
	}
	if (nproofs < before || atp_remaining(now, looked, LOOK_MS) == 0)
	{
		looked = now;
		end_slow(now);
		start_due();
		more |= nproofs > before;
	}
	return more ? 0 : timeout;
}

const AtpTask atp_prove_task = {.name = "prove", .wanted = atp_proofs_wanted, .step = step_proofs, .kinds = 1};
