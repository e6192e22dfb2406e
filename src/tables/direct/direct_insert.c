/*
 * direct_insert.c
 *		Rows into a table without an SQL statement, where that comes to the same.
 *
 * An upsert looks each key up before it inserts, because most of its rows may
 * be there.  In a stream nearly all are new: they go into the heap many at a
 * time, and into the indexes with a check that tells of a possible duplicate
 * but does not wait (UNIQUE_CHECK_PARTIAL, as ON CONFLICT uses it).  Looking
 * and inserting happen under one lock of the index page, so of two sessions
 * that insert the same key, at least the second one is told.  It gives up the
 * whole transaction, by an ERROR that is not one (ATP_ERRCODE_CONFLICT).
 *
 * In the same way a row is updated or deleted without being locked when it is read:
 * that waits for whoever has the row, and gives up when it was changed.
 *
 * Triggers are fired as COPY fires them (heap_triggers.c).  Only for tables where
 * nobody can see the difference otherwise: see is_plain().  An operator can switch
 * all of this off (atproto.direct_writes): statements do the same.
 *
 * What PostgreSQL does in these places is what this file must do; each function
 * says which one of the server it follows.  The model of the whole is CopyFrom()
 * (commands/copyfrom.c) for new rows, and ExecSimpleRelationUpdate() and
 * ExecSimpleRelationDelete() (executor/execReplication.c) for others.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "common/compat.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteHandler.h"
#include "tables/base/distributed.h"
#include "tables/direct/direct_insert.h"
#include "tables/direct/direct_partitions.h"
#include "tables/direct/direct_patch.h"
#include "tables/direct/direct_hint.h"
#include "tables/direct/direct_triggers.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/* Rows that go into the heap in one step, or fewer when they are large: they are copied for it. */
#define CHUNK	256
#define CHUNK_BYTES	(4 * 1024 * 1024)

/* atproto.direct_writes */
static bool direct_writes = true;

struct AtpHeap
{
	AtpStatements *set;
	const AtpTable *table;
	const AtpColumn **columns;	/* that are written with each row */
	int			ncolumns;
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *result;
	AttrNumber *attnums;		/* of these columns */
	Datum	   *values;			/* what the other attributes get */
	bool	   *nulls;
	int			nslots;
	TupleTableSlot *slots[CHUNK];
	/* where each row of a chunk goes, and as what: the table, or one of its partitions */
	AtpPartitions *partitions;
	ResultRelInfo *leaves[CHUNK];
	TupleTableSlot *routed[CHUNK];
	AtpTriggers triggers;
	bool		fires_each_row;
	AttrNumber	renewed;		/* gets its default also when the row is updated; 0: none does */
	/* where rows are looked for */
	IndexScanDesc scan;
	ScanKeyData keys[ATP_HEAP_KEYS];
	int			nkeys;
	BlockNumber nblocks;		/* of the table, whose end nobody can cut off */
	TupleTableSlot *found;
	TupleTableSlot *changed;
	int		   *of_attribute;	/* which of the columns it is; -1: none */
};

void
atp_heap_init(void)
{
	DefineCustomBoolVariable("atproto.direct_writes",
							 "Whether rows go into plain tables without SQL statements.",
							 "If off, all rows are written by statements, which is slower. The rows are the same.",
							 &direct_writes, true,
							 PGC_SUSET, 0, NULL, NULL, NULL);
}

/*
 * No rule, policy or child that the rows would have to pass.  Rows are not looked for in
 * partitions: a keyed table has none.  Nor has it triggers that fire: those see statements
 * insert a row with its key alone, before other tables get rows, and set the rest of it.
 */
