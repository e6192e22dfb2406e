/*
 * prove_sql.c
 *		SQL: atproto.prove(), await_proof(), and the functions of the view atproto.proof (P-50, P-52).
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_authid.h"
#include "common/binomial.h"
#include "common/clock.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/target.h"
#include "config/wake.h"
#include "core/syntax/nsid.h"
#include "fetch/engine/waiting.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "stream/format.h"
#include "tables/base/history.h"
#include "tables/base/proved_set.h"
#include "tables/base/table.h"
#include "types/types.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_prove);
PG_FUNCTION_INFO_V1(atp_proof_share);
PG_FUNCTION_INFO_V1(atp_proof_accounts);
PG_FUNCTION_INFO_V1(atp_await_proof);

/* Repositories read at a time. */
#define SOME		1000

/* Between two looks, and between two progress notices. */
#define PAUSE_MS	200
#define NOTICE_MS	5000

/* After this time without any process that could fetch, the call ends. */
#define UNSERVED_MS	10000

/* ------------------------------------------------------------------------
 * prove()
 * ------------------------------------------------------------------------
 */
static AtpProvedSet
read_collections(AtpArg arg)
{
	Datum	   *values;
	bool	   *nulls;
	char	  **patterns;
	int			n;

	if (arg.isnull)
		return atp_proved_set(-1, NULL);
	deconstruct_array(DatumGetArrayTypeP(arg.value), TEXTOID, -1, false, TYPALIGN_INT, &values, &nulls, &n);
	patterns = palloc(sizeof(char *) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		size_t		at;

		if (nulls[i])
			atp_argument_is_null("collections");
		patterns[i] = TextDatumGetCString(values[i]);
		if (atp_nsid_pattern_check(patterns[i], strlen(patterns[i]), &at) != ATP_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("\"%s\" is neither a collection nor a pattern", patterns[i]),
					 errhint("A collection is an NSID, such as app.bsky.feed.post, and a pattern ends with a star: app.bsky.*.")));
	}
	return atp_proved_set(n, patterns);
}

/* The seed of the target's samples. */
static int64
keep_seed(const char *target, double share)
{
	AtpCaller	caller = atp_as_table_owner("proof_sample");
	int64		seed;
	AtpResult	found;

	if (!pg_strong_random(&seed, sizeof(seed)))
		ereport(ERROR, (errcode(ERRCODE_INTERNAL_ERROR), errmsg("could not generate random values")));
	found = atp_query("INSERT INTO atproto.proof_sample AS p (target, seed, share) VALUES ($1::name, $2, $3)"
					  " ON CONFLICT (target) DO UPDATE SET share = GREATEST(p.share, excluded.share), asked_at = now() RETURNING seed",
					  ATP_ARGS(atp_text_arg(target), atp_int8_arg(seed), (AtpArg) {Float8GetDatum(share), FLOAT8OID, false}));
	seed = atp_get_int8(atp_result_row(found, 0), "seed");
	atp_result_free(found);
	atp_owner_end(caller);
	return seed;
}

/*
 * Accounts that can be proven.  H-44: an account that only an archive has shown has no revision, where other subscriptions fill the
 * same tables.
 */
#define PROVABLE	"active AND (rev IS NOT NULL OR history_rev IS NOT NULL)"

/*
 * The next active accounts of the sample, in the order of DIDs, read as the subscription's owner.  P-50: an account is in
 * each sample whose share is above its hash, so a larger sample contains a smaller one.
 */
static AtpResult
next_accounts(const AtpSubscription *sub, AtpArg after, int64 seed, double share)
{
	AtpCaller	caller = atp_target_begin(sub);
	AtpResult	found = atp_query(atp_expand_sql("SELECT did FROM #.repo WHERE " PROVABLE " AND ($1 IS NULL OR did OPERATOR(@.>) $1)"
												 " AND ($3 >= 1 OR (hashtextextended(did::text, $2) & 9223372036854775807)::double precision < $3 * 9223372036854775808)"
												 " ORDER BY did LIMIT $4", sub->target),
								  ATP_ARGS(after, atp_int8_arg(seed), (AtpArg) {Float8GetDatum(share), FLOAT8OID, false}, atp_int4_arg(SOME)));

	atp_owner_end(caller);
	return found;
}

