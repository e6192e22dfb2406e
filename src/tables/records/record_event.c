/*
 * record_event.c
 *		The table record_event: each operation on a record, kept or only handed to triggers.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "tables/base/derived.h"
#include "tables/base/rows.h"
#include "types/types.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* Bytes of values written in one step, which copies the values several times. */
#define STEP_BYTES	(4 * 1024 * 1024)

static const AtpColumn columns[] = {
	{"subscription", ATP_TYPE_TEXT, ATP_COMMON, "NOT NULL", "subscription that received the event"},
	{"seq", ATP_TYPE_INT8, ATP_VALUE, NULL,
	"sequence number of the event; for a record removed with its account: of the deletion; NULL: the record came from an export"},
	{"action", ATP_TYPE_TEXT, ATP_VALUE, "NOT NULL", "create, update or delete"},
	{"did", ATP_TYPE_DID, ATP_VALUE, "NOT NULL", "the account"},
	{"collection", ATP_TYPE_NSID, ATP_VALUE, "NOT NULL", "collection of the record"},
	{"rkey", ATP_TYPE_RKEY, ATP_VALUE, "NOT NULL", "record key of the record"},
	{"rev", ATP_TYPE_TID, ATP_VALUE, "NOT NULL",
	"revision of the commit or export; for a record removed with its account: the record's own revision"},
	{"cid", ATP_TYPE_CID, ATP_VALUE, NULL, "CID of the record; NULL: the record was deleted"},
	{"value", ATP_TYPE_VALUE, ATP_VALUE, NULL, "the record, of the type of record.value; NULL: deleted, or jsonb cannot hold the record, see raw"},
	{"raw", ATP_TYPE_BYTEA, ATP_VALUE, NULL, "the record's DAG-CBOR, as in the table record"},
	{"old_cid", ATP_TYPE_CID, ATP_VALUE, NULL, "CID of the record in the table record before; NULL: no such record"},
	{"old_value", ATP_TYPE_VALUE, ATP_VALUE, NULL, "value in the table record before; NULL also where jsonb cannot hold the value"},
	{"received_at", ATP_TYPE_TIMESTAMP, ATP_APART, "NOT NULL DEFAULT now()", "when this database received the event"},
};

#define ADD	"INSERT INTO #.record_event (subscription, {columns}) SELECT $1, * FROM unnest({arrays})"

enum
{
	ADD_EVENTS,
	HAND_EVENTS,
	TAKE_EVENTS
};

static const AtpStatement statements[] = {
	[ADD_EVENTS] = {
		ADD,
		SPI_OK_INSERT, {ATP_TYPE_TEXT}, {0}, &atp_record_event_table, ATP_ROWS_IN,
		/*
		 * without RETURNING, Citus would COPY into the shards, and an error of such a COPY does not tell which row
		 * caused it
		 */
		&(const AtpStatement) {
			ADD " RETURNING seq",
			SPI_OK_INSERT_RETURNING, {ATP_TYPE_TEXT}, {ATP_TYPE_INT8}, &atp_record_event_table, ATP_ROWS_IN
		}
	},
	/* returns the places of the rows, which are removed again */
	[HAND_EVENTS] = {
		ADD " RETURNING tableoid, ctid",
		SPI_OK_INSERT_RETURNING, {ATP_TYPE_TEXT}, {ATP_TYPE_OID, ATP_TYPE_CTID}, &atp_record_event_table, ATP_ROWS_IN
	},
	[TAKE_EVENTS] = {
		/* two partitions of a table that a user has partitioned may have rows with equal ctids */
		"DELETE FROM #.record_event e WHERE e.ctid = ANY ($2)"
		" AND EXISTS (SELECT FROM unnest($1, $2) u (relid, place) WHERE u.relid = e.tableoid AND u.place = e.ctid)",
		SPI_OK_DELETE, {ATP_ARRAY(ATP_TYPE_OID), ATP_ARRAY(ATP_TYPE_CTID)}, {0}, &atp_record_event_table
	},
};