static bool
is_plain(Relation rel, const AtpTable *table, bool *fires_each_row)
{
	*fires_each_row = atp_fires_each_row(rel->trigdesc);
	if (table->keyed && !atp_is_only_referred_to(rel, get_attnum(RelationGetRelid(rel), table->columns[0].name)))
		return false;
	if (rel->rd_rel->relispartition || check_enable_rls(RelationGetRelid(rel), InvalidOid, true) == RLS_ENABLED)
		return false;
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		return !table->keyed && rel->rd_rules == NULL && atp_partitions_are_plain(rel, fires_each_row);
	return atp_leaf_is_plain(rel) && !rel->rd_rel->relhassubclass;
}

static bool
statements_are_ordinary(AtpStatements *set, const AtpTable *table)
{
	for (int i = 0; i < table->nstatements; i++)
		if ((table->statements[i].flags & ATP_AS_HEAP) &&
			!atp_statement_is_ordinary(set, &table->statements[i]))
			return false;
	return true;
}

/*
 * Each index only says "perhaps" about a duplicate.  ExecInsertIndexTuples() (execIndexing.c) asks a unique index with
 * UNIQUE_CHECK_PARTIAL then, and _bt_check_unique() (nbtinsert.c) does not wait; an exclusion constraint would wait.
 */
static bool
indexes_are_plain(ResultRelInfo *result)
{
	for (int i = 0; i < result->ri_NumIndices; i++)
	{
		Form_pg_index index = result->ri_IndexRelationDescs[i]->rd_index;

		if (index->indisexclusion || !index->indimmediate)
			return false;
	}
	return true;
}

static int
column_of(const AtpHeap *d, const char *name)
{
	int			c = 0;

	while (c < d->ncolumns && strcmp(d->columns[c]->name, name) != 0)
		c++;
	return c;
}

/*
 * Find the columns, and what the other attributes get: the same in all rows.  The defaults are those that
 * rewriteTargetListIU() (rewriteHandler.c) puts into an INSERT, and BeginCopyFrom() computes for columns that it is not given.
 * False when a value would have to be converted, checked by its type, or made for each row.
 */
static bool
find_columns(AtpHeap *d)
{
	TupleDesc	desc = RelationGetDescr(d->rel);
	int			found = 0;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		int			c = column_of(d, NameStr(att->attname));
		Expr	   *value;

		d->nulls[i] = true;
		if (att->attisdropped)
			continue;
		if (att->attgenerated != '\0' || att->attidentity != '\0' ||
			get_typtype(att->atttypid) == TYPTYPE_DOMAIN)
			return false;
		if (c < d->ncolumns)
		{
			if (att->atttypid != atp_element(d->set, d->columns[c]->type) || att->atttypmod >= 0)
				return false;
			d->attnums[c] = att->attnum;
			found++;
			continue;
		}
		/* to null, where it has no default */
		if (d->table->renewed != NULL && strcmp(NameStr(att->attname), d->table->renewed) == 0)
			d->renewed = att->attnum;
		value = (Expr *) build_column_default(d->rel, att->attnum);
		if (value == NULL)
			continue;
		if (contain_volatile_functions((Node *) value))
			return false;
		d->values[i] = ExecEvalExpr(ExecPrepareExpr(value, d->estate),
									GetPerTupleExprContext(d->estate), &d->nulls[i]);
		/* an expanded object belongs to whoever is given it, who changes or frees it: all rows have this one */
		if (!d->nulls[i])
			d->values[i] = datumCopy(d->values[i], att->attbyval, att->attlen);
	}
	return found == d->ncolumns;
}

/* Of the columns of the key, in their order, and of nothing else: what infer_arbiter_indexes() (plancat.c) asks for ON CONFLICT. */
static bool
is_index_of_key(AtpHeap *d, Relation index)
{
	Form_pg_index form = index->rd_index;

	if (!form->indisunique || !form->indisvalid || form->indnkeyatts != d->nkeys ||
		index->rd_rel->relam != BTREE_AM_OID || RelationGetIndexPredicate(index) != NIL)
		return false;
	for (int k = 0; k < d->nkeys; k++)
		if (form->indkey.values[k] != d->attnums[k] ||
			index->rd_opcintype[k] != TupleDescAttr(RelationGetDescr(d->rel), d->attnums[k] - 1)->atttypid)
			return false;
	return true;
}

