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
 *
 * And since the keys are few, each key is looked up, and the table is not read in any other way.  To read a whole table
 * looks cheaper to the planner, as long as the table has less than some million rows, and is done again for each batch of
 * keys.  And where the planner expects that a further condition leaves hardly a row, as "n = 0" of a count, it would
 * compare each such row with each key: a batch that lowers thousands of counts to zero would take minutes.
 *
 * A table without a look-up is read as usual, and the plan's cost stays what it is: a table without a unique index, a table of
 * a user's rule or policy that is joined with no key, an empty table, for which the planner has dropped the look-up.  A plan
 * that seems to cost too much would be compiled (jit) in a user's session, which takes seconds.
 */
#include "postgres.h"

#include "common/compat.h"
#include "nodes/pathnodes.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "tables/base/key_plan.h"

/* More than any plan that looks keys up can cost. */
#define TOO_MUCH	1.0e10

static AtpRelationHook next_hook = NULL;
static set_rel_pathlist_hook_type next_paths_hook = NULL;
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

/* NIL: a table that a user has made may have no unique index. */
static List *
unique_indexes(const RelOptInfo *rel)
{
	List	   *keys = NIL;
	ListCell   *cell;

	foreach(cell, rel->indexlist)
	{
		IndexOptInfo *index = lfirst_node(IndexOptInfo, cell);

		if (index->unique && index->indpred == NIL)
			keys = lappend(keys, index);
	}
	return keys;
}

static void
offer_keys(ATP_RELATION_HOOK_PARAMETERS)
{
	List	   *keys;

	if (next_hook != NULL)
		ATP_RELATION_HOOK(next_hook);
	if (!is_the_statement(root))
		return;
	keys = unique_indexes(rel);
	if (keys != NIL)
		rel->indexlist = keys;
}

/* A path that depends on no other table does not look keys up. */
static bool
looks_up(const Path *path)
{
	return path->param_info != NULL;
}

static bool
has_look_up(const RelOptInfo *rel)
{
	ListCell   *cell;

	foreach(cell, rel->pathlist)
	{
		if (looks_up(lfirst(cell)))
			return true;
	}
	return false;
}

/*
 * Partial paths keep their costs, because no such statement has a parallel plan: these statements write or lock rows, or are
 * prepared without CURSOR_OPT_PARALLEL_OK.
 */
static void
prefer_lookups(PlannerInfo *root, RelOptInfo *rel, Index rti, RangeTblEntry *rte)
{
	ListCell   *cell;

	if (next_paths_hook != NULL)
		next_paths_hook(root, rel, rti, rte);
	if (!is_the_statement(root) || unique_indexes(rel) == NIL || !has_look_up(rel))
		return;
	foreach(cell, rel->pathlist)
	{
		Path	   *path = lfirst(cell);

		if (looks_up(path))
			continue;
		path->startup_cost += TOO_MUCH;
		path->total_cost += TOO_MUCH;
	}
}

void
atp_plan_by_key(void *first)
{
	if (!hooked)
	{
		next_paths_hook = set_rel_pathlist_hook;
		set_rel_pathlist_hook = prefer_lookups;
		next_hook = atp_relation_hook;
		atp_relation_hook = offer_keys;
		hooked = true;
	}
	first_parameter = first;
}
