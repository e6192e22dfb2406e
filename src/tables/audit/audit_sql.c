/*
 * audit_sql.c
 *		SQL: atproto.audit() and atproto.audit_all().
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "common/clock.h"
#include "common/command_progress.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/target.h"
#include "fmgr.h"
#include "funcapi.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "tables/audit/audit.h"
#include "tables/audit/audit_share.h"
#include "tables/base/table.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_audit);
PG_FUNCTION_INFO_V1(atp_audit_all);

/* Between two progress notices. */
#define NOTICE_MS	5000

/* The tables that an audit reads. */
static const char *const audited[] = {"repo", "record", NULL};

/* SQL: atproto.audit(did, target, deep) */
Datum
atp_audit(PG_FUNCTION_ARGS)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	const char *target = NameStr(*PG_GETARG_NAME(1));
	TupleDesc	desc;
	AtpAuditor *auditor;
	AtpAudit	audit;
	AtpCaller	caller;
	Datum		values[6] = {0};
	bool		nulls[6] = {0};
	HeapTuple	tuple;
	MemoryContext old;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	desc = BlessTupleDesc(desc);
	SPI_connect();
	caller = atp_visitor_begin(target, audited);
	auditor = atp_auditor_begin(target, PG_GETARG_BOOL(2));
	atp_audit_one(auditor, ATP_FUNCTION_ARG(0, atp_type("did")), &audit);
	atp_auditor_end(auditor);
	atp_owner_end(caller);
	old = MemoryContextSwitchTo(caller_cxt);
	values[0] = BoolGetDatum(audit.equal);
	nulls[0] = !audit.judged;
	nulls[1] = audit.reason == NULL;
	values[1] = nulls[1] ? (Datum) 0 : CStringGetTextDatum(audit.reason);
	values[2] = Int64GetDatum(audit.records);
	nulls[2] = !audit.judged;
	values[3] = PointerGetDatum(audit.root);
	nulls[3] = audit.root == NULL;
	values[4] = PointerGetDatum(audit.data);
	nulls[4] = audit.data == NULL;
	values[5] = AtpTidGetDatum(audit.rev);
	nulls[5] = !audit.has_rev;
	tuple = heap_form_tuple(desc, values, nulls);
	MemoryContextSwitchTo(old);
	SPI_finish();
	return HeapTupleGetDatum(tuple);
}

/* Audit the repositories after *last, in a transaction.  False: no repository is left. */
static bool
walk_on(const char *target, bool atomic, struct varlena **last, AtpAuditCounts *counts)
{
	int			nest = atp_caller_begin();
	AtpArg		after = atp_did_arg(*last);
	AtpCaller	caller;
	uint64		n;

	caller = atp_visitor_begin(target, audited);
	n = atp_audit_share(target,
						"SELECT " ATP_AUDIT_COLUMNS " FROM #.repo WHERE $1 IS NULL OR did OPERATOR(@.>) $1"
						" ORDER BY did USING OPERATOR(@.<)", after, ATP_AUDIT_SHARE, counts, last);
	atp_owner_end(caller);
	if (n > 0 && after.value != (Datum) 0)
		pfree(DatumGetPointer(after.value));
	atp_caller_end(nest);
	if (!atomic)
		SPI_commit();
	return n > 0;
}

static void
tell_end(const AtpAuditCounts *counts)
{
	ereport(NOTICE,
			(errmsg(INT64_FORMAT " repositories were audited", counts->repos),
			 errdetail(INT64_FORMAT " are synchronized, " INT64_FORMAT " desynchronized; " INT64_FORMAT " cannot be judged.",
					   counts->synchronized, counts->desynchronized,
					   counts->repos - counts->synchronized - counts->desynchronized),
			 counts->filtered > 0 ? errhint("A filter of a subscription leaves out some of their records.") : 0));
}

/* SQL: CALL atproto.audit_all(target) */
Datum
atp_audit_all(PG_FUNCTION_ARGS)
{
	/* called within a transaction block or function: no commits in between */
	bool		atomic = atp_call_is_atomic(fcinfo);
	AtpAuditCounts counts = {0};
	AtpTime		told = atp_now();
	struct varlena *last = NULL;
	MemoryContext cxt;
	MemoryContext old;
	const char *target;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("target");
	SPI_connect_ext(atomic ? 0 : SPI_OPT_NONATOMIC);
	/* for data that outlives a transaction */
	cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto audits of all", ALLOCSET_DEFAULT_SIZES);
	old = MemoryContextSwitchTo(cxt);
	target = pstrdup(NameStr(*PG_GETARG_NAME(0)));
	atp_progress_begin("audit_all", target);
	atp_progress_phase("auditing repositories", atp_progress_rows_of(atp_target_relid(target, "repo")));
	while (walk_on(target, atomic, &last, &counts))
	{
		/* the commit has changed the current memory context */
		MemoryContextSwitchTo(cxt);
		atp_progress_to(counts.repos);
		if (atp_remaining(atp_now(), told, NOTICE_MS) > 0)
			continue;
		told = atp_now();
		ereport(NOTICE,
				(errmsg("audited so far: " INT64_FORMAT " repositories, " INT64_FORMAT " records", counts.repos, counts.records)));
	}
	atp_progress_end();
	MemoryContextSwitchTo(old);
	tell_end(&counts);
	SPI_finish();
	PG_RETURN_VOID();
}