/* As build_replindex_scan_key() (execReplication.c). */
static void
set_keys(AtpHeap *d, Relation index)
{
	for (int k = 0; k < d->nkeys; k++)
	{
		Oid			type = index->rd_opcintype[k];
		Oid			equal = get_opfamily_member(index->rd_opfamily[k], type, type, BTEqualStrategyNumber);

		ScanKeyEntryInitialize(&d->keys[k], 0, k + 1, BTEqualStrategyNumber, InvalidOid,
							   index->rd_indcollation[k], get_opcode(equal), (Datum) 0);
	}
}

/*
 * Of an update, the executor is told which columns it writes, as those of a statement: all but the key.  An index on
 * one of them gets other entries then, among which it is not worth while to look for versions of one row: see
 * index_unchanged_by_update() (execIndexing.c), which asks ExecGetUpdatedCols().
 */
static void
tell_updated(AtpHeap *d)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	Bitmapset  *columns = NULL;

	rte->rtekind = RTE_RELATION;
	rte->relid = RelationGetRelid(d->rel);
	rte->relkind = d->rel->rd_rel->relkind;
	rte->rellockmode = RowExclusiveLock;
	for (int c = d->nkeys; c < d->ncolumns; c++)
		columns = bms_add_member(columns, d->attnums[c] - FirstLowInvalidHeapAttributeNumber);
	if (d->renewed != 0)
		columns = bms_add_member(columns, d->renewed - FirstLowInvalidHeapAttributeNumber);
	atp_tell_updated(d->estate, rte, columns);
	d->result->ri_RangeTableIndex = 1;
}

static void
note_attributes(AtpHeap *d)
{
	int			natts = RelationGetDescr(d->rel)->natts;

	d->of_attribute = palloc(sizeof(int) * natts);
	for (int i = 0; i < natts; i++)
		d->of_attribute[i] = -1;
	for (int c = 0; c < d->ncolumns; c++)
		d->of_attribute[d->attnums[c] - 1] = c;
}

bool
atp_heap_finds(AtpHeap *d)
{
	if (d->scan != NULL)
		return true;
	/* of a keyed one it is known which it has */
	if (!d->table->keyed && d->rel->trigdesc != NULL)
		return false;
	d->nkeys = 0;
	while (d->nkeys < d->ncolumns && d->columns[d->nkeys]->written == ATP_KEY)
		d->nkeys++;
	Assert(d->nkeys > 0 && d->nkeys <= ATP_HEAP_KEYS);
	for (int i = 0; i < d->result->ri_NumIndices && d->partitions == NULL; i++)
	{
		Relation	index = d->result->ri_IndexRelationDescs[i];

		if (!is_index_of_key(d, index))
			continue;
		set_keys(d, index);
		d->nblocks = RelationGetNumberOfBlocks(d->rel);
		d->found = table_slot_create(d->rel, NULL);
		d->changed = MakeSingleTupleTableSlot(RelationGetDescr(d->rel), &TTSOpsHeapTuple);
		note_attributes(d);
		d->scan = atp_index_beginscan(d->rel, index, GetActiveSnapshot(), d->nkeys);
		tell_updated(d);
		return true;
	}
	return false;
}

/*
 * As CopyFrom() begins: an executor's state without a plan, with the table as its result relation
 * (ExecInitResultRelation(), execUtils.c), its indexes, and a snapshot.
 */
