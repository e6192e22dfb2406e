/*
 * audit_share.c
 *		Audits some repositories of a target, and writes the results into table repo.
 *
 * The repositories are read in a single snapshot, without locks, so a consumer waits only while
 * results are written.  A result is written only if the repository is still at the audited commit,
 * and its row unchanged.  A repository that has moved on is audited again under the row's lock,
 * since busy repositories would never be found unchanged.
 *
 * maintain_partitions() removes the records of old months in steps, and a step changes no row of a
 * repository that claims nothing.  So of a target in partitions every result is made again under the
 * row's lock, which the step takes, too: partition_claims.c.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "common/clock.h"
#include "config/extension.h"
#include "identity/identity.h"
#include "common/injection.h"
#include "miscadmin.h"
#include "tables/audit/audit.h"
#include "tables/audit/audit_share.h"
#include "tables/base/distributed.h"
#include "tables/base/job.h"
#include "tables/base/proved_set.h"
#include "tables/base/table.h"
#include "types/types.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

/* A share ends after so many records, or so much time, or limit repositories. */
#define SHARE_RECORDS	100000
#define SHARE_TIME	INT64CONST(200000)	/* microseconds */

typedef struct AuditShare
{
	const char *target;
	AtpAuditCounts *counts;
	AtpAudit   *audits;
	int			n;
	int		   *changed;		/* indexes of audits with a result different from the row's sync */
	int			nchanged;
} AuditShare;

static const char *
sync_of(const AtpAudit *audit)
{
	return audit->equal ? "synchronized" : "desynchronized";
}

/* During a fetch (resyncing) the fetcher sets sync, so an audit does not. */
static bool
is_changed(const AtpAudit *audit)
{
	return audit->judged &&
		(audit->sync == NULL || (strcmp(audit->sync, sync_of(audit)) != 0 && strcmp(audit->sync, "resyncing") != 0));
}

static void
count_audit(AtpAuditCounts *counts, const AtpAudit *audit)
{
	if (audit->judged)
		*(audit->equal ? &counts->synchronized : &counts->desynchronized) += 1;
	else if (strcmp(audit->reason, "filtered") == 0)
		counts->filtered++;
}

/* Audit all repositories in a single snapshot. */
static void
audit_rows(AuditShare *share, const char *sql, AtpArg arg)
{
	AtpTime		began = atp_now();
	int64		records = 0;
	AtpResult	found;
	AtpAuditor *auditor;

	PushActiveSnapshot(GetTransactionSnapshot());
	found = atp_audit_look(atp_expand_sql(sql, share->target), arg);
	auditor = atp_auditor_begin(share->target, false);
	share->audits = palloc(sizeof(AtpAudit) * Max(found.n, 1));
	share->changed = palloc(sizeof(int) * Max(found.n, 1));
	while (share->n < found.n && (share->n == 0 || (records < SHARE_RECORDS && atp_now() - began < SHARE_TIME)))
	{
		AtpAudit   *audit = &share->audits[share->n];

		CHECK_FOR_INTERRUPTS();
		atp_audit_read(audit, atp_result_row(found, share->n));
		atp_audit_judge(auditor, audit);
		records += audit->records;
		if (is_changed(audit))
			share->changed[share->nchanged++] = share->n;
		else
			count_audit(share->counts, audit);
		share->n++;
		share->counts->repos++;
	}
	atp_auditor_end(auditor);
	PopActiveSnapshot();
	atp_result_free(found);
	share->counts->records += records;
	ATP_INJECTION_POINT("repositories audited");
}

static AtpArg
array_arg(Oid type, Datum *values, int n)
{
	int16		len;
	bool		byval;
	char		align;

	get_typlenbyvalalign(type, &len, &byval, &align);
	return (AtpArg) {PointerGetDatum(construct_array(values, n, type, len, byval, align)), get_array_type(type), false};
}

