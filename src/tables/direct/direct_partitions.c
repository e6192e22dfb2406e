/*
 * direct_partitions.c
 *		Which partition each row goes into, for direct_insert.c.
 *
 * PostgreSQL finds the partition and opens it with its indexes, as for COPY.  Partition constraints
 * need no check then, unless a trigger may have changed the row.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/tupconvert.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "common/compat.h"
#include "executor/execPartition.h"
#include "executor/executor.h"
#include "partitioning/partdesc.h"
#include "tables/direct/direct_partitions.h"
#include "utils/rel.h"
#include "utils/syscache.h"

struct AtpPartitions
{
	ModifyTableState *mtstate;
	PartitionTupleRouting *routing;
	ResultRelInfo *root;
	EState	   *estate;
	List	   *slots;			/* slots for rows with another layout in the partition */
};

/*
 * This code does not call ExecComputeStoredGenerated() (nodeModifyTable.c).  Until PostgreSQL 16, a partition may
 * have generated columns that the parent does not have; only INSERT computes them.
 */
static bool
has_generated_columns(Relation rel)
{
	TupleConstr *constr = RelationGetDescr(rel)->constr;

	return constr != NULL && constr->has_generated_stored;
}

bool
atp_leaf_is_plain(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION && rel->rd_tableam == GetHeapamTableAmRoutine() &&
		rel->rd_rules == NULL && !has_generated_columns(rel);
}

/* atp_leaf_is_plain() from the catalog, for a partition that is not opened.  Generated columns are not seen here. */
static bool
leaf_is_plain(Oid relid, bool *has_triggers)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class class;
	bool		plain;

	if (!HeapTupleIsValid(tuple))
		return false;
	class = (Form_pg_class) GETSTRUCT(tuple);
	plain = class->relkind == RELKIND_RELATION && class->relam == HEAP_TABLE_AM_OID && !class->relhasrules;
	*has_triggers |= class->relhastriggers;
	ReleaseSysCache(tuple);
	return plain;
}

bool
atp_partitions_are_plain(Relation rel, bool *have_triggers)
{
	PartitionDesc desc = RelationGetPartitionDesc(rel, true);

	for (int i = 0; i < desc->nparts; i++)
	{
		Relation	part;
		bool		plain;

		if (desc->is_leaf[i])
		{
			if (!leaf_is_plain(desc->oids[i], have_triggers))
				return false;
			continue;
		}
		part = try_table_open(desc->oids[i], RowExclusiveLock);
		if (part == NULL)
			return false;
		plain = part->rd_rules == NULL && atp_partitions_are_plain(part, have_triggers);
		table_close(part, NoLock);
		if (!plain)
			return false;
	}
	return true;
}

/* Follows CopyFrom() (commands/copyfrom.c), which makes a ModifyTableState for ExecFindPartition(). */
AtpPartitions *
atp_partitions_open(ResultRelInfo *root, EState *estate)
{
	AtpPartitions *p = palloc0(sizeof(AtpPartitions));

	p->root = root;
	p->estate = estate;
	p->mtstate = makeNode(ModifyTableState);
	p->mtstate->ps.state = estate;
	p->mtstate->operation = CMD_INSERT;
	p->mtstate->mt_nrels = 1;
	p->mtstate->resultRelInfo = root;
	p->mtstate->rootResultRelInfo = root;
	p->routing = ExecSetupPartitionTupleRouting(estate, root->ri_RelationDesc);
	return p;
}

/* Follows CopyFrom(): ExecFindPartition(), then the row is converted to the layout of the partition. */
ResultRelInfo *
atp_partition_of(AtpPartitions *p, TupleTableSlot **slot)
{
	ResultRelInfo *leaf = ExecFindPartition(p->mtstate, p->root, p->routing, *slot, p->estate);
	TupleConversionMap *map = atp_map_to_partition(leaf, p->estate);

	if (!atp_leaf_is_plain(leaf->ri_RelationDesc))
		return NULL;
	if (map != NULL)
	{
		TupleTableSlot *own = MakeSingleTupleTableSlot(RelationGetDescr(leaf->ri_RelationDesc), &TTSOpsHeapTuple);

		p->slots = lappend(p->slots, own);
		*slot = execute_attr_map_slot(map->attrMap, *slot, own);
	}
	return leaf;
}

void
atp_partitions_clear(AtpPartitions *p)
{
	ListCell   *cell;

	foreach(cell, p->slots)
		ExecDropSingleTupleTableSlot(lfirst(cell));
	list_free(p->slots);
	p->slots = NIL;
}

void
atp_partitions_close(AtpPartitions *p)
{
	atp_partitions_clear(p);
	ExecCleanupTupleRouting(p->mtstate, p->routing);
}