AtpHeap *
atp_heap_open(AtpStatements *set, const AtpTable *table)
{
	AtpHeap    *d;
	Oid			relid = atp_target_table(set, table->name);
	Relation	rel;
	bool		fires_each_row;

	/* in other isolation levels a row that cannot be seen is an error, not a conflict */
	if (!direct_writes || !OidIsValid(relid) || XactReadOnly || IsolationUsesXactSnapshot())
		return NULL;
	rel = table_open(relid, RowExclusiveLock);
	if (!is_plain(rel, table, &fires_each_row) || atp_is_distributed(relid) || atp_has_shard_column(table, relid) || !statements_are_ordinary(set, table))
	{
		table_close(rel, NoLock);
		return NULL;
	}
	d = palloc0(sizeof(AtpHeap));
	d->set = set;
	d->table = table;
	d->columns = atp_row_columns(table, &d->ncolumns);
	d->rel = rel;
	d->attnums = palloc(sizeof(AttrNumber) * d->ncolumns);
	d->values = palloc0(sizeof(Datum) * RelationGetDescr(rel)->natts);
	d->nulls = palloc0(sizeof(bool) * RelationGetDescr(rel)->natts);
	d->fires_each_row = fires_each_row;
	d->estate = CreateExecutorState();
	d->result = makeNode(ResultRelInfo);
	InitResultRelInfo(d->result, rel, 0, NULL, 0);
	/* ExecGetTriggerResultRel() (trigger.c) looks for it there when queued triggers fire */
	d->estate->es_opened_result_relations = list_make1(d->result);
	ExecOpenIndices(d->result, false);
	PushActiveSnapshot(GetTransactionSnapshot());
	if (!indexes_are_plain(d->result) || !find_columns(d) || (table->keyed && !atp_heap_finds(d)))
	{
		atp_heap_close(d);
		return NULL;
	}
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		d->partitions = atp_partitions_open(d->result, d->estate);
	return d;
}

pg_noreturn static void
conflict(AtpHeap *d)
{
	ereport(ERROR,
			(errcode(ATP_ERRCODE_CONFLICT),
			 errmsg("a row of table \"%s\" is there already, or was changed", d->table->name)));
}

static TupleTableSlot *
slot_of(AtpHeap *d, int i)
{
	if (i == d->nslots)
		d->slots[d->nslots++] = MakeSingleTupleTableSlot(RelationGetDescr(d->rel), &TTSOpsVirtual);
	return ExecClearTuple(d->slots[i]);
}

/* One of the rows, its other attributes as given. */
static void
fill_slot(AtpHeap *d, TupleTableSlot *slot, const AtpRows *rows, int row,
		  const Datum *values, const bool *nulls)
{
	int			natts = RelationGetDescr(d->rel)->natts;

	memcpy(slot->tts_values, values, sizeof(Datum) * natts);
	memcpy(slot->tts_isnull, nulls, sizeof(bool) * natts);
	for (int c = 0; c < rows->ncolumns; c++)
	{
		int			cell = c * rows->max + row;

		slot->tts_values[d->attnums[c] - 1] = rows->values[cell];
		slot->tts_isnull[d->attnums[c] - 1] = rows->nulls[cell];
	}
	ExecStoreVirtualTuple(slot);
}

/* As ExecInsert() and ExecUpdateAct() (nodeModifyTable.c) before the row goes into the table. */
static void
check_constraints(AtpHeap *d, ResultRelInfo *result, TupleTableSlot *slot)
{
	/* they may ask for it */
	slot->tts_tableOid = RelationGetRelid(result->ri_RelationDesc);
	if (RelationGetDescr(result->ri_RelationDesc)->constr != NULL)
		ExecConstraints(result, slot, d->estate);
}

/* Of a keyed table, whose key is one column: its rows are looked for again and again. */
static void
note_place(AtpHeap *d, Datum key, TupleTableSlot *slot)
{
	if (d->table->keyed)
		atp_place_note(RelationGetRelid(d->rel), (struct varlena *) DatumGetPointer(key), &slot->tts_tid);
}

/*
 * Rows into one table or partition: as CopyMultiInsertBufferFlush() (copyfrom.c), but that indexes are asked as
 * ExecInsert() asks them for ON CONFLICT, and a duplicate ends the transaction.  A speculative token, by which ExecInsert()
 * would take the row back, is not needed then.
 */