/* An account that a former subscription of this call has queued stays with this subscription. */
static uint64
queue_accounts(const AtpSubscription *sub, int64 set, struct varlena **dids, int n)
{
	AtpCaller	caller = atp_as_table_owner("proof_result");
	uint64		queued = atp_run(atp_identity_sql("INSERT INTO atproto.proof_result AS p (target, did, subscription, proved_set)"
												  " SELECT $1::name, d, $3, $4 FROM unnest($2) d ON CONFLICT (target, did) DO UPDATE SET"
												  "  subscription = excluded.subscription, proved_set = excluded.proved_set, state = 'queued', host = NULL,"
												  "  tries = 0, put_off = 0, next_try = 'epoch', asked_at = now(), open_since = NULL, error = NULL, reason = NULL,"
												  "  equal = CASE WHEN p.proved_set = excluded.proved_set THEN p.equal END WHERE p.asked_at < now()"),
								 ATP_ARGS(atp_text_arg(sub->target), atp_dids_arg(dids, n), atp_text_arg(sub->name), atp_int8_arg(set)));

	atp_owner_end(caller);
	return queued;
}

/* Returns the number of queued accounts; *followed: of accounts of the sample that the subscription follows. */
static uint64
queue_sample(const AtpSubscription *sub, const AtpProvedSet *set, int64 seed, double share, uint64 *followed)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto accounts to prove", ALLOCSET_DEFAULT_SIZES);
	AtpArg		after = {(Datum) 0, atp_type("did"), true};
	uint64		queued = 0;
	uint64		n;

	do
	{
		AtpResult	found = next_accounts(sub, after, seed, share);
		MemoryContext old = MemoryContextSwitchTo(cxt);
		struct varlena **dids = palloc(sizeof(struct varlena *) * Max(found.n, 1));
		int			wanted = 0;

		n = found.n;
		for (uint64 i = 0; i < n; i++)
		{
			dids[wanted] = atp_get_copy(atp_result_row(found, i), "did", atp_type("did"));
			if (i == n - 1)
				after = (AtpArg) {datumCopy(PointerGetDatum(dids[wanted]), false, -1), atp_type("did"), false};
			wanted += atp_wants_did(&sub->settings, dids[wanted]);
		}
		MemoryContextSwitchTo(old);
		if (n > 0)
			after.value = datumCopy(after.value, false, -1);
		*followed += wanted;
		if (wanted > 0)
			queued += queue_accounts(sub, atp_proved_id(set), dids, wanted);
		MemoryContextReset(cxt);
		atp_result_free(found);
		CHECK_FOR_INTERRUPTS();
	} while (n == SOME);
	MemoryContextDelete(cxt);
	return queued;
}

/* While an archive is read, each account lacks records, and would be fetched again where repositories are fetched. */
static void
check_no_archive(const char *target)
{
	AtpCaller	caller = atp_as_table_owner("history");
	AtpResult	found = atp_query("SELECT s.name " ATP_SQL_READS_ARCHIVE " LIMIT 1", ATP_ARGS(atp_text_arg(target)));

	if (found.n > 0)
	{
		char	   *name = atp_get_text(atp_result_row(found, 0), "name");

		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("an archive is being read into schema \"%s\"", target),
				 errhint("CALL atproto.await_history(%s), and prove what it has brought.", quote_literal_cstr(name))));
	}
	atp_result_free(found);
	atp_owner_end(caller);
}

/*
 * Queue the sample of a subscription.  An account has one proof: of the first subscription that follows the account.  sets: the collections
 * of the subscriptions before.
 */