const AtpTable atp_record_event_table = {
	.name = "record_event",
	.use = ATP_USE_EVENTS,
	.columns = columns,
	.ncolumns = lengthof(columns),
	/*
	 * a table without a primary key needs REPLICA IDENTITY FULL: with a publication, PostgreSQL would otherwise
	 * refuse to delete the rows handed to triggers
	 */
	.more = "ALTER TABLE #.record_event REPLICA IDENTITY FULL",
	.comment = "each operation on a record, for subscriptions that keep events or hand them to triggers",
	.statements = statements,
	.nstatements = lengthof(statements),
	.shard_by = "did",
};

/*
 * Follow rows that a trigger has updated to their newest ctid.  False when a row was moved to another partition:
 * nothing leads from the old row to the new one.
 */
static bool
follow_rows(const Datum *relids, Datum *ctids, uint64 n)
{
	bool		found = true;

	PushActiveSnapshot(GetLatestSnapshot());
	for (uint64 i = 0; i < n; i++)
	{
		Relation	rel = table_open(DatumGetObjectId(relids[i]), NoLock);
		ItemPointer place = (ItemPointer) DatumGetPointer(ctids[i]);
		TableScanDesc scan;
		TupleTableSlot *slot;
		bool		free_it;

		/* a partition may be a foreign table, whose rows cannot be followed */
		if (rel->rd_rel->relkind != RELKIND_RELATION)
		{
			table_close(rel, NoLock);
			found = false;
			continue;
		}
		scan = table_beginscan_tid(rel, GetActiveSnapshot());
		slot = table_slot_create(rel, NULL);
		table_tuple_get_latest_tid(scan, place);
		if (table_tuple_fetch_row_version(rel, place, SnapshotAny, slot) &&
			HeapTupleHeaderIndicatesMovedPartitions(ExecFetchSlotHeapTuple(slot, false, &free_it)->t_data))
			found = false;
		ExecDropSingleTupleTableSlot(slot);
		table_endscan(scan);
		table_close(rel, NoLock);
	}
	PopActiveSnapshot();
	return found;
}

/*
 * Rows are found again by table OID and ctid.  Under Citus, shards on two servers may have the same OIDs, and shards
 * have no triggers.
 */
static void
refuse_hand(AtpStatements *set)
{
	if (atp_target_is_distributed(set, &atp_record_event_table))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s.record_event\" is distributed: its rows cannot be handed to triggers", atp_target(set)),
				 errhint("Set \"events\" to \"keep\" or \"none\".")));
}

/* Insert rows for the triggers alone, and delete the rows again. */
static void
hand_over(AtpStatements *set, Datum *args)
{
	uint64		n;
	SPITupleTable *rows;
	Datum	   *relids;
	Datum	   *ctids;
	Datum		take[2];
	char		kind = get_rel_relkind(atp_target_table(set, "record_event"));
	bool		isnull;

	refuse_hand(set);
	n = atp_execute(set, &statements[HAND_EVENTS], args, NULL);
	rows = SPI_tuptable;
	relids = palloc(sizeof(Datum) * Max(n, 1));
	ctids = palloc(sizeof(Datum) * Max(n, 1));
	/* a view may have columns of these names with any content */
	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s.record_event\" is not a table", atp_target(set))));
	for (uint64 i = 0; i < n; i++)
	{
		relids[i] = SPI_getbinval(rows->vals[i], rows->tupdesc, 1, &isnull);
		ctids[i] = SPI_getbinval(rows->vals[i], rows->tupdesc, 2, &isnull);
	}
	take[0] = PointerGetDatum(construct_array(relids, n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	take[1] = PointerGetDatum(construct_array(ctids, n, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
	if (n > 0 && atp_execute(set, &statements[TAKE_EVENTS], take, NULL) < n)
	{
		if (!follow_rows(relids, ctids, n))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a row that was inserted into table \"%s.record_event\" cannot be found again", atp_target(set)),
					 errdetail("It was moved to another partition, or is in a foreign table."),
					 errhint("Rows that are handed to triggers are removed again; set \"events\" to \"keep\".")));
		take[1] = PointerGetDatum(construct_array(ctids, n, TIDOID, sizeof(ItemPointerData), false, TYPALIGN_SHORT));
		(void) atp_execute(set, &statements[TAKE_EVENTS], take, NULL);
	}
	SPI_freetuptable(rows);
}