static void
insert_slots(AtpHeap *d, ResultRelInfo *result, TupleTableSlot **slots, int n)
{
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(d->estate));

	for (int i = 0; i < n; i++)
		check_constraints(d, result, slots[i]);
	table_multi_insert(result->ri_RelationDesc, slots, n, d->estate->es_output_cid, 0, NULL);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < n; i++)
		note_place(d, slots[i]->tts_values[d->attnums[0] - 1], slots[i]);
	for (int i = 0; i < n && result->ri_NumIndices > 0; i++)
	{
		bool		duplicate = false;

		(void) atp_insert_index_tuples(result, slots[i], d->estate, &duplicate);
		if (duplicate)
			conflict(d);
	}
}

/* Rows [lo, hi) of a chunk, many at a time: partition by partition, in the order in which they are met. */
static void
insert_together(AtpHeap *d, int lo, int hi)
{
	TupleTableSlot *together[CHUNK];
	bool		done[CHUNK] = {0};

	if (d->partitions == NULL && lo < hi)
		insert_slots(d, d->result, &d->routed[lo], hi - lo);
	for (int i = lo; i < hi && d->partitions != NULL; i++)
	{
		ResultRelInfo *leaf = d->leaves[i];
		int			ntogether = 0;

		if (done[i])
			continue;
		for (int j = i; j < hi; j++)
			if (d->leaves[j] == leaf)
			{
				together[ntogether++] = d->routed[j];
				done[j] = true;
			}
		insert_slots(d, leaf, together, ntogether);
	}
	/* and of these rows nothing is kept: triggers may have made them large */
	for (int i = lo; i < hi; i++)
	{
		atp_triggers_after_row(&d->triggers, d->leaves[i], d->routed[i], d->slots[i]);
		ExecClearTuple(d->routed[i]);
		ExecClearTuple(d->slots[i]);
	}
	ResetPerTupleExprContext(d->estate);
}

static void
route(AtpHeap *d, int i)
{
	d->routed[i] = d->slots[i];
	if (d->partitions == NULL)
	{
		d->leaves[i] = d->result;
		return;
	}
	d->leaves[i] = atp_partition_of(d->partitions, &d->routed[i]);
	if (d->leaves[i] == NULL || !indexes_are_plain(d->leaves[i]))
		conflict(d);
}

/*
 * Triggers before a row may look for those before it: these are in the table by then.  CopyFrom() inserts row by row
 * for such triggers; the constraint of the partition is checked after them, as there.
 */
static void
insert_chunk(AtpHeap *d, int n)
{
	int			from = 0;

	for (int i = 0; i < n; i++)
	{
		route(d, i);
		if (!atp_fires_before_row(d->leaves[i]))
			continue;
		insert_together(d, from, i);
		from = i;
		if (!atp_triggers_before_row(&d->triggers, d->leaves[i], d->routed[i]))
			from++;
		else if (d->partitions != NULL)
			(void) ExecPartitionCheck(d->leaves[i], d->routed[i], d->estate, true);
	}
	insert_together(d, from, n);
	if (d->partitions != NULL)
		atp_partitions_clear(d->partitions);
}

bool
atp_heap_fires_each_row(const AtpHeap *d)
{
	return d->fires_each_row;
}

void
atp_heap_insert(AtpHeap *d, const AtpRows *rows)
{
	int			n = 0;
	Size		bytes = 0;

	Assert(rows->column == 0);
	if (rows->n == 0)
		return;
	/* one command, whatever triggers do meanwhile: as CopyFrom() takes its command's number */
	d->estate->es_output_cid = GetCurrentCommandId(true);
	atp_triggers_begin(&d->triggers, d->estate, d->result);
	for (int row = 0; row < rows->n; row++)
	{
		TupleTableSlot *slot = slot_of(d, n++);

		fill_slot(d, slot, rows, row, d->values, d->nulls);
		bytes += heap_compute_data_size(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);
		if (n == CHUNK || bytes > CHUNK_BYTES || row == rows->n - 1)
		{
			CHECK_FOR_INTERRUPTS();
			insert_chunk(d, n);
			n = 0;
			bytes = 0;
		}
	}
	atp_triggers_end(&d->triggers);
}

