/*
 * refill.c
 *		SQL: atproto.refill(): has events that were processed before read again.
 *
 * Each repository's row has the subscription that reads it again, and the progress (table_repo.c).  A
 * refill adds records that are missing, and never replaces newer rows.  Records of a deleted
 * account stay deleted.
 *
 * A record that is read again may have been deleted by a later commit.  This is certain only when
 * the commits read again form a chain up to the repository's revision (V-31 to V-33).  Until then
 * the repository is unproven.  If a commit of the chain is missing, the records that the refill
 * wrote are removed, and the repository is marked (repo_refill.c).
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/target.h"
#include "fmgr.h"
#include "source.h"
#include "stream/rev_cache.h"
#include "tables/base/audit_request.h"
#include "tables/base/gap.h"
#include "tables/base/table.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(atp_refill);

static AtpSubscription *
find_subscription(const char *name)
{
	AtpSubscription *sub = atp_subscription_borrow(name, CurrentMemoryContext);

	if (!sub->source->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscription \"%s\" is not about repositories", name),
				 errhint("Use atproto.set_cursor(): its tables take repeats without harm.")));
	if (!sub->settings.keep_records && sub->settings.events != ATP_EVENTS_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscription \"%s\" keeps no records", name),
				 errdetail("Without them nobody can tell which events change something when they are read again.")));
	return sub;
}

/*
 * The lock keeps consumers from changing repositories meanwhile: a batch that is being applied ends
 * first, and the next batch finds the cursor moved.
 */
static uint64
mark_repos(const AtpSubscription *sub, AtpArg dids)
{
	AtpCaller	caller = atp_target_begin(sub);
	AtpResult	found;
	uint64		n;

	atp_run(atp_expand_sql("LOCK TABLE #.repo IN SHARE ROW EXCLUSIVE MODE", sub->target), ATP_NO_ARGS);
	/* a deleted repository without a new commit has nothing to be read again: its last commit is not newer than deleted_rev */
	n = atp_run(atp_expand_sql("UPDATE #.repo SET refill_by = $1, refill_rev = deleted_rev, refill_data = NULL, refill_first = NULL,"
							   " refill_sync = NULL, refill_to = rev, refill_at = clock_timestamp()"
							   " WHERE rev IS NOT NULL AND (active OR status IS DISTINCT FROM 'deleted')"
							   " AND (deleted_rev OPERATOR(@.=) rev) IS NOT TRUE"
							   " AND ($2 IS NULL OR did OPERATOR(@.=) ANY ($2))", sub->target),
				ATP_ARGS(atp_text_arg(sub->id), dids));
	found = atp_query(atp_expand_sql("SELECT FROM #.repo WHERE " ATP_IS_AUDITED " LIMIT 1", sub->target), ATP_NO_ARGS);
	atp_owner_end(caller);
	/* this refill may replace a refill of a different subscription, whose records only an audit can prove */
	if (found.n > 0)
		atp_audit_request(sub->target);
	atp_result_free(found);
	return n;
}

/* SQL: atproto.refill(name, dids, seq) */
Datum
atp_refill(PG_FUNCTION_ARGS)
{
	AtpArg		name = ATP_FUNCTION_ARG(0, TEXTOID);
	AtpArg		seq = ATP_FUNCTION_ARG(2, INT8OID);
	int			nest;
	uint64		n;

	if (name.isnull || seq.isnull)
		atp_argument_is_null(name.isnull ? "name" : "seq");
	if (!PG_ARGISNULL(1) && array_contains_nulls(PG_GETARG_ARRAYTYPE_P(1)))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("dids must not contain nulls"),
				 errhint("For all repositories, use NULL in place of the array.")));
	SPI_connect();
	nest = atp_caller_begin();
	atp_rev_cache_forget_at_commit();
	(void) find_subscription(TextDatumGetCString(name.value));
	/* the subscription before the repositories, in the order of a session that changes the target; set_cursor() needs the same lock */
	atp_run_unnamed("SELECT FROM atproto.subscription WHERE name = $1 FOR NO KEY UPDATE", ATP_ARGS(name));
	n = mark_repos(find_subscription(TextDatumGetCString(name.value)),
				   ATP_FUNCTION_ARG(1, get_array_type(atp_type("did"))));
	atp_run_unnamed("SELECT atproto.set_cursor($1, $2)", ATP_ARGS(name, seq));
	atp_gap_read_by_another(TextDatumGetCString(name.value));
	if (PG_ARGISNULL(1))
		atp_gap_read_again(TextDatumGetCString(name.value), DatumGetInt64(seq.value));
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_INT64(n);
}
