/*
 * partition_move.c
 *		Moves rows of a default partition into a table that is to become a partition.
 *
 * Rows are inserted and deleted without the executor (table_tuple_insert(), as in a rewrite of a
 * table, and simple_table_tuple_delete()), so no trigger fires.
 *
 * With publish_via_partition_root, pgoutput sends a change of a partition as a change of the
 * partitioned table, if the table is a partition at that moment of the transaction.  The new table
 * is not a partition yet, so subscribers would lose the rows: nothing may be sent.  Inserts are
 * marked with TABLE_INSERT_NO_LOGICAL.  Deletions without an old row are skipped by pgoutput, and
 * with REPLICA IDENTITY NOTHING there is no old row.  Without such a publication, rows are decoded
 * as usual, as moved between two tables.  The extension's own output plugin passes over both (changes/untold.h).
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "changes/untold.h"
#include "common/command_progress.h"
#include "config/spi.h"
#include "executor/executor.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "tables/base/distributed.h"
#include "tables/commands/partition_move.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/* Rows read at a time. */
#define ROWS	1000

#define OID_ARG(oid)	{ObjectIdGetDatum(oid), OIDOID, false}

/* Publications p of the partitioned table $1 or its default partition $2. */
#define PUBLICATIONS \
	" FROM pg_publication p WHERE p.puballtables OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid IN ($1, $2))" \
	" OR EXISTS (SELECT FROM pg_publication_namespace n JOIN pg_class c ON c.relnamespace = n.pnnspid WHERE n.pnpubid = p.oid AND c.oid IN ($1, $2))"

/* Publications and slots that would send the deletions, but not the inserts. */
#define LISTENERS \
	"SELECT CASE WHEN NOT p.pubviaroot THEN format('publication %I publishes partitions by themselves', pubname)" \
	"  ELSE format('publication %I publishes partition %s', pubname, $2::regclass) END AS what FROM (SELECT * " PUBLICATIONS ") p" \
	" WHERE NOT p.pubviaroot OR EXISTS (SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = $2)" \
	" UNION ALL SELECT format('replication slot %s, by %s, beside publication %I', s.slot_name, s.plugin, p.pubname)" \
	"  FROM pg_replication_slots s, (SELECT min(pubname) AS pubname " PUBLICATIONS ") p" \
	"  WHERE p.pubname IS NOT NULL AND s.slot_type = 'logical' AND s.database = current_database() AND s.plugin NOT IN ('pgoutput', 'atproto') ORDER BY 1"

/* ------------------------------------------------------------------------
 * Publications and slots
 * ------------------------------------------------------------------------
 */
static char *
quoted_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}

static void
refuse_place(Oid rest, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot move rows out of partition %s", quoted_name(rest)),
			 errdetail("%s", detail),
			 hint != NULL ? errhint("%s", hint) : 0));
}

void
atp_move_check(Oid table, Oid rest)
{
	AclResult	may = pg_class_aclcheck(rest, GetUserId(), ACL_SELECT | ACL_DELETE);
	AtpResult	found;
	StringInfoData detail;

	if (may != ACLCHECK_OK)
		aclcheck_error(may, OBJECT_TABLE, get_rel_name(rest));
	if (atp_is_distributed(table))
		refuse_place(rest, "Citus keeps its rows on other servers.", NULL);
	if (get_rel_relkind(rest) != RELKIND_RELATION)
		refuse_place(rest, "It is no ordinary table.", "Move its rows by hand.");
	found = atp_query(LISTENERS, ATP_ARGS(OID_ARG(table), OID_ARG(rest)));
	if (found.n > 0)
	{
		initStringInfo(&detail);
		for (uint64 i = 0; i < found.n; i++)
			appendStringInfo(&detail, "%s%s", i > 0 ? "\n" : "", atp_get_text(atp_result_row(found, i), "what"));
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot move rows out of partition %s, because of what listens to it", quoted_name(rest)),
				 errdetail_internal("%s", detail.data),
				 errhint("Publish the whole table with publish_via_partition_root = true, or remove these for so long.")));
	}
	atp_result_free(found);
}

static bool
is_published(Oid table, Oid rest)
{
	return atp_run("SELECT 1 AS one " PUBLICATIONS " LIMIT 1", ATP_ARGS(OID_ARG(table), OID_ARG(rest))) > 0;
}

/* SQL that restores the table's replica identity. */
static char *
identity_of(Oid relid)
{
	AtpResult	found = atp_query("SELECT format('ALTER TABLE %s REPLICA IDENTITY %s', $1::regclass, CASE relreplident WHEN 'f' THEN 'FULL' WHEN 'n' THEN 'NOTHING'"
								  "  WHEN 'i' THEN 'USING INDEX ' || (SELECT quote_ident(i.relname) FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid"
								  "   WHERE x.indrelid = $1 AND x.indisreplident) ELSE 'DEFAULT' END) AS sql FROM pg_class WHERE oid = $1",
								  ATP_ARGS(OID_ARG(relid)));
	char	   *sql = atp_get_text(atp_result_row(found, 0), "sql");

	atp_result_free(found);
	return sql;
}

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */
typedef struct Move
{
	Relation	rest;
	Relation	part;
	EState	   *estate;
	ResultRelInfo *result;
	TupleTableSlot *slot;
	BulkInsertState bulk;
	int			options;
} Move;

