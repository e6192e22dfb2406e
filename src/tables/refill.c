/*
 * refill.c
 *		SQL: atproto.refill(): events that were processed are read again.
 *
 * Each repository remembers which subscription reads it again, and how far that has
 * come (repo.c).  What is newer in the tables stays: a refill adds what is
 * missing, and takes nothing back.  What went with a deleted account stays away.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/subscription.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "source.h"
#include "tables/table.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(atp_refill);

static AtpSubscription *
find_subscription(const char *name)
{
	AtpSubscription *sub = atp_subscription_borrow(name, CurrentMemoryContext);

	if (!atp_source_of(sub->ep->nsid)->by_repo)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscription \"%s\" is not about repositories", name),
				 errhint("Use atproto.set_cursor(): its tables take repeats without harm.")));
	if (!sub->settings.keep_records && sub->settings.events != ATP_EVENTS_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscription \"%s\" keeps no records", name),
				 errdetail("They would tell which events change something when they are read again.")));
	return sub;
}

/*
 * Nobody moves the states meanwhile: a batch that is being applied ends first, and
 * the next one finds the cursor moved.  With the owner's rights, not the caller's,
 * and nothing of what its triggers set stays.
 */
static uint64
mark_repos(const AtpSubscription *sub, Oid *types, Datum *args, const char *nulls)
{
	int			nest = NewGUCNestLevel();
	Oid			user;
	int			security;
	uint64		n;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(sub->owner, security | SECURITY_RESTRICTED_OPERATION);
	atp_run_sql(atp_expand_sql("LOCK TABLE #.repo IN SHARE ROW EXCLUSIVE MODE", sub->target), 0, NULL, NULL, NULL);
	n = atp_run_sql(atp_expand_sql("UPDATE #.repo SET refill_by = $1, refill_rev = deleted_rev"
							   " WHERE rev IS NOT NULL AND (active OR status IS DISTINCT FROM 'deleted')"
							   " AND ($2 IS NULL OR did OPERATOR(@.=) ANY ($2))", sub->target),
				2, types, args, nulls);
	AtEOXact_GUC(false, nest);
	SetUserIdAndSecContext(user, security);
	return n;
}

/* SQL: atproto.refill(name, dids, seq) */
Datum
atp_refill(PG_FUNCTION_ARGS)
{
	Oid			types[] = {TEXTOID, get_fn_expr_argtype(fcinfo->flinfo, 1)};
	Oid			cursor_types[] = {TEXTOID, INT8OID};
	Datum		args[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(1)};
	Datum		cursor_args[] = {PG_GETARG_DATUM(0), PG_GETARG_DATUM(2)};
	AtpSubscription *sub;
	int			nest;
	uint64		n;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("name and seq must not be null")));
	SPI_connect();
	/* triggers that wait for the transaction's end would run with the caller's rights: there are none */
	if (SPI_execute("SET CONSTRAINTS ALL IMMEDIATE", false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not set constraints");
	nest = NewGUCNestLevel();
	(void) set_config_option("search_path", "", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	sub = find_subscription(TextDatumGetCString(args[0]));
	n = mark_repos(sub, types, args, PG_ARGISNULL(1) ? " n" : NULL);
	atp_run_sql("SELECT atproto.set_cursor($1, $2)", 2, cursor_types, cursor_args, NULL);
	AtEOXact_GUC(false, nest);
	SPI_finish();
	PG_RETURN_INT64(n);
}
