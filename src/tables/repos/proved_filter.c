/*
 * proved_filter.c
 *		What a change of a subscription's filter does to the claims of its target (P-40).
 *
 * There are few sets, and one UPDATE for each set changes the claims.  Invariant: after the change, each synchronized
 * repository that the subscription follows is proven in exactly the collections of the filter.  If a left-out collection
 * stayed among the proved collections, commits in this collection would pass, and a filter with the collection would
 * find the repository still synchronized.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "config/row_trigger.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/target_rename.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "source.h"
#include "stream/rev_cache.h"
#include "tables/base/distributed.h"
#include "tables/base/table.h"
#include "tables/base/proved_set.h"
#include "tables/repos/multi_source.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"

PG_FUNCTION_INFO_V1(atp_subscription_proved);

/* A claim of repositories. */
typedef struct OldClaim
{
	bool		has_set;		/* false: synchronized without a set, because a subscription keeps no records */
	int64		id;
	AtpProvedSet set;
} OldClaim;

/* Columns of a subscription that select records and accounts. */
static const char *const deciding[] = {"target", "collections", "dids", "slice", "actions", "keep_records"};

static bool
is_runnable(AtpTuple row)
{
	return atp_is_true(row, "enabled") && atp_get_text_or_null(row, "stopped") == NULL;
}

static bool
same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

/* Has the selection of records or accounts changed?  old NULL: the subscription has just been made. */
static bool
selects_others(const AtpTuple *old, AtpTuple row)
{
	if (old == NULL)
		return true;
	for (int i = 0; i < lengthof(deciding); i++)
		if (!same_text(atp_get_text_or_null(*old, deciding[i]), atp_get_text_or_null(row, deciding[i])))
			return true;
	return false;
}

/* Find the possible claims of the target's repositories, without the filter's own claim; returns the number of claims. */
static int
find_claims(const char *target, const AtpProvedSet *kept, OldClaim **claims)
{
	AtpCaller	caller = atp_as_table_owner("proved_set");
	AtpResult	found = atp_query("SELECT id, collections FROM atproto.proved_set WHERE target = $1::name AND id <> $2",
								  ATP_ARGS(atp_text_arg(target), atp_int8_arg(atp_proved_id(kept))));
	int			n = (int) found.n;

	*claims = palloc0(sizeof(OldClaim) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);
		OldClaim   *c = &(*claims)[i];

		c->id = atp_get_int8(row, "id");
		c->has_set = c->id != ATP_PROVED_NONE;
		c->set = atp_proved_set_read(row);
	}
	atp_result_free(found);
	atp_owner_end(caller);
	return n;
}

/* The followed repositories of a claim; table_repo.c has an index of repositories without a set. */
#define FOLLOWED \
	" AND ($4 IS NULL OR did OPERATOR(@.=) ANY ($4)) AND CASE WHEN $5 = 0 THEN true ELSE @.did_slice(did, $5) = $6 END"
#define OF_CLAIM	"proved = $1 AND (sync IN ('synchronized', 'unproven') OR refill_sync IS NOT NULL)" FOLLOWED
#define OF_NO_CLAIM	"proved IS NULL AND $1 IS NULL AND sync = 'synchronized'" FOLLOWED
#define CHANGED \
	"proved = $2, proved_rev = CASE WHEN $2 IS NOT NULL THEN proved_rev END," \
	" sync = CASE WHEN sync = 'synchronized' AND NOT $3 THEN 'partial' ELSE sync END," \
	" refill_sync = CASE WHEN refill_sync = 'synchronized' AND NOT $3 THEN 'partial' ELSE refill_sync END, updated_at = now()"

/* Rows are locked in the order of the DIDs, in which consumers lock them, too; Citus cannot lock rows of several nodes so. */
#define CHANGE_IN_ORDER(which) \
	"WITH l AS MATERIALIZED (SELECT did AS locked FROM #.repo WHERE " which " ORDER BY did FOR NO KEY UPDATE)" \
	" UPDATE #.repo SET " CHANGED " FROM l WHERE did OPERATOR(@.=) l.locked"
#define LOOK(which)		"SELECT FROM #.repo WHERE " which " LIMIT 1"
#define CHANGE(which)	"UPDATE #.repo SET " CHANGED " WHERE " which