/* An array of the values that get() returns for the changed audits. */
static AtpArg
column_arg(const AuditShare *share, Oid type, Datum (*get) (const AtpAudit *))
{
	Datum	   *values = palloc(sizeof(Datum) * share->nchanged);

	for (int i = 0; i < share->nchanged; i++)
		values[i] = get(&share->audits[share->changed[i]]);
	return array_arg(type, values, share->nchanged);
}

static Datum
get_did(const AtpAudit *audit)
{
	return PointerGetDatum(audit->did);
}

static Datum
get_sync(const AtpAudit *audit)
{
	return PointerGetDatum(atp_varlena(sync_of(audit), strlen(sync_of(audit))));
}

static Datum
get_rev(const AtpAudit *audit)
{
	return AtpTidGetDatum(audit->rev);
}

static Datum
get_data(const AtpAudit *audit)
{
	return PointerGetDatum(audit->data);
}

static Datum
get_updated_at(const AtpAudit *audit)
{
	return audit->updated_at;
}

#define JUDGED	"unnest($1, $2, $3, $4, $5) u (did, sync, rev, data, updated_at)"
#define AS_JUDGED \
	"p.did OPERATOR(@.=) u.did AND p.rev OPERATOR(@.=) u.rev AND p.data OPERATOR(@.=) u.data" \
	" AND COALESCE(p.updated_at, '-infinity') = u.updated_at AND p.sync IS DISTINCT FROM 'resyncing'"

/* P-40: only a target without filters is audited (V-45), so the tables have the records of all collections. */
#define PROVED(row) \
	"proved = CASE WHEN u.sync = 'synchronized' THEN 0 ELSE " row ".proved END," \
	" proved_rev = CASE WHEN u.sync = 'synchronized' THEN " row ".rev ELSE " row ".proved_rev END"

/*
 * The tables have all records of these repositories, at these revisions.  No source may have brought the commit that has
 * removed the record of a dead letter: so note in the letters that retry() must not write the record.  A letter of a whole
 * event needs no note: retry() inserts no record of an old event.
 */
static void
supersede_letters(const char *target, AtpArg dids, AtpArg revs)
{
	AtpCaller	caller = atp_as_table_owner("dead_letter");

	atp_run(atp_identity_sql("UPDATE atproto.dead_letter d SET superseded_rev = u.rev FROM unnest($2, $3) u (did, rev), atproto.subscription s"
							 " WHERE d.did OPERATOR(@.=) u.did AND d.seq IS NOT NULL AND d.path LIKE '%/%' AND s.name = d.subscription AND s.target = $1::name"
							 "  AND (d.superseded_rev IS NULL OR d.superseded_rev OPERATOR(@.<) u.rev)"),
			ATP_ARGS(atp_text_arg(target), dids, revs));
	atp_owner_end(caller);
}

/*
 * Write the results of repositories that are still at the audited commit and state; lock rows in
 * the order of DIDs.  The remaining audits stay in changed[].  updated_at is compared, too, since
 * an export of the same commit may have changed the rows.
 */
