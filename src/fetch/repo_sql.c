/*
 * repo_sql.c
 *		SQL: atproto.resync() and atproto.backfill_repo(): a repository is to be
 *		fetched.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/wake.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "tables/filler.h"
#include "tables/job.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_resync);

/* What was put off, or waits for its account, is tried at once. */
static void
hasten(const char *target, AtpArg did, bool force)
{
	AtpCaller	caller = atp_as_table_owner("repo_job");

	atp_run(atp_identity_sql("UPDATE atproto.repo_job SET next_try = '-infinity', tries = 0, force = force OR $3,"
							 " state = CASE state WHEN 'running' THEN state ELSE 'queued' END"
							 " WHERE target = $1::name AND did OPERATOR(@.=) $2"),
			ATP_ARGS(atp_text_arg(target), did, (AtpArg) {BoolGetDatum(force), BOOLOID, false}));
	atp_owner_end(caller);
}

static void
resync(struct varlena *did, const char *target, bool force)
{
	const AtpSubscription *sub = atp_filler_of(target, did);
	AtpResult	found = atp_query("SELECT FROM atproto.subscription WHERE name = $1 AND backfill = 'none'",
								  ATP_ARGS(atp_text_arg(sub->name)));

	if (found.n > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("subscription \"%s\" fetches no repositories", sub->name),
				 errhint("Set \"backfill\" to \"repair\", or more.")));
	atp_result_free(found);
	(void) atp_jobs_add(sub, &did, 1, ATP_JOB_USER, "asked for");
	hasten(target, (AtpArg) {PointerGetDatum(did), atp_type("did"), false}, force);
	atp_wake_fetcher();
}

/* SQL: atproto.resync(did, target, force) */
Datum
atp_resync(PG_FUNCTION_ARGS)
{
	int			nest;

	SPI_connect();
	nest = atp_caller_begin();
	resync((struct varlena *) PG_GETARG_VARLENA_P(0), NameStr(*PG_GETARG_NAME(1)), PG_GETARG_BOOL(2));
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_VOID();
}
