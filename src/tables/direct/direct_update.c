/*
 * direct_update.c
 *		Look up, update and delete rows of a table without an SQL statement.
 *
 * A row is not locked when it is read.  The update waits for a session that has locked the row, and raises an ERROR with
 * ATP_ERRCODE_CONFLICT if the row was changed; no user sees this ERROR, and the process does the transaction again with
 * statements.  direct_open.c says which tables are written in this way.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/nbtree.h"
#include "access/sysattr.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "miscadmin.h"
#include "parser/parse_relation.h"
#include "tables/direct/direct_patch.h"
#include "tables/direct/direct_private.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

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
		atp_heap_page_prune(d->rel, buffer);
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
	if (atp_table_tuple_update(d->rel, place, d->changed, &failure, &mode, &indexes) != TM_Ok)
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
	if (atp_table_tuple_delete(d->rel, place, &failure) != TM_Ok)
		atp_direct_conflict(d);
}
