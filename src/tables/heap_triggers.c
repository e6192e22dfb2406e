/*
 * heap_triggers.c
 *		Triggers of tables that rows go into without a statement, for heap.c.
 *
 * They are fired when COPY fires them, by the same functions of PostgreSQL: as the user who is
 * writing, with what he may do, and with the snapshot of the rows' command.
 */
#include "postgres.h"

#include "catalog/pg_trigger.h"
#include "executor/executor.h"
#include "tables/heap_triggers.h"
#include "utils/rel.h"

void
atp_triggers_begin(AtpTriggers *t, EState *estate, ResultRelInfo *root)
{
	t->estate = estate;
	t->root = root;
	AfterTriggerBeginQuery();
	t->capture = MakeTransitionCaptureState(root->ri_TrigDesc, RelationGetRelid(root->ri_RelationDesc), CMD_INSERT);
	ExecBSInsertTriggers(estate, root);
}

void
atp_triggers_end(AtpTriggers *t)
{
	ExecASInsertTriggers(t->estate, t->root, t->capture);
	AfterTriggerEndQuery(t->estate);
}

/* Foreign keys are checked in any order. */
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

bool
atp_triggers_before_row(AtpTriggers *t, ResultRelInfo *result, TupleTableSlot *slot)
{
	slot->tts_tableOid = RelationGetRelid(result->ri_RelationDesc);
	return ExecBRInsertTriggers(t->estate, result, slot);
}

void
atp_triggers_after_row(AtpTriggers *t, ResultRelInfo *result, TupleTableSlot *slot, TupleTableSlot *unrouted)
{
	if (t->capture != NULL)
		t->capture->tcs_original_insert_tuple = atp_fires_before_row(result) ? NULL : unrouted;
	ExecARInsertTriggers(t->estate, result, slot, NIL, t->capture);
}