static void
write_results(AuditShare *share)
{
	const char *sql = atp_is_distributed(get_relname_relid("repo", get_namespace_oid(share->target, false)))
	/* Citus cannot SELECT ... FOR UPDATE across nodes */
	? "UPDATE #.repo p SET sync = u.sync, " PROVED("p") ", audited_at = now(), updated_at = now() FROM " JUDGED
	" WHERE " AS_JUDGED " RETURNING p.did"
	: "UPDATE #.repo r SET sync = u.sync, " PROVED("r") ", audited_at = now(), updated_at = now() FROM"
	" (SELECT p.did, u.sync FROM " JUDGED " JOIN #.repo p ON " AS_JUDGED
	"  ORDER BY p.did USING OPERATOR(@.<) FOR NO KEY UPDATE OF p) u"
	" WHERE r.did OPERATOR(@.=) u.did RETURNING r.did";
	AtpResult	settled = atp_query(atp_expand_sql(sql, share->target),
									ATP_ARGS(column_arg(share, atp_type("did"), get_did), column_arg(share, TEXTOID, get_sync),
											 column_arg(share, atp_type("tid"), get_rev), column_arg(share, atp_type("cidlink"), get_data),
											 column_arg(share, TIMESTAMPTZOID, get_updated_at)));
	const struct varlena **dids = palloc(sizeof(struct varlena *) * Max(settled.n, 1));
	struct varlena **wrong = palloc(sizeof(struct varlena *) * Max(share->nchanged, 1));
	Datum	   *proven = palloc(sizeof(Datum) * Max(share->nchanged, 1));
	Datum	   *revs = palloc(sizeof(Datum) * Max(share->nchanged, 1));
	int			nwrong = 0;
	int			nproven = 0;
	int			left = 0;

	for (uint64 i = 0; i < settled.n; i++)
		dids[i] = (const struct varlena *) atp_get_copy(atp_result_row(settled, i), "did", atp_type("did"));
	qsort(dids, settled.n, sizeof(struct varlena *), atp_compare_did_refs);
	for (int i = 0; i < share->nchanged; i++)
	{
		int			k = share->changed[i];
		const struct varlena *did = share->audits[k].did;

		if (bsearch(&did, dids, settled.n, sizeof(struct varlena *), atp_compare_did_refs) == NULL)
			share->changed[left++] = k;
		else
		{
			count_audit(share->counts, &share->audits[k]);
			if (!share->audits[k].equal)
				wrong[nwrong++] = share->audits[k].did;
			else
			{
				proven[nproven] = get_did(&share->audits[k]);
				revs[nproven++] = get_rev(&share->audits[k]);
			}
		}
	}
	share->nchanged = left;
	/* repositories with wrong records are fetched again */
	if (nwrong > 0)
		atp_jobs_repair(share->target, wrong, atp_sort_dids(wrong, nwrong), ATP_JOB_BREAK, "audit");
	if (nproven > 0)
		supersede_letters(share->target, array_arg(atp_type("did"), proven, nproven), array_arg(atp_type("tid"), revs, nproven));
	atp_result_free(settled);
}

/* Can records go while the rows of their repositories stay as they are? */
static bool
loses_months(const char *target)
{
	Oid			relid = get_relname_relid(atp_record_table.name, get_namespace_oid(target, false));

	return OidIsValid(relid) && get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE;
}

/* Audit a repository under its row's lock, while no session can change the repository. */
static void
audit_locked(AuditShare *share, AtpArg did)
{
	AuditShare	one = {.target = share->target, .counts = share->counts};
	int64		repos = share->counts->repos;

	atp_run(atp_expand_sql("SELECT FROM #.repo WHERE did OPERATOR(@.=) $1 FOR NO KEY UPDATE", share->target), ATP_ARGS(did));
	audit_rows(&one, "SELECT " ATP_AUDIT_COLUMNS " FROM #.repo WHERE did OPERATOR(@.=) $1", did);
	share->counts->repos = repos;
	if (one.nchanged > 0)
		write_results(&one);
}

uint64
atp_audit_share(const char *target, const char *sql, AtpArg arg, int limit,
				AtpAuditCounts *counts, struct varlena **last)
{
	MemoryContext outer = CurrentMemoryContext;
	MemoryContext cxt = AllocSetContextCreate(outer, "atproto audits", ALLOCSET_DEFAULT_SIZES);
	AuditShare	share = {.target = target, .counts = counts};

	MemoryContextSwitchTo(cxt);
	/* before the look at the filters: no session changes a filter until the results are committed */
	atp_proved_lock(target, false);
	audit_rows(&share, psprintf("%s LIMIT %d", sql, limit), arg);
	if (share.nchanged > 0 && !loses_months(target))
		write_results(&share);
	for (int i = 0; i < share.nchanged; i++)
		audit_locked(&share, atp_did_arg(share.audits[share.changed[i]].did));
	MemoryContextSwitchTo(outer);
	if (share.n > 0)
		*last = PG_DETOAST_DATUM_COPY(PointerGetDatum(share.audits[share.n - 1].did));
	MemoryContextDelete(cxt);
	return share.n;
}