static uint64
prove_subscription(const AtpSubscription *sub, const AtpProvedSet *set, const List *sets, int64 seed, double share)
{
	uint64		followed = 0;
	uint64		queued = queue_sample(sub, set, seed, share, &followed);
	const ListCell *lc;

	foreach(lc, sets)
		if (atp_proved_covers(lfirst(lc), set))
			return queued;
	if (queued < followed)
		ereport(NOTICE,
				(errmsg("collections of subscription \"%s\" are not compared for " UINT64_FORMAT " accounts", sub->name, followed - queued),
				 errdetail("These accounts are compared in the collections of another subscription of the schema."),
				 errhint("Afterwards call prove() again, with the argument \"%s\".", "collections")));
	return queued;
}

/* SQL: atproto.prove(target, share, collections) */
Datum
atp_prove(PG_FUNCTION_ARGS)
{
	const char *target;
	AtpProvedSet asked;
	double		share;
	List	   *names;
	ListCell   *name;
	List	   *sets = NIL;
	int64		seed;
	int			nest;
	uint64		queued = 0;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		atp_argument_is_null(PG_ARGISNULL(0) ? "target" : "share");
	target = NameStr(*PG_GETARG_NAME(0));
	share = PG_GETARG_FLOAT8(1);
	if (!(share > 0 && share <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" must be above 0, and at most 1", "share"),
				 errhint("1 asks for all accounts, 0.01 for one in a hundred.")));
	SPI_connect();
	nest = atp_caller_begin();
	asked = read_collections(ATP_FUNCTION_ARG(2, TEXTARRAYOID));
	(void) atp_owner_of_table(target, "repo");
	(void) atp_owner_of_table(target, "record");
	names = atp_subscriptions_filling(target, "by_repo AND keep_records AND actions IS NULL", "backfill = 'none', name");
	if (names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no subscription keeps records in schema \"%s\"", target),
				 errhint("Name the target of a subscription: SELECT DISTINCT target FROM atproto.subscription.")));
	check_no_archive(target);
	seed = keep_seed(target, share);
	foreach(name, names)
	{
		const AtpSubscription *sub = atp_subscription_borrow(lfirst(name), CurrentMemoryContext);
		AtpProvedSet kept = atp_proved_kept(&sub->settings);
		AtpProvedSet *set = palloc(sizeof(AtpProvedSet));

		*set = atp_proved_common(&asked, &kept);
		if (set->n == 0)
			continue;
		/* the set stays: a session that removes sets waits for this transaction, and sees its proofs */
		atp_proved_lock(target, false);
		atp_proved_note(target, set);
		queued += prove_subscription(sub, set, sets, seed, share);
		sets = lappend(sets, set);
	}
	atp_wake_fetcher();
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_INT64(queued);
}

/* ------------------------------------------------------------------------
 * The view proof
 * ------------------------------------------------------------------------
 */

/* SQL: atproto_internal.proof_share(k, n, upper) */
Datum
atp_proof_share(PG_FUNCTION_ARGS)
{
	PG_RETURN_FLOAT8(atp_share_bound(PG_GETARG_INT64(0), PG_GETARG_INT64(1), PG_GETARG_BOOL(2)));
}

typedef struct Accounts
{
	AtpArg		of;				/* the target of the proofs */
	AtpArg		subscription;
	AtpArg		set;
	Oid			owner;
	char	   *target;
	int64		accounts;
	int64		present;
} Accounts;

/* False: the caller may not know of the subscription, or the subscription fills another target now. */
static bool
find_subscription(Accounts *a)
{
	Oid			user = GetUserId();
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT owner::oid AS owner, target::text AS target FROM atproto.subscription WHERE name = $1 AND target = $2"
								  " AND EXISTS (SELECT FROM pg_roles r WHERE r.oid = owner)", ATP_ARGS(a->subscription, a->of));
	bool		isnull;

	atp_owner_end(caller);
	if (found.n == 0)
		return false;
	a->owner = DatumGetObjectId(atp_get(atp_result_row(found, 0), "owner", OIDOID, &isnull));
	a->target = atp_get_text(atp_result_row(found, 0), "target");
	atp_result_free(found);
	return has_privs_of_role(user, a->owner) || has_privs_of_role(user, ROLE_PG_MONITOR);
}