/* Change the rows of one claim, with the rights of sub.  settings, kept: the filter of a subscription, and its collections. */
static void
change_claim(const AtpSubscription *sub, const AtpSettings *settings, const OldClaim *old, const AtpProvedSet *kept, bool distributed)
{
	AtpProvedSet common = atp_proved_common(&old->set, kept);
	bool		covers = atp_proved_covers(&old->set, kept);
	AtpArg		args[6] = {
		atp_int8_arg(old->id), atp_int8_arg(common.n > 0 ? atp_proved_id(&common) : 0), atp_bool_arg(covers),
		atp_dids_arg(settings->dids, Max(settings->ndids, 0)), atp_int4_arg((int32) settings->slice.of), atp_int4_arg((int32) settings->slice.number)
	};
	AtpCaller	caller;
	AtpResult	found;

	if (!old->has_set && covers)
		return;
	args[0].isnull = !old->has_set;
	args[1].isnull = common.n == 0;
	args[3].isnull = settings->ndids < 0;
	atp_proved_note(sub->target, &common);
	caller = atp_target_begin(sub);
	/* while a session has locked the table, subscribe() and resume() wait only if there is something to change */
	found = atp_query(atp_expand_sql(old->has_set ? LOOK(OF_CLAIM) : LOOK(OF_NO_CLAIM), sub->target), args, lengthof(args));
	if (found.n > 0)
	{
		atp_run(atp_expand_sql(distributed ? old->has_set ? CHANGE(OF_CLAIM) : CHANGE(OF_NO_CLAIM)
							   : old->has_set ? CHANGE_IN_ORDER(OF_CLAIM) : CHANGE_IN_ORDER(OF_NO_CLAIM), sub->target), args, lengthof(args));
		atp_rev_cache_forget_at_commit();
	}
	atp_result_free(found);
	atp_owner_end(caller);
}

/* create_tables() adds the column to a table of an earlier version; until then no repository of the table has a set. */
static Oid
table_with_claims(const char *target)
{
	Oid			relid = atp_target_relid(target, "repo");

	return OidIsValid(relid) && get_attnum(relid, "proved") != InvalidAttrNumber ? relid : InvalidOid;
}

/* The numbers of sets that repositories of the target name, out of these, as an array; read once for all sets. */
static AtpArg
find_named(const AtpSubscription *sub, AtpArg ids)
{
	AtpCaller	caller = atp_target_begin(sub);
	AtpResult	found = atp_query(atp_expand_sql("SELECT COALESCE(array_agg(DISTINCT proved), '{}') AS ids FROM #.repo WHERE proved = ANY ($1)", sub->target), ATP_ARGS(ids));
	AtpArg		named = atp_get_arg(atp_result_row(found, 0), "ids", INT8ARRAYOID);

	named.value = PointerGetDatum(PG_DETOAST_DATUM_COPY(named.value));
	atp_result_free(found);
	atp_owner_end(caller);
	return named;
}

static bool
has_id(AtpArg ids, int64 id)
{
	Datum	   *values;
	int			n;

	deconstruct_array(DatumGetArrayTypeP(ids.value), INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values, NULL, &n);
	for (int i = 0; i < n; i++)
		if (DatumGetInt64(values[i]) == id)
			return true;
	return false;
}

/* Change the claims by the filter of a subscription of the target, with the rights of sub. */
static void
change_by_filter(const AtpSubscription *sub, const AtpSubscription *filter, Oid relid)
{
	AtpProvedSet kept = atp_proved_kept(&filter->settings);
	OldClaim   *claims;
	int			n = find_claims(sub->target, &kept, &claims);
	Datum	   *ids = palloc(sizeof(Datum) * Max(n, 1));
	AtpArg		named = {(Datum) 0, INT8ARRAYOID, true};

	for (int i = 0; i < n; i++)
		ids[i] = Int64GetDatum(claims[i].id);
	if (n > 1)
		named = find_named(sub, atp_array_arg(INT8OID, ids, NULL, n));
	for (int i = 0; i < n; i++)
		if (named.isnull || !claims[i].has_set || has_id(named, claims[i].id))
			change_claim(sub, &filter->settings, &claims[i], &kept, atp_is_distributed(relid));
}

/* ------------------------------------------------------------------------
 * Sets that nothing names any more
 * ------------------------------------------------------------------------
 */

/* The numbers of the target's sets that no subscription has as filter, and no proof as its collections. */
static AtpArg
find_unneeded(const char *target)
{
	AtpCaller	caller = atp_as_table_owner("proved_set");
	AtpResult	names = atp_query("SELECT name FROM atproto.subscription WHERE target = $1::name AND by_repo", ATP_ARGS(atp_text_arg(target)));
	Datum	   *kept = palloc(sizeof(Datum) * Max(names.n, 1));
	AtpResult	found;
	AtpArg		ids;
	int			n = 0;

	for (uint64 i = 0; i < names.n; i++)
	{
		const AtpSubscription *sub = atp_subscription_get(atp_get_text(atp_result_row(names, i), "name"), CurrentMemoryContext);
		AtpProvedSet set;

		if (sub == NULL)
			continue;
		set = atp_proved_kept(&sub->settings);
		kept[n++] = Int64GetDatum(atp_proved_id(&set));
	}
	atp_result_free(names);
	/* the numbers of all collections and of none are no row's own: repositories may get them at any time */
	found = atp_query("SELECT array_agg(id) AS ids FROM atproto.proved_set q WHERE target = $1::name AND id > 0 AND id <> ALL ($2)"
					  " AND NOT EXISTS (SELECT FROM atproto.proof_result p WHERE p.target = q.target AND p.proved_set = q.id)",
					  ATP_ARGS(atp_text_arg(target), atp_array_arg(INT8OID, kept, NULL, n)));
	ids = atp_get_arg(atp_result_row(found, 0), "ids", INT8ARRAYOID);
	if (!ids.isnull)
		ids.value = PointerGetDatum(PG_DETOAST_DATUM_COPY(ids.value));
	atp_result_free(found);
	atp_owner_end(caller);
	return ids;
}

