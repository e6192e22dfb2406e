/*
 * repo_sql.c
 *		SQL: atproto.resync(), resync_all(), backfill_repo(), recheck() and read_lists(): queue
 *		repositories, and lists of repositories, for the fetcher.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/target.h"
#include "config/wake.h"
#include "fetch/repositories/list_rows.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "stream/format.h"
#include "tables/export/export_owner.h"
#include "tables/base/blocked.h"
#include "tables/base/job.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_resync);
PG_FUNCTION_INFO_V1(atp_resync_all);
PG_FUNCTION_INFO_V1(atp_recheck);
PG_FUNCTION_INFO_V1(atp_read_lists);

/* Repositories read at a time. */
#define SOME	"1000"

/* How many times a fetch may end, and delete its job, just when the job is to be updated. */
#define ENDINGS_MAX	3

/*
 * Make a job due at once that was put off, throttled, suspended, or waiting for a look-up.  False:
 * the fetch has ended just now, and the job is gone.  The caller may know that the server now has a
 * good export.  So the identity is read again only if it is old (W-31), or if this fetch fails,
 * too.
 */
static bool
hasten_job(const AtpSubscription *sub, AtpArg did, bool force)
{
	AtpCaller	caller = atp_as_table_owner("repo_job");
	uint64		n = atp_run(atp_identity_sql("UPDATE atproto.repo_job SET next_try = 'epoch', tries = 0, put_off = 0, force = force OR $3, subscription = $4,"
											 " doubted = NULL, doubted_at = NULL,"
											 " state = CASE state WHEN 'running' THEN state ELSE 'queued' END"
											 " WHERE target = $1::name AND did OPERATOR(@.=) $2"),
							ATP_ARGS(atp_text_arg(sub->target), did, (AtpArg) {BoolGetDatum(force), BOOLOID, false}, atp_text_arg(sub->name)));

	atp_owner_end(caller);
	return n > 0;
}

/* Does the condition hold for the subscription's row? */
static bool
row_says(const AtpSubscription *sub, const char *condition)
{
	return atp_run(psprintf("SELECT FROM atproto.subscription WHERE name = $1 AND %s", condition),
				   ATP_ARGS(atp_text_arg(sub->name))) > 0;
}

static void
check_fetches(const AtpSubscription *sub)
{
	if (row_says(sub, "backfill = 'none'"))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("subscription \"%s\" fetches no repositories", sub->name),
				 errhint("Set \"backfill\" to \"repair\", or more: UPDATE atproto.subscription SET backfill = 'repair' WHERE name = %s.", quote_literal_cstr(sub->name))));
}

static void
resync_repo(struct varlena *did, const char *target, bool force)
{
	const AtpSubscription *sub = atp_export_owner_of(target, did);

	check_fetches(sub);
	/* without a lock: atp_jobs_add() makes no job of an account that is blocked at this moment */
	if (atp_is_blocked(sub->target, did))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the account is blocked in schema \"%s\"", sub->target),
				 errhint("atproto.unblock() lets the account in again.")));
	/*
	 * a fetch that is ending has locked and then deletes its job; that fetch began before this
	 * call, so a new job is added
	 */
	for (int i = 0; i < ENDINGS_MAX; i++)
	{
		(void) atp_jobs_add(sub, &did, 1, ATP_JOB_USER, "asked for");
		if (hasten_job(sub, atp_did_arg(did), force))
			break;
	}
	atp_wake_fetcher();
}

/* The first subscription that fetches repositories into the schema. */
static const AtpSubscription *
fetcher_of(const char *target)
{
	List	   *names = atp_subscriptions_filling(target, "keep_records AND backfill <> 'none'", "name");

	if (names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no subscription fetches repositories into schema \"%s\"", target),
				 errhint("Set \"backfill\" of one to \"repair\", or more.")));
	return atp_subscription_borrow(linitial(names), CurrentMemoryContext);
}

/* The next active repositories in the order of DIDs, read as the owner of the table. */
static AtpResult
next_repos(const AtpSubscription *sub, struct varlena *after)
{
	AtpCaller	caller = atp_target_begin(sub);
	AtpResult	found = atp_query(atp_expand_sql("SELECT did FROM #.repo WHERE active AND ($1 IS NULL OR did OPERATOR(@.>) $1)"
												 " ORDER BY did LIMIT " SOME, sub->target),
								  ATP_ARGS((AtpArg) {PointerGetDatum(after), atp_type("did"), after == NULL}));

	atp_owner_end(caller);
	return found;
}

