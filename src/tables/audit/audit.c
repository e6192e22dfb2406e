/*
 * audit.c
 *		Audits: are the records in the tables exactly the records that the account has signed?
 *		(V-45, V-46)
 *
 * The audit builds the tree over all rows of a repository, and compares the root with the root of
 * the stored commit.  All reads use a single snapshot, and nothing comes from the network.  The
 * current user's rights on the tables count.
 *
 * If Citus keeps the rows, the node with the rows builds the tree (audit_there.c).
 */
#include "postgres.h"

#include "config/extension.h"
#include "core/codec/cid.h"
#include "data/repo_tree.h"
#include "identity/identity.h"
#include "tables/audit/audit.h"
#include "tables/audit/audit_rows.h"
#include "tables/audit/audit_there.h"
#include "tables/base/table.h"
#include "types/types.h"
#include "utils/memutils.h"

struct AtpAuditor
{
	const char *target;
	bool		deep;
	bool		filtered;
	bool		there;			/* Citus keeps the rows, and their node builds the tree */
	AtpAuditRows *rows;			/* NULL: not opened yet */
	MemoryContext cxt;			/* values of some rows */
	AtpMstBuilder *tree;		/* memory is reused for each repository */
};

#define MANY	100				/* rows after which cxt is reset */

/* Query in the active snapshot; atp_query() would take a new snapshot. */
AtpResult
atp_audit_look_all(const char *sql, const AtpArg *args, int nargs)
{
	MemoryContext old = CurrentMemoryContext;
	Oid			types[ATP_AUDIT_LOOK_ARGS] = {0};
	Datum		values[ATP_AUDIT_LOOK_ARGS] = {0};
	char		nulls[ATP_AUDIT_LOOK_ARGS] = {0};
	int			rc;

	Assert(nargs <= ATP_AUDIT_LOOK_ARGS);
	for (int i = 0; i < nargs; i++)
	{
		types[i] = args[i].type;
		values[i] = args[i].value;
		nulls[i] = args[i].isnull ? 'n' : ' ';
	}
	rc = SPI_execute_with_args(sql, nargs, types, values, nulls, true, 0);

	/* SPI has changed the current memory context */
	MemoryContextSwitchTo(old);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(rc));
	return (AtpResult) {SPI_processed, SPI_tuptable};
}

AtpResult
atp_audit_look(const char *sql, AtpArg arg)
{
	return atp_audit_look_all(sql, &arg, 1);
}

/*
 * Does a subscription leave out some records of its repositories?  Looked up as the table's owner,
 * since the caller may not see the subscription.
 */
bool
atp_audit_is_filtered(const char *target)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found;

	found = atp_audit_look("SELECT FROM atproto.subscription WHERE target = $1::name"
						   " AND by_repo"
						   " AND (collections IS NOT NULL OR actions IS NOT NULL OR NOT keep_records)"
						   " AND atproto.role_may_fill(owner, target, target_owner) LIMIT 1",
						   atp_text_arg(target));
	atp_owner_end(caller);
	atp_result_free(found);
	return found.n > 0;
}

struct varlena *
atp_audit_copy(AtpTuple row, const char *column, const char *type)
{
	bool		isnull;
	Datum		value = atp_get(row, column, atp_type(type), &isnull);

	return isnull ? NULL : PG_DETOAST_DATUM_COPY(value);
}

void
atp_audit_read(AtpAudit *audit, AtpTuple row)
{
	bool		isnull;

	memset(audit, 0, sizeof(AtpAudit));
	audit->did = atp_get_copy(row, "did", atp_type("did"));
	audit->rev = DatumGetAtpTid(atp_get(row, "rev", atp_type("tid"), &isnull));
	audit->has_rev = !isnull;
	audit->data = atp_audit_copy(row, "data", "cidlink");
	audit->sync = atp_get_text_or_null(row, "sync");
	audit->deleted = atp_get_bool(row, "deleted");
	audit->updated_at = atp_get(row, "updated_at", TIMESTAMPTZOID, &isnull);
	audit->purge_rev = atp_get_arg(row, "purge_rev", atp_type("tid"));
}

AtpAuditor *
atp_auditor_begin(const char *target, bool deep)
{
	AtpAuditor *auditor = palloc0(sizeof(AtpAuditor));

	auditor->target = target;
	auditor->deep = deep;
	auditor->filtered = atp_audit_is_filtered(target);
	auditor->there = atp_audit_is_there(target);
	auditor->cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto audited values", ALLOCSET_DEFAULT_SIZES);
	auditor->tree = atp_tree_make();
	return auditor;
}