static bool
same_key(Datum a, Datum b)
{
	const struct varlena *x = (const struct varlena *) DatumGetPointer(a);
	const struct varlena *y = (const struct varlena *) DatumGetPointer(b);

	return !VARATT_IS_EXTERNAL(x) && !VARATT_IS_COMPRESSED(x) && VARSIZE_ANY_EXHDR(x) == VARSIZE_ANY_EXHDR(y) &&
		memcmp(VARDATA_ANY(x), VARDATA_ANY(y), VARSIZE_ANY_EXHDR(x)) == 0;
}

/*
 * Is the row with this key, as of now, where it was last?  The key is unique: then it is no other one.
 * TidNext() (nodeTidscan.c) fetches a row by its place in the same way.
 */
static bool
find_there(AtpHeap *d, Datum key)
{
	int			first = d->attnums[0] - 1;
	ItemPointerData place;

	if (!d->table->keyed || !atp_place_guess(RelationGetRelid(d->rel), (struct varlena *) DatumGetPointer(key), &place) ||
		ItemPointerGetBlockNumber(&place) >= d->nblocks ||
		!table_tuple_fetch_row_version(d->rel, &place, GetActiveSnapshot(), d->found))
		return false;
	slot_getallattrs(d->found);
	return !d->found->tts_isnull[first] && same_key(d->found->tts_values[first], key);
}

/* As RelationFindReplTupleByIndex() (execReplication.c), but that the row is not locked, and is read as of the snapshot. */
static bool
find_by_index(AtpHeap *d, const Datum *key)
{
	for (int k = 0; k < d->nkeys; k++)
		d->keys[k].sk_argument = key[k];
	index_rescan(d->scan, d->keys, d->nkeys, NULL, 0);
	if (!index_getnext_slot(d->scan, ForwardScanDirection, d->found))
		return false;
	note_place(d, key[0], d->found);
	return true;
}

bool
atp_heap_find(AtpHeap *d, const Datum *key, ItemPointer place, Datum *values, bool *nulls)
{
	if (!find_there(d, key[0]) && !find_by_index(d, key))
		return false;
	*place = d->found->tts_tid;
	slot_getallattrs(d->found);
	for (int c = 0; c < d->ncolumns; c++)
	{
		values[c] = d->found->tts_values[d->attnums[c] - 1];
		nulls[c] = d->found->tts_isnull[d->attnums[c] - 1];
	}
	return true;
}

/* Its constraints need no check then: what was not null is not, and there is no other one. */
static bool
patch(AtpHeap *d, const AtpRows *rows, int row)
{
	TupleConstr *constr = RelationGetDescr(d->rel)->constr;
	bool		unused;

	if (d->renewed != 0 || (constr != NULL && constr->num_check > 0))
		return false;
	ExecCopySlot(d->changed, d->found);
	return atp_patch(RelationGetDescr(d->rel), ExecFetchSlotHeapTuple(d->changed, true, &unused), d->of_attribute, rows, row);
}

/* The new version of the row that was found, in a slot of its own. */
static void
make_version(AtpHeap *d, const AtpRows *rows, int row)
{
	if (patch(d, rows, row))
		return;
	slot_getallattrs(d->found);
	ExecClearTuple(d->changed);
	/* what columns had that were dropped goes, as by a statement */
	for (int i = 0; i < d->found->tts_tupleDescriptor->natts; i++)
		d->found->tts_isnull[i] |= TupleDescAttr(d->found->tts_tupleDescriptor, i)->attisdropped;
	if (d->renewed != 0)
	{
		d->found->tts_values[d->renewed - 1] = d->values[d->renewed - 1];
		d->found->tts_isnull[d->renewed - 1] = d->nulls[d->renewed - 1];
	}
	fill_slot(d, d->changed, rows, row, d->found->tts_values, d->found->tts_isnull);
	check_constraints(d, d->result, d->changed);
}

