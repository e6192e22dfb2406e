/*
 * audit_rows.c
 *		Reads the records of a repository in the tree's order.
 *
 * An ordinary table is read by its index (audit_index.c).  A view, a partitioned table, or a table
 * with row security, which a user may have put in its place, is read by a statement with a sort,
 * which is slower and always right.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/spi.h"
#include "executor/executor.h"
#include "nodes/plannodes.h"
#include "tables/audit/audit_index.h"
#include "tables/base/table.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"

#define FETCH	1000			/* rows fetched at a time */

struct AtpAuditRows
{
	bool		with_values;
	AtpAuditIndex *index;		/* NULL: read by statements */
	SPIPlanPtr	plan;
	Portal		portal;			/* NULL: no statement is running */
	SPITupleTable *table;		/* fetched rows */
	uint64		n;
	uint64		i;
	MemoryContext cxt;			/* for detoasted values */
};

static SPIPlanPtr
prepare_plan(const char *sql, const char *target)
{
	SPIPlanPtr	plan = SPI_prepare(atp_expand_sql(sql, target), 2, (Oid[]) {atp_type("did"), atp_type("tid")});

	if (plan == NULL)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	return plan;
}

/*
 * The table's OID, if a statement would only scan the table.  InvalidOid if an extension plans the
 * scan, since its rows may be elsewhere.  ERROR if the current user may not read the table.
 * Planning locks the table.
 */
static Oid
scanned_table(const char *target, bool with_values)
{
	Oid			relid;
	SPIPlanPtr	plan = prepare_plan(psprintf("SELECT did, collection, rkey, cid, rev%s FROM #.record WHERE did OPERATOR(@.=) $1",
											 with_values ? ", value, raw" : ""), target);
	CachedPlan *cached = SPI_plan_get_cached_plan(plan);
	PlannedStmt *planned = linitial_node(PlannedStmt, cached->stmt_list);

	atp_check_permissions(planned);
	relid = get_relname_relid("record", get_namespace_oid(target, false));
	if (!list_member_oid(planned->relationOids, relid) ||
		!(IsA(planned->planTree, IndexScan) || IsA(planned->planTree, BitmapHeapScan) || IsA(planned->planTree, SeqScan)))
		relid = InvalidOid;
	/* no resource owner: the plan was not saved */
	ReleaseCachedPlan(cached, NULL);
	SPI_freeplan(plan);
	return relid;
}

AtpAuditRows *
atp_audit_rows_open(const char *target, bool with_values)
{
	AtpAuditRows *rows = palloc0(sizeof(AtpAuditRows));
	Oid			relid = scanned_table(target, with_values);

	rows->with_values = with_values;
	if (OidIsValid(relid))
		rows->index = atp_audit_index_open(relid, with_values);
	if (rows->index != NULL)
		return rows;
	/*
	 * the sort is by path: sorted by columns, a collection whose name begins with the name of a
	 * second one would come at the wrong place
	 */
	rows->plan = prepare_plan(psprintf("SELECT r.path, r.cid%s FROM (SELECT " ATP_AUDIT_PATH ", * FROM #.record) r"
									   " WHERE r.did OPERATOR(@.=) $1 AND ($2 IS NULL OR r.rev OPERATOR(@.>) $2)"
									   " ORDER BY r.path COLLATE pg_catalog.\"C\"", with_values ? ", r.value, r.raw" : ""), target);
	rows->cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto audited rows", ALLOCSET_DEFAULT_SIZES);
	return rows;
}

static void
forget_rows(AtpAuditRows *rows)
{
	if (rows->table != NULL)
		SPI_freetuptable(rows->table);
	rows->table = NULL;
	rows->n = rows->i = 0;
	MemoryContextReset(rows->cxt);
}

static void
end_statement(AtpAuditRows *rows)
{
	forget_rows(rows);
	if (rows->portal != NULL)
		SPI_cursor_close(rows->portal);
	rows->portal = NULL;
}

void
atp_audit_rows_close(AtpAuditRows *rows)
{
	if (rows->index != NULL)
		atp_audit_index_close(rows->index);
	else
	{
		end_statement(rows);
		SPI_freeplan(rows->plan);
		MemoryContextDelete(rows->cxt);
	}
	pfree(rows);
}

void
atp_audit_rows_of(AtpAuditRows *rows, AtpArg did, AtpArg purge_rev)
{
	if (rows->index != NULL)
		atp_audit_index_of(rows->index, did.value, purge_rev);
	else
	{
		Datum		values[] = {did.value, purge_rev.value};
		char		nulls[] = {' ', purge_rev.isnull ? 'n' : ' '};
		int			nest;

		end_statement(rows);
		nest = atp_planning_begin();
		rows->portal = SPI_cursor_open(NULL, rows->plan, values, nulls, true);
		atp_planning_end(nest);
	}
}

static void
fetch_rows(AtpAuditRows *rows)
{
	MemoryContext old = CurrentMemoryContext;

	forget_rows(rows);
	SPI_cursor_fetch(rows->portal, true, FETCH);
	/* SPI has changed the current memory context */
	MemoryContextSwitchTo(old);
	rows->table = SPI_tuptable;
	rows->n = SPI_processed;
}

static AtpBytes
bytes_of(AtpTuple tuple, const char *column, Oid type)
{
	bool		isnull;
	Datum		value = atp_get(tuple, column, type, &isnull);
	struct varlena *bytes;

	if (isnull)
		return (AtpBytes) {NULL, 0};
	bytes = PG_DETOAST_DATUM_PACKED(value);
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)};
}

void
atp_audit_row_values(AtpAuditRow *row, AtpTuple tuple)
{
	Oid			packed = atp_type("dagcbor");
	bool		isnull;

	row->packed = getBaseType(atp_column_type(tuple, "value")) == packed;
	row->value = atp_get(tuple, "value", row->packed ? packed : JSONBOID, &isnull);
	row->has_value = !isnull;
	row->raw = atp_get(tuple, "raw", BYTEAOID, &isnull);
	row->has_raw = !isnull;
}

bool
atp_audit_rows_next(AtpAuditRows *rows, AtpAuditRow *row)
{
	AtpTuple	tuple;
	MemoryContext old;

	if (rows->index != NULL)
		return atp_audit_index_next(rows->index, row);
	if (rows->i == rows->n)
		fetch_rows(rows);
	if (rows->n == 0)
	{
		end_statement(rows);
		return false;
	}
	tuple = (AtpTuple) {rows->table->vals[rows->i++], rows->table->tupdesc};
	old = MemoryContextSwitchTo(rows->cxt);
	*row = (AtpAuditRow) {.path = bytes_of(tuple, "path", TEXTOID), .cid = bytes_of(tuple, "cid", atp_type("cidlink"))};
	if (rows->with_values)
		atp_audit_row_values(row, tuple);
	MemoryContextSwitchTo(old);
	return true;
}