static int64
ask_as_owner(const Accounts *a, const char *sql, const AtpArg *args, int nargs)
{
	AtpCaller	caller = atp_owner_begin(a->owner);
	AtpResult	found = atp_query(atp_expand_sql(sql, a->target), args, nargs);
	int64		n = atp_get_int8(atp_result_row(found, 0), "n");

	atp_result_free(found);
	atp_owner_end(caller);
	return n;
}

/* Proofs whose repository has made no commit since; read in pages, because the owner may not read the table of proofs. */
static void
count_present(Accounts *a)
{
	AtpArg		after = {(Datum) 0, atp_type("did"), true};
	uint64		n;

	do
	{
		AtpCaller	caller = atp_as_table_owner("proof_result");
		AtpResult	found = atp_query(atp_identity_sql("SELECT array_agg(did ORDER BY did) AS dids, array_agg(rev ORDER BY did) AS revs, count(*) AS n,"
													   " (array_agg(did ORDER BY did DESC))[1] AS last"
													   " FROM (SELECT did, rev FROM atproto.proof_result WHERE subscription = $1 AND proved_set = $2 AND equal"
													   "  AND target = $5 AND ($3 IS NULL OR did OPERATOR(@.>) $3) ORDER BY did LIMIT $4) p"),
									  ATP_ARGS(a->subscription, a->set, after, atp_int4_arg(SOME), a->of));
		AtpTuple	row = atp_result_row(found, 0);

		atp_owner_end(caller);
		n = atp_get_int8(row, "n");
		if (n > 0)
		{
			a->present += ask_as_owner(a, "SELECT count(*) AS n FROM unnest($1, $2) u (did, rev) JOIN #.repo r ON r.did OPERATOR(@.=) u.did"
									   " WHERE r.active AND r.rev OPERATOR(@.>) u.rev IS NOT TRUE AND r.history_rev OPERATOR(@.>) u.rev IS NOT TRUE",
									   ATP_ARGS(atp_get_arg(row, "dids", get_array_type(atp_type("did"))), atp_get_arg(row, "revs", get_array_type(atp_type("tid")))));
			after = (AtpArg) {datumCopy(atp_get_arg(row, "last", atp_type("did")).value, false, -1), atp_type("did"), false};
		}
		atp_result_free(found);
	} while (n == SOME);
}

/* SQL: atproto_internal.proof_accounts(target, subscription, proved_set) */
Datum
atp_proof_accounts(PG_FUNCTION_ARGS)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	Accounts	a = {.of = ATP_FUNCTION_ARG(0, NAMEOID), .subscription = ATP_FUNCTION_ARG(1, TEXTOID), .set = ATP_FUNCTION_ARG(2, INT8OID)};
	bool		nulls[2] = {true, true};
	Datum		values[2] = {0};
	TupleDesc	desc;
	HeapTuple	tuple;
	MemoryContext old;
	int			nest;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);
	SPI_connect();
	nest = atp_caller_begin();
	if (find_subscription(&a))
	{
		a.accounts = ask_as_owner(&a, "SELECT count(*) AS n FROM #.repo WHERE " PROVABLE, ATP_NO_ARGS);
		count_present(&a);
		values[0] = Int64GetDatum(a.accounts);
		values[1] = Int64GetDatum(a.present);
		nulls[0] = nulls[1] = false;
	}
	atp_caller_end(nest);
	old = MemoryContextSwitchTo(caller_cxt);
	tuple = heap_form_tuple(desc, values, nulls);
	MemoryContextSwitchTo(old);
	SPI_finish();
	return HeapTupleGetDatum(tuple);
}

