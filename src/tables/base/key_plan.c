/*
 * key_plan.c
 *		Plans of statements that know the whole key of each row.
 *
 * When the statistics of a table or partition were made of a handful of rows (the first ones of a
 * month), an index on a single column of the key seems to lead to one row, too, and is the smaller
 * index.  The planner then takes the smaller index, and each row costs a scan of a whole
 * collection.
 *
 * So for such a statement the planner is offered unique indexes only: they are right however large
 * the table has become.
 */
#include "postgres.h"

#include "common/compat.h"
#include "nodes/pathnodes.h"
#include "optimizer/pathnode.h"
#include "optimizer/plancat.h"
#include "tables/base/key_plan.h"

static AtpRelationHook next_hook = NULL;
static bool hooked;
static void *first_parameter;

/*
 * The statement is recognized by the address of its first array.  Statements planned in the meantime, for example by
 * a trigger, have different arrays.
 */
static bool
is_the_statement(PlannerInfo *root)
{
	ParamListInfo params = root->glob->boundParams;

	return first_parameter != NULL && params != NULL && params->numParams > 0 &&
		params->params[0].value == PointerGetDatum(first_parameter);
}

static void
offer_keys(ATP_RELATION_HOOK_PARAMETERS)
{
	List	   *keys = NIL;
	ListCell   *cell;

	if (next_hook != NULL)
		ATP_RELATION_HOOK(next_hook);
	if (!is_the_statement(root))
		return;
	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (index->unique && index->indpred == NIL)
			keys = lappend(keys, index);
	}
	/* a table that a user has made may have no unique index */
	if (keys != NIL)
		rel->indexlist = keys;
}

void
atp_plan_by_key(void *first)
{
	if (!hooked)
	{
		next_hook = atp_relation_hook;
		atp_relation_hook = offer_keys;
		hooked = true;
	}
	first_parameter = first;
}
