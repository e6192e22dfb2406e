/*
 * direct_triggers.c
 *		Triggers of tables that rows go into without a statement, for direct_insert.c.
 *
 * Triggers fire when COPY fires them, by the same functions of PostgreSQL: with the user and the
 * privileges of the writing process, and with the snapshot of the command.
 */
#include "postgres.h"

#include "catalog/pg_constraint.h"
#include "catalog/pg_trigger.h"
#include "executor/executor.h"
#include "tables/direct/direct_triggers.h"
#include "utils/array.h"
#include "utils/rel.h"
#include "utils/syscache.h"

/* Follows CopyFrom() (commands/copyfrom.c) before the first row. */
void
atp_triggers_begin(AtpTriggers *t, EState *estate, ResultRelInfo *root)
{
	t->estate = estate;
	t->root = root;
	AfterTriggerBeginQuery();
	t->capture = MakeTransitionCaptureState(root->ri_TrigDesc, RelationGetRelid(root->ri_RelationDesc), CMD_INSERT);
	ExecBSInsertTriggers(estate, root);
}

/* Follows CopyFrom() after the last row. */
void
atp_triggers_end(AtpTriggers *t)
{
	ExecASInsertTriggers(t->estate, t->root, t->capture);
	AfterTriggerEndQuery(t->estate);
}

/* Internal triggers do not count: they check foreign keys, in whatever order the rows come. */
bool
atp_fires_each_row(const TriggerDesc *triggers)
{
	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (TRIGGER_FOR_ROW(trigger->tgtype) && TRIGGER_FOR_INSERT(trigger->tgtype) && !trigger->tgisinternal)
			return true;
	}
	return false;
}

/*
 * Is the constraint a foreign key that refers to this column alone and is checked at the commit?
 * RI_FKey_trigger_type() (ri_triggers.c) does not tell.
 */
static bool
refers_later(Oid constraint, AttrNumber column)
{
	HeapTuple	tuple = SearchSysCache1(CONSTROID, ObjectIdGetDatum(constraint));
	bool		later = false;

	if (!HeapTupleIsValid(tuple))
		return false;
	if (((Form_pg_constraint) GETSTRUCT(tuple))->condeferred)
	{
		bool		isnull;
		Datum		columns = SysCacheGetAttr(CONSTROID, tuple, Anum_pg_constraint_confkey, &isnull);
		ArrayType  *array = isnull ? NULL : DatumGetArrayTypeP(columns);

		later = array != NULL && ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) == 1 &&
			*(int16 *) ARR_DATA_PTR(array) == column;
	}
	ReleaseSysCache(tuple);
	return later;
}

bool
atp_is_only_referred_to(Relation rel, AttrNumber column)
{
	const TriggerDesc *triggers = rel->trigdesc;

	for (int i = 0; triggers != NULL && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];

		if (RI_FKey_trigger_type(trigger->tgfoid) != RI_TRIGGER_PK || !refers_later(trigger->tgconstraint, column))
			return false;
	}
	return true;
}

/* Follows CopyFrom(), and ExecInsert() (nodeModifyTable.c), before each row. */
bool
atp_triggers_before_row(AtpTriggers *t, ResultRelInfo *result, TupleTableSlot *slot)
{
	slot->tts_tableOid = RelationGetRelid(result->ri_RelationDesc);
	return ExecBRInsertTriggers(t->estate, result, slot);
}

/*
 * Follows CopyMultiInsertBufferFlush() (copyfrom.c) after the rows are in table and indexes; the tuple for transition
 * capture is set as in CopyFrom().
 */
void
atp_triggers_after_row(AtpTriggers *t, ResultRelInfo *result, TupleTableSlot *slot, TupleTableSlot *unrouted)
{
	if (t->capture != NULL)
		t->capture->tcs_original_insert_tuple = atp_fires_before_row(result) ? NULL : unrouted;
	ExecARInsertTriggers(t->estate, result, slot, NIL, t->capture);
}
