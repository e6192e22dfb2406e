/*
 * direct_insert.c
 *		Rows into a table without an SQL statement, where the result is the same.
 *
 * An upsert looks each key up before inserting, because most of its rows may exist.  In a stream
 * nearly all rows are new.  They go into the heap many at a time, and into the indexes with a check
 * that reports a possible duplicate and does not wait (UNIQUE_CHECK_PARTIAL, as ON CONFLICT uses
 * it).  The check and the insertion happen under one lock of the index page, so of two sessions
 * that insert the same key, at least the second is told of a duplicate.  The process then gives up
 * the whole transaction, by an ERROR with ATP_ERRCODE_CONFLICT that no user sees, and does it again
 * with statements.
 *
 * A row is updated or deleted without being locked when it is read: the update waits for a session
 * that has locked the row, and raises the same ERROR when the row was changed.  Triggers are fired
 * as COPY fires them (direct_triggers.c).
 *
 * Only for tables where nobody can see a difference to statements: see is_plain_table().  An operator can
 * switch direct writes off (atproto.direct_writes); statements then do the same work.
 *
 * This file must do what PostgreSQL does in these places; each function names the function of the
 * server that it follows.  The model of the whole is CopyFrom() (commands/copyfrom.c) for new rows,
 * and ExecSimpleRelationUpdate() and ExecSimpleRelationDelete() (executor/execReplication.c) for
 * existing rows.
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
#include "tables/direct/direct_patch.h"
#include "tables/direct/direct_private.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

/* At most this many bytes go into the heap in one step, which copies them. */
#define CHUNK_BYTES	(4 * 1024 * 1024)

/* atproto.direct_writes */
static bool direct_writes = true;

void
atp_direct_init(void)
{
	DefineCustomBoolVariable("atproto.direct_writes",
							 "Whether rows go into plain tables without SQL statements.",
							 "If off, all rows are written by statements, which is slower. The rows are the same.",
							 &direct_writes, true,
							 PGC_SUSET, 0, NULL, NULL, NULL);
}

/*
 * No rule, policy or child table would have to handle the rows.  A keyed table is not partitioned, because rows are
 * not looked up in partitions.  A keyed table has no triggers that fire, either: statements insert a row with the key
 * alone, before other tables get rows, and set the remaining columns later, so triggers would see another sequence of
 * changes.
 */
static bool
is_plain_table(Relation rel, const AtpTable *table, bool *fires_each_row)
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
		if ((table->statements[i].flags & ATP_DIRECT) &&
			!atp_statement_is_ordinary(set, &table->statements[i]))
			return false;
	return true;
}

static int
column_of(const AtpDirect *d, const char *name)
{
	int			c = 0;

	while (c < d->ncolumns && strcmp(d->columns[c]->name, name) != 0)
		c++;
	return c;
}

/*
 * Find the columns, and the values of all other attributes, which are the same in all rows.  The defaults are those
 * that rewriteTargetListIU() (rewriteHandler.c) puts into an INSERT, and that BeginCopyFrom() computes for columns
 * without input.  False when a value would have to be converted, checked by a domain or typmod, or computed for each
 * row.
 */
static bool
find_columns(AtpDirect *d)
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
		/* without a default, the attribute is set to null */
		if (d->table->renewed != NULL && strcmp(NameStr(att->attname), d->table->renewed) == 0)
			d->renewed = att->attnum;
		value = (Expr *) build_column_default(d->rel, att->attnum);
		if (value == NULL)
			continue;
		if (contain_volatile_functions((Node *) value))
			return false;
		d->values[i] = ExecEvalExpr(ExecPrepareExpr(value, d->estate),
									GetPerTupleExprContext(d->estate), &d->nulls[i]);
		/*
		 * An expanded object belongs to the receiver, which may change or free the object.  All rows share this
		 * value, so a flat copy is made.
		 */
		if (!d->nulls[i])
			d->values[i] = datumCopy(d->values[i], att->attbyval, att->attlen);
	}
	return found == d->ncolumns;
}

/*
 * True for a unique btree index on exactly the columns of the key, in their order: what infer_arbiter_indexes()
 * (plancat.c) looks for at ON CONFLICT.
 */
static bool
is_index_of_key(AtpDirect *d, Relation index)
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

/* Follows build_replindex_scan_key() (execReplication.c). */
static void
set_keys(AtpDirect *d, Relation index)
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
 * Tells the executor which columns an update writes: all but the key.  An index on one of these columns gets new
 * entries, and a search for old versions of the row among its entries is not worth while: see
 * index_unchanged_by_update() (execIndexing.c), which calls ExecGetUpdatedCols().
 */
