/*
 * audit.c
 *		Are the records in the tables those that the account has signed? (V-45, V-46)
 *
 * The tree over all rows of a repository is built and its root compared with that
 * of the last commit.  Only what is read in one snapshot is compared; nothing is
 * taken from the network.  The current user's rights on the tables are what counts.
 */
#include "postgres.h"

#include "config/extension.h"
#include "core/cid.h"
#include "core/mst_root.h"
#include "data/jsonb_read.h"
#include "identity/identity.h"
#include "sha256.h"
#include "tables/audit.h"
#include "tables/audit_rows.h"
#include "tables/table.h"
#include "types/types.h"
#include "utils/memutils.h"

struct AtpAuditor
{
	const char *target;
	bool		deep;
	bool		filtered;
	AtpAuditRows *rows;			/* NULL: none were read yet */
	MemoryContext cxt;			/* for the values of some rows */
	AtpMstBuilder tree;			/* its room is used again */
};

#define MANY	100				/* rows after which memory for their values is given back */

/* Rows in the snapshot that is active; like atp_query(), which takes a new one. */
AtpResult
atp_audit_look(const char *sql, AtpArg arg)
{
	MemoryContext old = CurrentMemoryContext;
	char		null = arg.isnull ? 'n' : ' ';
	int			rc = SPI_execute_with_args(sql, 1, &arg.type, &arg.value, &null, true, 0);

	/* SPI leaves its own behind */
	MemoryContextSwitchTo(old);
	if (rc != SPI_OK_SELECT)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(rc));
	return (AtpResult) {SPI_processed, SPI_tuptable};
}

/*
 * Does a subscription leave out some of the records of its repositories?  Whoever
 * asks: he need not see the subscription.
 */
static bool
is_filtered(const char *target)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found;

	found = atp_audit_look("SELECT FROM atproto.subscription WHERE target = $1::name"
				 " AND by_repo"
				 " AND (collections IS NOT NULL OR actions IS NOT NULL OR NOT keep_records) LIMIT 1",
				 atp_text_arg(target));
	atp_owner_end(caller);
	atp_result_free(found);
	return found.n > 0;
}

/* V-46: do the bytes of a record have this CID? */
static bool
is_of(const bytea *bytes, AtpBytes cid)
{
	uint8_t		binary[ATP_CID_BLESSED_LEN] = {1, ATP_CID_CODEC_DAG_CBOR, ATP_CID_SHA2_256, 32};

	atp_sha256(NULL, (const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), binary + 4);
	return cid.len == sizeof(binary) && memcmp(cid.ptr, binary, sizeof(binary)) == 0;
}

static bool
value_fits(const AtpAuditRow *row)
{
	bytea	   *bytes;

	if (row->has_raw && !is_of(DatumGetByteaPP(row->raw), row->cid))
		return false;
	if (!row->has_value)
		return row->has_raw;
	return atp_dagcbor_of_jsonb(DatumGetJsonbP(row->value), &bytes) == ATP_OK && is_of(bytes, row->cid);
}

static struct varlena *
copy_of(AtpTuple row, const char *column, const char *type)
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
	audit->did = copy_of(row, "did", "did");
	audit->rev = DatumGetAtpTid(atp_get(row, "rev", atp_type("tid"), &isnull));
	audit->has_rev = !isnull;
	audit->data = copy_of(row, "data", "cidlink");
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
	auditor->filtered = is_filtered(target);
	auditor->cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto audited values", ALLOCSET_DEFAULT_SIZES);
	auditor->tree.room = 4 * ATP_MST_ROOT_SPARE;
	auditor->tree.buf = palloc(auditor->tree.room);
	return auditor;
}

void
atp_auditor_end(AtpAuditor *auditor)
{
	if (auditor->rows != NULL)
		atp_audit_rows_close(auditor->rows);
	MemoryContextDelete(auditor->cxt);
	pfree(auditor->tree.buf);
	pfree(auditor);
}

static bool
value_of_row_fits(AtpAuditor *auditor, const AtpAuditRow *row)
{
	MemoryContext old = MemoryContextSwitchTo(auditor->cxt);
	bool		fits = value_fits(row);

	MemoryContextSwitchTo(old);
	return fits;
}

/* One row into the tree.  False: it is not what the account has signed, whatever the tree is. */
static bool
add_row(AtpAuditor *auditor, const AtpAuditRow *row)
{
	AtpMstBuilder *tree = &auditor->tree;

	/* a user may have dropped the constraints */
	if (row->path.ptr == NULL || row->cid.ptr == NULL)
		return false;
	if (auditor->deep && !value_of_row_fits(auditor, row))
		return false;
	if (tree->room - tree->len < ATP_MST_ROOT_SPARE)
	{
		tree->room *= 2;
		tree->buf = repalloc_huge(tree->buf, tree->room);
	}
	atp_mst_root_leaf(tree, row->path, row->cid, atp_mst_height(row->path.ptr, row->path.len, atp_sha256, NULL));
	return tree->err == ATP_OK;
}

/* All rows of the repository.  False: one of them is wrong. */
static bool
add_rows(AtpAuditor *auditor, AtpAudit *audit)
{
	AtpArg		did = {PointerGetDatum(audit->did), atp_type("did"), false};
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

/* Built only where it can be compared. */
static void
compare(AtpAuditor *auditor, AtpAudit *audit)
{
	AtpMstBuilder *tree = &auditor->tree;
	uint8_t		root[ATP_CID_BLESSED_LEN];
	bool		fit;

	atp_mst_root_begin(tree, tree->buf, tree->room, atp_sha256, NULL);
	fit = add_rows(auditor, audit);
	audit->judged = true;
	if (atp_mst_root_end(tree, root) == ATP_OK)
		audit->root = atp_cidlink_make(root, sizeof(root));
	audit->equal = fit && audit->root != NULL && VARSIZE_ANY_EXHDR(audit->data) == sizeof(root) &&
		memcmp(VARDATA_ANY(audit->data), root, sizeof(root)) == 0;
	audit->reason = audit->equal ? NULL : fit ? "other records" : "invalid rows";
}

void
atp_audit_judge(AtpAuditor *auditor, AtpAudit *audit)
{
	if (audit->data == NULL)
		audit->reason = "unknown";
	else if (audit->deleted)
		audit->reason = "deleted";
	else if (auditor->filtered)
		audit->reason = "filtered";
	else
		compare(auditor, audit);
}
