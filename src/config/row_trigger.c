/*
 * row_trigger.c
 *		The call of a trigger function for a row: see row_trigger.h.
 */
#include "postgres.h"

#include "commands/trigger.h"
#include "config/row_trigger.h"
#include "utils/rel.h"

static bool
is_fired(TriggerEvent event, AtpRowTime time, int statements)
{
	int			statement = TRIGGER_FIRED_BY_INSERT(event) ? ATP_ON_INSERT : TRIGGER_FIRED_BY_DELETE(event) ? ATP_ON_DELETE
		: TRIGGER_FIRED_BY_UPDATE(event) ? ATP_ON_UPDATE : 0;

	return TRIGGER_FIRED_FOR_ROW(event) && (time == ATP_BEFORE_ROW ? TRIGGER_FIRED_BEFORE(event) : TRIGGER_FIRED_AFTER(event)) &&
		(statement & statements) != 0;
}

AtpRowTrigger
atp_row_trigger(FunctionCallInfo fcinfo, const char *function, AtpRowTime time, int statements)
{
	const TriggerData *trigger = (const TriggerData *) fcinfo->context;
	AtpRowTrigger call;

	if (!CALLED_AS_TRIGGER(fcinfo) || !is_fired(trigger->tg_event, time, statements))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 time == ATP_BEFORE_ROW ? errmsg("function \"%s\" must be fired before each row", function)
				 : errmsg("function \"%s\" must be fired after each row", function)));
	call.inserted = TRIGGER_FIRED_BY_INSERT(trigger->tg_event);
	call.updated = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event);
	call.deleted = TRIGGER_FIRED_BY_DELETE(trigger->tg_event);
	call.old = call.row = (AtpTuple) {trigger->tg_trigtuple, RelationGetDescr(trigger->tg_relation)};
	if (call.updated)
		call.row.tuple = trigger->tg_newtuple;
	return call;
}