static void
tell_updated(AtpDirect *d)
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
note_attributes(AtpDirect *d)
{
	int			natts = RelationGetDescr(d->rel)->natts;

	d->of_attribute = palloc(sizeof(int) * natts);
	for (int i = 0; i < natts; i++)
		d->of_attribute[i] = -1;
	for (int c = 0; c < d->ncolumns; c++)
		d->of_attribute[d->attnums[c] - 1] = c;
}

bool
atp_direct_finds(AtpDirect *d)
{
	if (d->scan != NULL)
		return true;
	/* is_plain_table() has checked that a keyed table has no triggers that fire */
	if (!d->table->keyed && d->rel->trigdesc != NULL)
		return false;
	d->nkeys = 0;
	while (d->nkeys < d->ncolumns && d->columns[d->nkeys]->written == ATP_KEY)
		d->nkeys++;
	Assert(d->nkeys > 0 && d->nkeys <= ATP_DIRECT_KEYS);
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
 * Begins as CopyFrom(): an executor's state without a plan, with the table as result relation
 * (ExecInitResultRelation(), execUtils.c), its indexes, and a snapshot.
 */
AtpDirect *
atp_direct_open(AtpStatements *set, const AtpTable *table)
{
	AtpDirect  *d;
	Oid			relid = atp_target_table(set, table->name);
	Relation	rel;
	bool		fires_each_row;

	/* At other isolation levels, a row that the snapshot cannot see is a serialization error and not a conflict. */
	if (!direct_writes || !OidIsValid(relid) || XactReadOnly || IsolationUsesXactSnapshot())
		return NULL;
	rel = table_open(relid, RowExclusiveLock);
	if (!is_plain_table(rel, table, &fires_each_row) || atp_is_distributed(relid) || atp_has_shard_column(table, relid) || !statements_are_ordinary(set, table))
	{
		table_close(rel, NoLock);
		return NULL;
	}
	d = palloc0(sizeof(AtpDirect));
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
	/* ExecGetTriggerResultRel() (trigger.c) looks for the relation in this list when queued triggers fire */
	d->estate->es_opened_result_relations = list_make1(d->result);
	ExecOpenIndices(d->result, false);
	PushActiveSnapshot(GetTransactionSnapshot());
	if (!atp_indexes_are_plain(d->result) || !find_columns(d) || (table->keyed && !atp_direct_finds(d)))
	{
		atp_direct_close(d);
		return NULL;
	}
	if (rel->rd_rel->relkind == RELKIND_PARTITIONED_TABLE)
		d->partitions = atp_partitions_open(d->result, d->estate);
	return d;
}

void
atp_direct_conflict(AtpDirect *d)
{
	ereport(ERROR,
			(errcode(ATP_ERRCODE_CONFLICT),
			 errmsg("a row of table \"%s\" is there already, or was changed", d->table->name)));
}

static TupleTableSlot *
slot_of(AtpDirect *d, int i)
{
	if (i == d->nslots)
		d->slots[d->nslots++] = MakeSingleTupleTableSlot(RelationGetDescr(d->rel), &TTSOpsVirtual);
	return ExecClearTuple(d->slots[i]);
}

/*
 * Insert rows into one table or partition.  Follows CopyMultiInsertBufferFlush() (copyfrom.c), with two differences:
 * indexes are asked as ExecInsert() asks them for ON CONFLICT, and a duplicate ends the transaction.  So the
 * speculative token is not needed, by which ExecInsert() would take the row back.
 */
static void
insert_slots(AtpDirect *d, ResultRelInfo *result, TupleTableSlot **slots, int n)
{
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(d->estate));

	for (int i = 0; i < n; i++)
		atp_direct_check(d, result, slots[i]);
	table_multi_insert(result->ri_RelationDesc, slots, n, d->estate->es_output_cid, 0, NULL);
	MemoryContextSwitchTo(old);
	for (int i = 0; i < n; i++)
		atp_direct_note_place(d, slots[i]->tts_values[d->attnums[0] - 1], slots[i]);
	for (int i = 0; i < n && result->ri_NumIndices > 0; i++)
	{
		bool		duplicate = false;

		(void) atp_insert_index_tuples(result, slots[i], d->estate, &duplicate);
		if (duplicate)
			atp_direct_conflict(d);
	}
}

/* Insert rows [lo, hi) of a chunk, partition by partition, in the order in which the partitions occur. */
static void
insert_together(AtpDirect *d, int lo, int hi)
{
	TupleTableSlot *together[ATP_DIRECT_CHUNK];
	bool		done[ATP_DIRECT_CHUNK] = {0};

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
	/* the slots are cleared, since triggers may have made the rows large */
	for (int i = lo; i < hi; i++)
	{
		atp_triggers_after_row(&d->triggers, d->leaves[i], d->routed[i], d->slots[i]);
		ExecClearTuple(d->routed[i]);
		ExecClearTuple(d->slots[i]);
	}
	ResetPerTupleExprContext(d->estate);
}