void
atp_auditor_end(AtpAuditor *auditor)
{
	if (auditor->rows != NULL)
		atp_audit_rows_close(auditor->rows);
	MemoryContextDelete(auditor->cxt);
	atp_tree_free(auditor->tree);
	pfree(auditor);
}

static bool
value_of_row_fits(AtpAuditor *auditor, const AtpAuditRow *row)
{
	MemoryContext old = MemoryContextSwitchTo(auditor->cxt);
	bool		fits = atp_record_fits(row->cid, row->has_value ? row->value : (Datum) 0, row->packed,
									   row->has_raw ? DatumGetByteaPP(row->raw) : NULL);

	MemoryContextSwitchTo(old);
	return fits;
}

/*
 * Add a row to the tree.  False: the row alone proves that the account did not sign these records.
 */
static bool
add_row(AtpAuditor *auditor, const AtpAuditRow *row)
{
	/* a user may have dropped the constraints */
	if (row->path.ptr == NULL || row->cid.ptr == NULL)
		return false;
	return atp_tree_add(auditor->tree, row->path, row->cid) && (!auditor->deep || value_of_row_fits(auditor, row));
}

/* Add all rows of the repository.  False: a row is invalid. */
static bool
add_rows(AtpAuditor *auditor, AtpAudit *audit)
{
	AtpArg		did = atp_did_arg(audit->did);
	AtpAuditRow row;
	bool		fit = true;

	if (auditor->rows == NULL)
		auditor->rows = atp_audit_rows_open(auditor->target, auditor->deep);
	atp_audit_rows_of(auditor->rows, did, audit->purge_rev);
	while (atp_audit_rows_next(auditor->rows, &row))
	{
		fit = add_row(auditor, &row) && fit;
		if (++audit->records % MANY == 0)
			MemoryContextReset(auditor->cxt);
	}
	return fit;
}

/* The reason why a repository cannot be judged, from its row; NULL: the records decide. */
static const char *
reason_of_state(const AtpAuditor *auditor, const AtpAudit *audit)
{
	if (audit->data == NULL)
		return "unknown";
	if (audit->deleted)
		return "deleted";
	return auditor->filtered ? "filtered" : NULL;
}

/* Compare the root with the commit's; fit: no row is invalid by itself. */
static void
compare_roots(AtpAudit *audit, struct varlena *root, bool fit)
{
	audit->judged = true;
	audit->root = root;
	audit->equal = fit && root != NULL && VARSIZE_ANY_EXHDR(audit->data) == VARSIZE_ANY_EXHDR(root) &&
		memcmp(VARDATA_ANY(audit->data), VARDATA_ANY(root), VARSIZE_ANY_EXHDR(root)) == 0;
	audit->reason = audit->equal ? NULL : fit ? "other records" : "invalid rows";
}

static void
build_tree(AtpAuditor *auditor, AtpAudit *audit)
{
	bool		fit;

	atp_tree_begin(auditor->tree);
	fit = add_rows(auditor, audit);
	compare_roots(audit, atp_tree_root(auditor->tree), fit);
}

/*
 * Let the node that has the rows build the tree; the node reads the repository's row in the same
 * snapshot.
 */
static void
ask_node(AtpAuditor *auditor, AtpArg did, AtpAudit *audit)
{
	AtpAuditFound found;

	if (!atp_audit_ask(auditor->target, auditor->deep, did, audit, &found))
	{
		audit->reason = "unknown";
		return;
	}
	audit->reason = reason_of_state(auditor, audit);
	if (audit->reason != NULL)
		return;
	audit->records = found.records;
	compare_roots(audit, found.root, found.fit);
}

void
atp_audit_judge(AtpAuditor *auditor, AtpAudit *audit)
{
	audit->reason = reason_of_state(auditor, audit);
	if (audit->reason != NULL)
		return;
	if (auditor->there)
		ask_node(auditor, atp_did_arg(audit->did), audit);
	else
		build_tree(auditor, audit);
}

void
atp_audit_one(AtpAuditor *auditor, AtpArg did, AtpAudit *audit)
{
	AtpResult	found;

	memset(audit, 0, sizeof(AtpAudit));
	audit->reason = "unknown";
	if (auditor->there)
	{
		ask_node(auditor, did, audit);
		return;
	}
	found = atp_audit_look(atp_expand_sql("SELECT " ATP_AUDIT_COLUMNS " FROM #.repo WHERE did OPERATOR(@.=) $1", auditor->target), did);
	if (found.n > 0)
	{
		atp_audit_read(audit, atp_result_row(found, 0));
		atp_audit_judge(auditor, audit);
	}
	atp_result_free(found);
}
