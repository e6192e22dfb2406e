/*
 * direct_open.c
 *		Open a table whose rows are written without SQL statements, where the result is the same.
 *
 * Only tables where nobody can see a difference to statements are opened: see is_plain_table().  An operator can switch
 * direct writes off (atproto.direct_writes); statements then do the same work.
 *
 * direct_insert.c and direct_update.c write the rows.  These files must do what PostgreSQL does in these places; each
 * function names the function of the server that it follows.  The model of the whole is CopyFrom() (commands/copyfrom.c)
 * for new rows, and ExecSimpleRelationUpdate() and ExecSimpleRelationDelete() (executor/execReplication.c) for existing
 * rows.
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/table.h"
#include "access/xact.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "tables/base/distributed.h"
#include "tables/direct/direct_private.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"

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