static void
route_slot(AtpDirect *d, int i)
{
	d->routed[i] = d->slots[i];
	if (d->partitions == NULL)
	{
		d->leaves[i] = d->result;
		return;
	}
	d->leaves[i] = atp_partition_of(d->partitions, &d->routed[i]);
	if (d->leaves[i] == NULL || !atp_indexes_are_plain(d->leaves[i]))
		atp_direct_conflict(d);
}

/*
 * A trigger before a row may look for the previous rows, so these are inserted before the trigger fires.  CopyFrom()
 * inserts row by row for such triggers; as in CopyFrom(), the partition constraint is checked after the trigger.
 */
static void
insert_chunk(AtpDirect *d, int n)
{
	int			from = 0;

	for (int i = 0; i < n; i++)
	{
		route_slot(d, i);
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
atp_direct_fires_each_row(const AtpDirect *d)
{
	return d->fires_each_row;
}

void
atp_direct_insert(AtpDirect *d, const AtpRows *rows)
{
	int			n = 0;
	Size		bytes = 0;

	Assert(rows->column == 0);
	if (rows->n == 0)
		return;
	/*
	 * All rows belong to one command, whatever triggers do meanwhile: CopyFrom() takes its command's number in the
	 * same way.
	 */
	d->estate->es_output_cid = GetCurrentCommandId(true);
	atp_triggers_begin(&d->triggers, d->estate, d->result);
	for (int row = 0; row < rows->n; row++)
	{
		TupleTableSlot *slot = slot_of(d, n++);

		atp_direct_fill(d, slot, rows, row, d->values, d->nulls);
		bytes += heap_compute_data_size(slot->tts_tupleDescriptor, slot->tts_values, slot->tts_isnull);
		if (n == ATP_DIRECT_CHUNK || bytes > CHUNK_BYTES || row == rows->n - 1)
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
 * Look for the row at the hinted ctid, under the current snapshot.  If the row there has the key, it is the wanted
 * row, since the key is unique.  TidNext() (nodeTidscan.c) fetches a row by ctid in the same way.
 */
static bool
find_there(AtpDirect *d, Datum key)
{
	int			first = d->attnums[0] - 1;
	ItemPointerData place;

	if (!d->table->keyed || !atp_tid_hint_get(RelationGetRelid(d->rel), (struct varlena *) DatumGetPointer(key), &place) ||
		ItemPointerGetBlockNumber(&place) >= d->nblocks ||
		!table_tuple_fetch_row_version(d->rel, &place, GetActiveSnapshot(), d->found))
		return false;
	slot_getallattrs(d->found);
	return !d->found->tts_isnull[first] && same_key(d->found->tts_values[first], key);
}

/*
 * Follows RelationFindReplTupleByIndex() (execReplication.c), except that the row is not locked, and is read under
 * the active snapshot.
 */
static bool
find_by_index(AtpDirect *d, const Datum *key)
{
	for (int k = 0; k < d->nkeys; k++)
		d->keys[k].sk_argument = key[k];
	index_rescan(d->scan, d->keys, d->nkeys, NULL, 0);
	if (!index_getnext_slot(d->scan, ForwardScanDirection, d->found))
		return false;
	atp_direct_note_place(d, key[0], d->found);
	return true;
}

bool
atp_direct_find(AtpDirect *d, const Datum *key, ItemPointer place, Datum *values, bool *nulls)
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

/*
 * Copy the row that was found and overwrite the written columns in place.  Constraints need no check then: NOT NULL
 * holds, since no null is written over a value that is not null, and the table has no CHECK constraint.
 */
static bool
patch_row(AtpDirect *d, const AtpRows *rows, int row)
{
	TupleConstr *constr = RelationGetDescr(d->rel)->constr;
	bool		unused;

	if (d->renewed != 0 || (constr != NULL && constr->num_check > 0))
		return false;
	ExecCopySlot(d->changed, d->found);
	return atp_patch(RelationGetDescr(d->rel), ExecFetchSlotHeapTuple(d->changed, true, &unused), d->of_attribute, rows, row);
}

#ifdef USE_ASSERT_CHECKING
/* Has the patched row the written values, and all other values of the row that was found? */
static void
check_patched(AtpDirect *d, const AtpRows *rows, int row)
{
	TupleDesc	desc = RelationGetDescr(d->rel);

	slot_getallattrs(d->found);
	slot_getallattrs(d->changed);
	for (int i = 0; i < desc->natts; i++)
	{
		bool		written = d->of_attribute[i] >= 0;
		int			cell = d->of_attribute[i] * rows->max + row;
		bool		isnull = written ? rows->nulls[cell] : d->found->tts_isnull[i];

		Assert(d->changed->tts_isnull[i] == isnull);
		Assert(isnull || datum_image_eq(d->changed->tts_values[i], written ? rows->values[cell] : d->found->tts_values[i],
										TupleDescAttr(desc, i)->attbyval, TupleDescAttr(desc, i)->attlen));
	}
}
#endif

/* Make the new version of the row in "found", in the slot "changed". */
static void
make_version(AtpDirect *d, const AtpRows *rows, int row)
{
	if (patch_row(d, rows, row))
	{
#ifdef USE_ASSERT_CHECKING
		check_patched(d, rows, row);
#endif
		return;
	}
	slot_getallattrs(d->found);
	ExecClearTuple(d->changed);
	/* values of dropped columns become null, as in an UPDATE */
	for (int i = 0; i < d->found->tts_tupleDescriptor->natts; i++)
		d->found->tts_isnull[i] |= TupleDescAttr(d->found->tts_tupleDescriptor, i)->attisdropped;
	if (d->renewed != 0)
	{
		d->found->tts_values[d->renewed - 1] = d->values[d->renewed - 1];
		d->found->tts_isnull[d->renewed - 1] = d->nulls[d->renewed - 1];
	}
	atp_direct_fill(d, d->changed, rows, row, d->found->tts_values, d->found->tts_isnull);
	atp_direct_check(d, d->result, d->changed);
}

/*
 * Prune the page if the new version does not fit, so that the update stays on the page (HOT) and the indexes need no
 * entry.  Otherwise only readers by an index prune: see heapam_index_fetch_tuple() (heapam_handler.c), which calls
 * the same function with the same pin and no lock.  Pruning moves tuples within the page of the row that was found,
 * so nothing may use that row's values after this call.
 */
static void
make_room(AtpDirect *d)
{
	bool		unused;
	HeapTuple	tuple = ExecFetchSlotHeapTuple(d->changed, true, &unused);
	Buffer		buffer = ((BufferHeapTupleTableSlot *) d->found)->buffer;

	if (PageGetHeapFreeSpace(BufferGetPage(buffer)) < MAXALIGN(tuple->t_len))
		heap_page_prune_opt(d->rel, buffer);
}

/*
 * Follows ExecSimpleRelationUpdate() (execReplication.c), except that the row was not locked before: TM_Updated and
 * TM_Deleted are conflicts, where ExecUpdateAct() would use EvalPlanQual().
 */
void
atp_direct_update(AtpDirect *d, ItemPointer place, const AtpRows *rows, int row)
{
	MemoryContext old = MemoryContextSwitchTo(GetPerTupleMemoryContext(d->estate));
	TM_FailureData failure;
	LockTupleMode mode;
	AtpUpdateIndexes indexes;

	CHECK_FOR_INTERRUPTS();
	CheckCmdReplicaIdentity(d->rel, CMD_UPDATE);
	/* our snapshot saw the row, so VACUUM cannot have removed the row, even if it was deleted or updated */
	if (!table_tuple_fetch_row_version(d->rel, place, SnapshotAny, d->found))
		elog(ERROR, "a row of table \"%s\" has vanished", d->table->name);
	make_version(d, rows, row);
	make_room(d);
	if (table_tuple_update(d->rel, place, d->changed, GetCurrentCommandId(true), GetActiveSnapshot(),
						   InvalidSnapshot, true, &failure, &mode, &indexes) != TM_Ok)
		atp_direct_conflict(d);
	atp_direct_note_place(d, rows->values[row], d->changed);
	atp_update_index_tuples(d->result, d->changed, d->estate, indexes);
	ResetPerTupleExprContext(d->estate);
	MemoryContextSwitchTo(old);
}

/* Follows ExecSimpleRelationDelete() (execReplication.c), except that the row was not locked before. */
void
atp_direct_delete(AtpDirect *d, ItemPointer place)
{
	TM_FailureData failure;

	CHECK_FOR_INTERRUPTS();
	CheckCmdReplicaIdentity(d->rel, CMD_DELETE);
	if (table_tuple_delete(d->rel, place, GetCurrentCommandId(true), GetActiveSnapshot(),
						   InvalidSnapshot, true, &failure, false) != TM_Ok)
		atp_direct_conflict(d);
}

/* Ends as CopyFrom() and the portal of COPY end: the rows are visible to the following statements. */
void
atp_direct_close(AtpDirect *d)
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
	/* frees slots made by PostgreSQL for triggers, and for partitions with another layout */
	ExecResetTupleTable(d->estate->es_tupleTable, false);
	ExecCloseResultRelations(d->estate);
	FreeExecutorState(d->estate);
	table_close(d->rel, NoLock);
	PopActiveSnapshot();
	CommandCounterIncrement();
}
