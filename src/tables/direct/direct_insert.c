/*
 * direct_insert.c
 *		New rows into a table without an SQL statement.
 *
 * An upsert looks each key up before inserting, because most of its rows may exist.  In a stream nearly all rows are
 * new.  They go into the heap many at a time, and into the indexes with a check that reports a possible duplicate and
 * does not wait (UNIQUE_CHECK_PARTIAL, as ON CONFLICT uses it).  The check and the insertion happen under one lock of
 * the index page, so of two sessions that insert the same key, at least the second is told of a duplicate.  The process
 * then gives up the whole transaction, by an ERROR with ATP_ERRCODE_CONFLICT that no user sees, and does it again with
 * statements.
 *
 * Triggers are fired as COPY fires them (direct_triggers.c).  direct_open.c says which tables are written in this way.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "tables/direct/direct_private.h"
#include "tables/direct/direct_short.h"
#include "utils/rel.h"

/* At most this many bytes go into the heap in one step, which copies them. */
#define CHUNK_BYTES	(4 * 1024 * 1024)

static TupleTableSlot *
slot_of(AtpDirect *d, int i)
{
	/* a keyed table has whole rows, since direct_patch.c writes a row's next version into a copy of the row */
	if (i == d->nslots)
		d->slots[d->nslots++] = MakeSingleTupleTableSlot(RelationGetDescr(d->rel), d->table->keyed ? &TTSOpsVirtual : &TTSOpsHeapTuple);
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
	{
		atp_direct_check(d, result, slots[i]);
		if (!d->table->keyed)
			atp_shorten(slots[i]);
	}
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
