/*
 * direct_triggers.h
 *		Triggers of tables that rows go into without a statement, for direct_insert.c.
 */
#ifndef ATP_DIRECT_TRIGGERS_H
#define ATP_DIRECT_TRIGGERS_H

#include "postgres.h"

#include "commands/trigger.h"
#include "nodes/execnodes.h"

/* Triggers see the rows of one call as the rows of one statement. */
typedef struct AtpTriggers
{
	EState	   *estate;
	ResultRelInfo *root;		/* the table named by the caller, perhaps partitioned */
	TransitionCaptureState *capture;	/* transition table, or NULL when no trigger uses a transition table */
} AtpTriggers;

/*
 * atp_triggers_begin() fires BEFORE STATEMENT triggers.  atp_triggers_end() fires AFTER STATEMENT triggers and the
 * queued AFTER ROW triggers.
 */
extern void atp_triggers_begin(AtpTriggers *t, EState *estate, ResultRelInfo *root);
extern void atp_triggers_end(AtpTriggers *t);

/* Does a user's trigger fire for each row inserted into this table? */
extern bool atp_fires_each_row(const TriggerDesc *triggers);

/*
 * True if all triggers belong to foreign keys that refer to this column alone and are checked at the commit.  While
 * the column does not change, such triggers never fire, and a referring row may be inserted before the referenced
 * row.
 */
extern bool atp_is_only_referred_to(Relation rel, AttrNumber column);

/* Does this table or partition have a BEFORE INSERT trigger for each row? */
static inline bool
atp_fires_before_row(const ResultRelInfo *result)
{
	return result->ri_TrigDesc != NULL && result->ri_TrigDesc->trig_insert_before_row;
}

/* Fire the BEFORE ROW triggers, which may change the row.  False: a trigger suppresses the row. */
extern bool atp_triggers_before_row(AtpTriggers *t, ResultRelInfo *result, TupleTableSlot *slot);

/*
 * After a row was inserted into a table or partition: queue the AFTER ROW triggers, and add the row to the transition
 * table, in the layout that the row had before it was routed (unrouted).
 */
extern void atp_triggers_after_row(AtpTriggers *t, ResultRelInfo *result, TupleTableSlot *slot, TupleTableSlot *unrouted);

#endif							/* ATP_DIRECT_TRIGGERS_H */