/* ------------------------------------------------------------------------
 * await_proof()
 * ------------------------------------------------------------------------
 */
typedef struct Progress
{
	int64		done;
	int64		waiting;
	int64		refused;
	char	   *first;			/* an error of a refused account */
	bool		unserved;
} Progress;

static Progress
read_progress(const char *target, Oid role)
{
	int			nest = atp_waiting_step();
	AtpCaller	caller = atp_as_table_owner("proof_result");
	AtpResult	found = atp_query("SELECT count(*) FILTER (WHERE p.state = 'done') AS done, count(*) FILTER (WHERE p.state <> 'done' AND p.error IS NULL) AS waiting,"
								  " count(*) FILTER (WHERE p.state <> 'done' AND p.error IS NOT NULL) AS refused, min(p.did::text || ': ' || p.error) AS first,"
								  " (SELECT atproto.why_not_served() OFFSET 0) IS NOT NULL AS unserved"
								  " FROM atproto.proof_result p JOIN atproto.subscription s ON s.name = p.subscription"
								  " WHERE p.target = $1::name AND pg_has_role($2, s.owner::oid, 'USAGE')",
								  ATP_ARGS(atp_text_arg(target), (AtpArg) {ObjectIdGetDatum(role), OIDOID, false}));
	AtpTuple	row = atp_result_row(found, 0);
	Progress	progress = {
		atp_get_int8(row, "done"), atp_get_int8(row, "waiting"), atp_get_int8(row, "refused"), atp_get_text_or_null(row, "first"), atp_get_bool(row, "unserved")
	};

	atp_owner_end(caller);
	atp_result_free(found);
	AtEOXact_GUC(false, nest);
	return progress;
}

/* SQL: CALL atproto.await_proof(target, timeout) */
Datum
atp_await_proof(PG_FUNCTION_ARGS)
{
	AtpTime		begin = atp_now();
	AtpTime		told = begin;
	AtpTime		served = begin;
	int			timeout_ms = PG_ARGISNULL(1) ? -1 : atp_interval_ms(PG_GETARG_INTERVAL_P(1));
	MemoryContext cxt;
	char	   *target;
	Progress	progress;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("target");
	atp_waiting_begin(fcinfo, "atproto.await_proof", "It ends transactions, so that it sees what others do.");
	target = pstrdup(NameStr(*PG_GETARG_NAME(0)));
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto await proof", ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		MemoryContextReset(cxt);
		MemoryContextSwitchTo(cxt);
		progress = read_progress(target, GetUserId());
		if (progress.waiting == 0)
			break;
		if (!progress.unserved)
			served = atp_now();
		if ((timeout_ms >= 0 && atp_remaining(atp_now(), begin, timeout_ms) == 0) || atp_remaining(atp_now(), served, UNSERVED_MS) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_QUERY_CANCELED),
					 errmsg("the proofs of schema \"%s\" have not ended yet", target),
					 errdetail(INT64_FORMAT " accounts were compared; " INT64_FORMAT " are to be compared.", progress.done, progress.waiting),
					 errhint("They go on: see view \"%s\".", "atproto.proof")));
		if (atp_remaining(atp_now(), told, NOTICE_MS) == 0)
		{
			ereport(NOTICE,
					(errmsg(INT64_FORMAT " accounts compared, " INT64_FORMAT " to go, " INT64_FORMAT " refused", progress.done, progress.waiting, progress.refused)));
			told = atp_now();
		}
		atp_waiting_pause(PAUSE_MS);
	}
	if (progress.refused > 0)
		ereport(WARNING,
				(errmsg(INT64_FORMAT " accounts could not be compared", progress.refused),
				 errdetail("%s", progress.first),
				 errhint("They are tried again later: see view \"%s\".", "atproto.proof_result")));
	SPI_finish();
	PG_RETURN_VOID();
}