static bool
wants_events(const AtpSubscription *sub)
{
	return sub->settings.events != ATP_EVENTS_NONE;
}

void
atp_record_event_check(const AtpSubscription *sub, AtpStatements *set)
{
	HeapTuple	seq;
	bool		not_null;

	if (!wants_events(sub))
		return;
	seq = SearchSysCacheAttName(atp_target_table(set, "record_event"), "seq");
	not_null = HeapTupleIsValid(seq) && ((Form_pg_attribute) GETSTRUCT(seq))->attnotnull;
	if (HeapTupleIsValid(seq))
		ReleaseSysCache(seq);
	if (not_null)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("column \"seq\" of table \"%s.record_event\" must not be null", atp_target(set)),
				 errdetail("What comes from an export has no number."),
				 errhint("ALTER TABLE %s.record_event ALTER seq DROP NOT NULL", quote_identifier(atp_target(set)))));
}

static void
put_event(AtpRows *rows, const AtpChange *change, struct varlena *old_value)
{
	static const char *const actions[] = {"create", "update", "delete"};
	const AtpRecordRow *row = change->row;

	atp_put(rows, Int64GetDatum(change->seq), change->seq == ATP_SEQ_NONE);
	atp_put(rows, CStringGetTextDatum(actions[row->action]), false);
	atp_put_ref(rows, row->did);
	atp_put_ref(rows, row->collection);
	atp_put_ref(rows, row->rkey);
	atp_put(rows, AtpTidGetDatum(row->rev), false);
	atp_put_ref(rows, row->cid);
	atp_put_ref(rows, row->value);
	atp_put_ref(rows, row->raw);
	atp_put_ref(rows, change->old_cid);
	atp_put_ref(rows, old_value);
}

/* Add events for changes from "from" on, up to STEP_BYTES; returns the next change. */
static int
add_some(AtpApply *a, const AtpChange *changes, int from, int n)
{
	AtpRows    *rows = atp_rows_of(a->statements, &atp_record_event_table, n - from);
	Datum		args[ATP_STATEMENT_ARGS];
	Size		bytes = 0;

	for (; from < n && bytes <= STEP_BYTES; from++)
	{
		struct varlena *old_value = changes[from].old_value;

		if (old_value != NULL)
		{
			old_value = PG_DETOAST_DATUM(PointerGetDatum(old_value));
			bytes += VARSIZE(old_value);
		}
		put_event(rows, &changes[from], old_value);
	}
	args[0] = CStringGetTextDatum(a->sub->name);
	atp_rows_bind(rows, args + 1);
	if (a->sub->settings.events == ATP_EVENTS_HAND)
		hand_over(a->statements, args);
	else
	{
		(void) atp_execute(a->statements, &statements[ADD_EVENTS], args, NULL);
		SPI_freetuptable(SPI_tuptable);
	}
	return from;
}

static void
flush_events(AtpApply *a, const AtpChange *changes, int n)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto events", ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);

	for (int from = 0; from < n;)
	{
		from = add_some(a, changes, from, n);
		MemoryContextReset(cxt);
	}
	MemoryContextSwitchTo(old);
	MemoryContextDelete(cxt);
}

const AtpDerived atp_record_event_derived = {.use = ATP_USE_EVENTS, .wanted = wants_events, .flush = flush_events};
