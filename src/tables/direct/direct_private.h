/*
 * direct_private.h
 *		A table that is written without SQL statements, open.  Private to src/tables/direct.
 *
 * direct_open.c makes the structure, direct_insert.c and direct_update.c write rows.  The inline functions run for each
 * row.
 */
#ifndef ATP_DIRECT_PRIVATE_H
#define ATP_DIRECT_PRIVATE_H

#include "postgres.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/tableam.h"
#include "common/compat.h"
#include "executor/executor.h"
#include "tables/direct/direct.h"
#include "tables/direct/direct_hint.h"
#include "tables/direct/direct_partitions.h"
#include "tables/direct/direct_triggers.h"
#include "utils/rel.h"

/* At most this many rows go into the heap in one step, which copies them. */
#define ATP_DIRECT_CHUNK	256

/* The table, with its indexes and partitions, for one transaction. */
struct AtpDirect
{
	AtpStatements *set;
	const AtpTable *table;
	const AtpColumn **columns;	/* columns written with each row */
	int			ncolumns;
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *result;
	AttrNumber *attnums;		/* attribute numbers of columns */
	Datum	   *values;			/* values of the attributes outside of columns */
	bool	   *nulls;
	int			nslots;
	TupleTableSlot *slots[ATP_DIRECT_CHUNK];
	/* for each row of a chunk: the table or partition that gets the row, and the row in the layout of that table */
	AtpPartitions *partitions;
	ResultRelInfo *leaves[ATP_DIRECT_CHUNK];
	TupleTableSlot *routed[ATP_DIRECT_CHUNK];
	AtpTriggers triggers;
	bool		fires_each_row;
	AttrNumber	renewed;		/* attribute set to the default by each update, too; 0: no such attribute */
	/* for looking rows up */
	IndexScanDesc scan;
	ScanKeyData keys[ATP_DIRECT_KEYS];
	int			nkeys;
	BlockNumber nblocks;		/* number of blocks when the table was opened; our lock keeps VACUUM from truncating the table */
	TupleTableSlot *found;
	TupleTableSlot *changed;
	int		   *of_attribute;	/* index in columns for each attribute; -1: not in columns */
};

/* Raises the ERROR with ATP_ERRCODE_CONFLICT. */
pg_noreturn extern void atp_direct_conflict(AtpDirect *d);

/*
 * Each index only reports a possible duplicate.  ExecInsertIndexTuples() (execIndexing.c) then asks a unique index
 * with UNIQUE_CHECK_PARTIAL, and _bt_check_unique() (nbtinsert.c) does not wait.  An exclusion constraint would wait,
 * and a deferrable index is checked later.
 */
static inline bool
atp_indexes_are_plain(ResultRelInfo *result)
{
	for (int i = 0; i < result->ri_NumIndices; i++)
	{
		Form_pg_index index = result->ri_IndexRelationDescs[i]->rd_index;

		if (index->indisexclusion || !index->indimmediate)
			return false;
	}
	return true;
}

/* Fill a slot with one of the rows; the other attributes are given. */
static inline void
atp_direct_fill(AtpDirect *d, TupleTableSlot *slot, const AtpRows *rows, int row,
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

/* Checks as ExecInsert() and ExecUpdateAct() (nodeModifyTable.c) do before the row goes into the table. */
static inline void
atp_direct_check(AtpDirect *d, ResultRelInfo *result, TupleTableSlot *slot)
{
	/* a constraint may refer to tableoid */
	slot->tts_tableOid = RelationGetRelid(result->ri_RelationDesc);
	if (RelationGetDescr(result->ri_RelationDesc)->constr != NULL)
		ExecConstraints(result, slot, d->estate);
}

/* Note the ctid of a row of a keyed table, since such rows are looked up again and again by the key. */
static inline void
atp_direct_note_place(AtpDirect *d, Datum key, TupleTableSlot *slot)
{
	if (d->table->keyed)
		atp_tid_hint_put(RelationGetRelid(d->rel), (struct varlena *) DatumGetPointer(key), &slot->tts_tid);
}

#endif							/* ATP_DIRECT_PRIVATE_H */