/*
 * Remove the target's sets that nothing names any more: each change of a filter reads the repositories for each set.  Call
 * with the exclusive lock of the target, so that no transaction is about to name such a set.  A set stays where this
 * transaction may not see each repository: an old snapshot, or row security.
 */
static void
remove_unneeded(const AtpSubscription *sub, Oid relid)
{
	AtpArg		ids = find_unneeded(sub->target);
	AtpArg		named;
	AtpCaller	caller;

	if (ids.isnull || IsolationUsesXactSnapshot() || check_enable_rls(relid, sub->owner, true) == RLS_ENABLED)
		return;
	named = find_named(sub, ids);
	caller = atp_as_table_owner("proved_set");
	atp_run("DELETE FROM atproto.proved_set WHERE target = $1::name AND id = ANY ($2) AND id <> ALL ($3)", ATP_ARGS(atp_text_arg(sub->target), ids, named));
	atp_owner_end(caller);
}

/* ------------------------------------------------------------------------
 * Changes of subscriptions
 * ------------------------------------------------------------------------
 */

/*
 * Take the lock, and write the set of a filter.  In this order: a session with the exclusive lock removes sets that no
 * subscription has, and does not see a subscription whose transaction has not ended.
 */
static void
note_filter(const char *target, const AtpProvedSet *kept, bool exclusive)
{
	atp_proved_lock(target, exclusive);
	atp_proved_note(target, kept);
}

/* Does each subscription keep exactly the collections of this set? */
static bool
keep_all_same(const List *subs, const AtpProvedSet *kept)
{
	const ListCell *lc;

	foreach(lc, subs)
	{
		AtpProvedSet set = atp_proved_kept(&((const AtpSubscription *) lfirst(lc))->settings);

		if (!atp_proved_covers(&set, kept) || !atp_proved_covers(kept, &set))
			return false;
	}
	return true;
}

/* has_former: transactions may claim a former filter of the subscription. */
static void
change_claims(const AtpSubscription *sub, bool has_former)
{
	Oid			relid = table_with_claims(sub->target);
	AtpProvedSet kept = atp_proved_kept(&sub->settings);
	const List *subs = atp_running_subscriptions(sub->target);
	/* transactions that claim the same filter need not end first */
	bool		exclusive = has_former || !keep_all_same(subs, &kept);
	const ListCell *lc;

	note_filter(sub->target, &kept, OidIsValid(relid) && exclusive);
	if (!OidIsValid(relid))
		return;
	change_by_filter(sub, sub, relid);
	/* this filter may have taken a collection from a claim, and a second subscription of the same accounts may want the collection */
	foreach(lc, subs)
	{
		const AtpSubscription *other = lfirst(lc);
		AtpProvedSet wanted = atp_proved_kept(&other->settings);

		if (strcmp(other->name, sub->name) != 0 && !atp_proved_covers(&kept, &wanted))
			change_by_filter(sub, other, relid);
	}
	if (exclusive)
		remove_unneeded(sub, relid);
}

/*
 * The row of a subscription was made (old NULL) or changed.  A consumer of a paused subscription may still be about to
 * end: so a change of its filter waits for transactions that claim the former filter, and resume() need not wait again.
 */
static void
follow_change(const AtpSubscription *sub, const AtpTuple *old, AtpTuple row)
{
	AtpProvedSet kept = atp_proved_kept(&sub->settings);
	bool		differs = selects_others(old, row);

	if (is_runnable(row) && (differs || !is_runnable(*old)))
		change_claims(sub, old != NULL && differs);
	else if (differs)
		/* load_car() proves the filter of a paused subscription, too */
		note_filter(sub->target, &kept, old != NULL);
}

/* SQL: atproto_internal.subscription_proved(), AFTER INSERT or UPDATE, for each row */
Datum
atp_subscription_proved(PG_FUNCTION_ARGS)
{
	AtpRowTrigger call = atp_row_trigger(fcinfo, "subscription_proved", ATP_AFTER_ROW, ATP_ON_ALL);
	const AtpSubscription *sub;

	if (atp_target_is_renamed())
		return PointerGetDatum(NULL);
	SPI_connect();
	sub = atp_subscription_get(atp_get_text(call.row, "name"), CurrentMemoryContext);
	if (sub != NULL && sub->source->by_repo)
		follow_change(sub, call.updated ? &call.old : NULL, call.row);
	SPI_finish();
	return PointerGetDatum(NULL);
}
