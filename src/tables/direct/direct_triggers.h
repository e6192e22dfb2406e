/*
 * direct_triggers.h
 *		Triggers of tables that rows go into without a statement, for heap.c.
 */
#ifndef ATP_DIRECT_TRIGGERS_H
#define ATP_DIRECT_TRIGGERS_H

#include "postgres.h"

#include "commands/trigger.h"
#include "nodes/execnodes.h"

/* The rows of one call are to the triggers what one statement is. */
typedef struct AtpTriggers
{
	EState	   *estate;
	ResultRelInfo *root;		/* the table that is written to */
	TransitionCaptureState *capture;	/* its transition table; NULL: nobody asks for one */
} AtpTriggers;

/* Triggers of the statement, before and after it; then those that were queued are fired. */
extern void atp_triggers_begin(AtpTriggers *t, EState *estate, ResultRelInfo *root);
extern void atp_triggers_end(AtpTriggers *t);

/* Does a trigger of users fire for each row that goes into this table? */
extern bool atp_fires_each_row(const TriggerDesc *triggers);

/*
 * Are its triggers but those of foreign keys that refer to this column, and are checked at the commit?
 * Where the column does not change they never fire, and what refers to a row may come before it.
 */
extern bool atp_is_only_referred_to(Relation rel, AttrNumber column);

/* Is there one before a row of this table, or partition? */
static inline bool
atp_fires_before_row(const ResultRelInfo *result)
{
	return result->ri_TrigDesc != NULL && result->ri_TrigDesc->trig_insert_before_row;
}

/* Those before a row, which may change it.  False: one of them keeps it away. */
extern bool atp_triggers_before_row(AtpTriggers *t, ResultRelInfo *result, TupleTableSlot *slot);

/*
 * A row is in the table, or partition: queue the triggers after it, and add it to the transition
 * table, which has it as it was before it was routed there.
 */
extern void atp_triggers_after_row(AtpTriggers *t, ResultRelInfo *result, TupleTableSlot *slot, TupleTableSlot *unrouted);

#endif							/* ATP_DIRECT_TRIGGERS_H */