/* Selects ctid, and the columns in the order of the new table. */
static char *
select_rows(Relation rest, Relation part, const char *condition)
{
	TupleDesc	desc = RelationGetDescr(part);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT r.ctid");
	for (int i = 0; i < desc->natts; i++)
		appendStringInfo(&sql, ", r.%s", quote_identifier(NameStr(TupleDescAttr(desc, i)->attname)));
	appendStringInfo(&sql, " FROM ONLY %s r WHERE %s", quoted_name(RelationGetRelid(rest)), condition);
	return sql.data;
}

static void
move_row(Move *m, HeapTuple tuple, TupleDesc from, Datum *values, bool *nulls)
{
	TupleDesc	desc = RelationGetDescr(m->part);
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(m->estate));

	heap_deform_tuple(tuple, from, values, nulls);
	ExecClearTuple(m->slot);
	for (int i = 0; i < desc->natts; i++)
	{
		char		generated = TupleDescAttr(desc, i)->attgenerated;

		m->slot->tts_values[i] = values[i + 1];
		/* a virtual generated column stores no value */
		m->slot->tts_isnull[i] = nulls[i + 1] || (generated != '\0' && generated != ATTRIBUTE_GENERATED_STORED);
	}
	ExecStoreVirtualTuple(m->slot);
	m->slot->tts_tableOid = RelationGetRelid(m->part);
	if (desc->constr != NULL)
		ExecConstraints(m->result, m->slot, m->estate);
	table_tuple_insert(m->part, m->slot, GetCurrentCommandId(true), m->options, m->bulk);
	simple_table_tuple_delete(m->rest, (ItemPointer) DatumGetPointer(values[0]), GetActiveSnapshot());
	MemoryContextSwitchTo(old);
	ResetPerTupleExprContext(m->estate);
}

static uint64
move_all(Move *m, const char *sql)
{
	int			ncolumns = RelationGetDescr(m->part)->natts + 1;
	Datum	   *values = palloc(sizeof(Datum) * ncolumns);
	bool	   *nulls = palloc(sizeof(bool) * ncolumns);
	Portal		portal = SPI_cursor_open_with_args(NULL, sql, 0, NULL, NULL, NULL, false, 0);
	uint64		moved = 0;

	for (SPI_cursor_fetch(portal, true, ROWS); SPI_processed > 0; SPI_cursor_fetch(portal, true, ROWS))
	{
		uint64		n = SPI_processed;
		SPITupleTable *rows = SPI_tuptable;

		PushActiveSnapshot(GetTransactionSnapshot());
		for (uint64 i = 0; i < n; i++)
		{
			CHECK_FOR_INTERRUPTS();
			move_row(m, rows->vals[i], rows->tupdesc, values, nulls);
		}
		PopActiveSnapshot();
		SPI_freetuptable(rows);
		moved += n;
		atp_progress_to(moved);
	}
	SPI_cursor_close(portal);
	CommandCounterIncrement();
	return moved;
}

static uint64
move_rows(Oid rest, Oid part, const char *condition, bool quietly)
{
	Move		m = {
		.rest = table_open(rest, AccessExclusiveLock), .part = table_open(part, AccessExclusiveLock),
		.estate = CreateExecutorState(), .result = makeNode(ResultRelInfo), .bulk = GetBulkInsertState(),
		.options = TABLE_INSERT_SKIP_FSM | (quietly ? TABLE_INSERT_NO_LOGICAL : 0)
	};
	uint64		moved;

	InitResultRelInfo(m.result, m.part, 0, NULL, 0);
	m.slot = MakeSingleTupleTableSlot(RelationGetDescr(m.part), &TTSOpsVirtual);
	moved = move_all(&m, select_rows(m.rest, m.part, condition));
	table_finish_bulk_insert(m.part, m.options);
	FreeBulkInsertState(m.bulk);
	ExecDropSingleTupleTableSlot(m.slot);
	FreeExecutorState(m.estate);
	table_close(m.part, NoLock);
	table_close(m.rest, NoLock);
	return moved;
}

/* Arguments and result of move_untold(). */
typedef struct Moved
{
	Oid			rest;
	Oid			part;
	const char *condition;
	bool		quietly;
	uint64		rows;
} Moved;

static void
move_untold(void *arg)
{
	Moved	   *moved = arg;

	moved->rows = move_rows(moved->rest, moved->part, moved->condition, moved->quietly);
}

uint64
atp_move_rows(Oid table, Oid rest, Oid part, const char *condition)
{
	Moved		moved = {rest, part, condition, is_published(table, rest)};
	char	   *identity = identity_of(rest);

	if (moved.quietly)
		atp_run(psprintf("ALTER TABLE %s REPLICA IDENTITY NOTHING", quoted_name(rest)), ATP_NO_ARGS);
	atp_write_untold(move_untold, &moved);
	if (moved.quietly)
		atp_run(identity, ATP_NO_ARGS);
	return moved.rows;
}