static struct varlena *
did_of(AtpTuple row)
{
	bool		isnull;
	Datum		did = atp_get(row, "did", atp_type("did"), &isnull);

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION), errmsg("table \"%s\" has a row without a DID", "repo")));
	return PG_DETOAST_DATUM_COPY(did);
}

/*
 * Wait for fetches that are ending, and that delete their jobs: these fetches began before this
 * call, so their repositories need new jobs.
 */
static void
await_endings(const char *target)
{
	AtpCaller	caller = atp_as_table_owner("repo_job");

	atp_result_free(atp_query("SELECT FROM atproto.repo_job WHERE target = $1::name AND state = 'running' FOR NO KEY UPDATE",
							  ATP_ARGS(atp_text_arg(target))));
	atp_owner_end(caller);
}

static int64
resync_all(const char *target)
{
	const AtpSubscription *sub = fetcher_of(target);
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto resync_all", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = CurrentMemoryContext;
	struct varlena *last = NULL;
	int64		added = 0;
	AtpResult	repos;

	await_endings(target);
	while ((repos = next_repos(sub, last)).n > 0)
	{
		struct varlena **dids;
		int			n = 0;

		last = did_of(atp_result_row(repos, repos.n - 1));
		MemoryContextSwitchTo(cxt);
		dids = palloc(sizeof(struct varlena *) * repos.n);
		for (uint64 i = 0; i < repos.n; i++)
		{
			dids[n] = did_of(atp_result_row(repos, i));
			n += atp_wants_did(&sub->settings, dids[n]);
		}
		added += atp_jobs_add(sub, dids, n, ATP_JOB_LISTED, "resync_all");
		MemoryContextSwitchTo(old);
		MemoryContextReset(cxt);
		atp_result_free(repos);
		CHECK_FOR_INTERRUPTS();
	}
	atp_wake_fetcher();
	return added;
}

static void
check_lists(const AtpSubscription *sub)
{
	if (row_says(sub, "NOT serves_repos AND list_source IS NULL"))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the server of subscription \"%s\" has no list of repositories", sub->name),
				 errhint("Set its \"%s\", for example to %s.", "list_source", "https://bsky.network")));
}

static void
recheck_lists(const char *name)
{
	const AtpSubscription *sub = atp_subscription_borrow(name, CurrentMemoryContext);

	check_fetches(sub);
	check_lists(sub);
	atp_list_recheck(sub->name);
	atp_wake_fetcher();
}

static int64
read_lists(const char *name, bool again)
{
	const AtpSubscription *sub = atp_subscription_borrow(name, CurrentMemoryContext);
	char	   *resting;
	int64		n;

	check_fetches(sub);
	n = atp_lists_hasten(sub->name, again, &resting);
	if (resting != NULL)
		ereport(NOTICE,
				(errmsg("hosts of these lists are in backoff: %s", resting),
				 errhint("atproto.reset_backoff() ends the backoff of a host.")));
	atp_wake_fetcher();
	return n;
}

/* SQL: atproto.resync(did, target, force) */
Datum
atp_resync(PG_FUNCTION_ARGS)
{
	int			nest;

	SPI_connect();
	nest = atp_caller_begin();
	resync_repo((struct varlena *) PG_GETARG_VARLENA_P(0), NameStr(*PG_GETARG_NAME(1)), PG_GETARG_BOOL(2));
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_VOID();
}

/* SQL: atproto.resync_all(target) */
Datum
atp_resync_all(PG_FUNCTION_ARGS)
{
	int			nest;
	int64		added;

	SPI_connect();
	nest = atp_caller_begin();
	added = resync_all(NameStr(*PG_GETARG_NAME(0)));
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_INT64(added);
}

/* SQL: atproto.recheck(subscription) */
Datum
atp_recheck(PG_FUNCTION_ARGS)
{
	int			nest;

	SPI_connect();
	nest = atp_caller_begin();
	recheck_lists(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_VOID();
}

/* SQL: atproto.read_lists(subscription, again) */
Datum
atp_read_lists(PG_FUNCTION_ARGS)
{
	int			nest;
	int64		n;

	SPI_connect();
	nest = atp_caller_begin();
	n = read_lists(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_BOOL(1));
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_INT64(n);
}