/*
 * The new version stays on its page, if it can: the indexes need no entry then.  Only who reads by an index
 * takes the dead away: see heapam_index_fetch_tuple() (heapam_handler.c), which calls the same function with the same
 * pin and no lock.  The page is that of the row that was found, whose values must not be needed any more.
 */
static void
make_room(AtpHeap *d)
{
	bool		unused;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(d->changed, true, &unused);
	Buffer		buffer = ((BufferHeapTupleTableSlot *) d->found)->buffer;

	if (PageGetHeapFreeSpace(BufferGetPage(buffer)) < MAXALIGN(tuple->t_len))
		heap_page_prune_opt(d->rel, buffer);
}

/*
 * As ExecSimpleRelationUpdate() (execReplication.c), but that the row was not locked before: TM_Updated and
 * TM_Deleted are conflicts, which ExecUpdateAct() would answer with EvalPlanQual().
 */
void
atp_heap_update(AtpHeap *d, ItemPointer place, const AtpRows *rows, int row)
{
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(d->estate));
	TM_FailureData failure;
	LockTupleMode mode;
	AtpUpdateIndexes indexes;

	CHECK_FOR_INTERRUPTS();
	CheckCmdReplicaIdentity(d->rel, CMD_UPDATE);
	/* seen by our snapshot, so it is still there, whatever became of it */
	if (!table_tuple_fetch_row_version(d->rel, place, SnapshotAny, d->found))
		elog(ERROR, "a row of table \"%s\" has vanished", d->table->name);
	make_version(d, rows, row);
	make_room(d);
	if (table_tuple_update(d->rel, place, d->changed, GetCurrentCommandId(true), GetActiveSnapshot(),
						   InvalidSnapshot, true, &failure, &mode, &indexes) != TM_Ok)
		conflict(d);
	note_place(d, rows->values[row], d->changed);
	atp_update_index_tuples(d->result, d->changed, d->estate, indexes);
	ResetPerTupleExprContext(d->estate);
	MemoryContextSwitchTo(old);
}

/* As ExecSimpleRelationDelete() (execReplication.c), with the same difference. */
void
atp_heap_delete(AtpHeap *d, ItemPointer place)
{
	TM_FailureData failure;

	CHECK_FOR_INTERRUPTS();
	CheckCmdReplicaIdentity(d->rel, CMD_DELETE);
	if (table_tuple_delete(d->rel, place, GetCurrentCommandId(true), GetActiveSnapshot(),
						   InvalidSnapshot, true, &failure, false) != TM_Ok)
		conflict(d);
}

/* As CopyFrom() ends, and the portal after it: what was written is visible to the statements that follow. */
void
atp_heap_close(AtpHeap *d)
{
	if (d->scan != NULL)
	{
		index_endscan(d->scan);
		ExecDropSingleTupleTableSlot(d->found);
		ExecDropSingleTupleTableSlot(d->changed);
	}
	for (int i = 0; i < d->nslots; i++)
		ExecDropSingleTupleTableSlot(d->slots[i]);
	if (d->partitions != NULL)
		atp_partitions_close(d->partitions);
	/* slots that PostgreSQL has made for triggers, and for partitions of another layout */
	ExecResetTupleTable(d->estate->es_tupleTable, false);
	ExecCloseResultRelations(d->estate);
	FreeExecutorState(d->estate);
	table_close(d->rel, NoLock);
	PopActiveSnapshot();
	CommandCounterIncrement();
}
