/*
 * check_query.c
 *		Runs a query of check(): the caller's rights on the relations, the rights of the tables' owner for
 *		what the owner has put into the tables.
 *
 * Whoever reads a table runs the owner's functions, in expressions of indexes and statistics, in constraints and in
 * policies; PostgreSQL calls some of them already when it plans the query.  check() reads the tables of all targets, and
 * superusers call check().  So a query over tables of a role that the caller does not trust is planned and executed with
 * the rights of this role.  The privileges on the relations are still the caller's, as they are a view's owner's in a
 * view.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "common/compat.h"
#include "config/owner.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "nodes/params.h"
#include "parser/analyze.h"
#include "rewrite/rewriteDefine.h"
#include "tables/check/check_query.h"
#include "tcop/dest.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rls.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

/* ------------------------------------------------------------------------
 * Whose rights
 * ------------------------------------------------------------------------
 */
typedef struct Readers
{
	Oid			owner;			/* whose rights the query needs; InvalidOid: the caller's */
	List	   *relids;			/* all relations of the query */
} Readers;

static void
refuse_table(Oid relid, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("table \"%s.%s\" belongs to a role that is not trusted, and %s",
					get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid), why)));
}

/*
 * Only tables can be read with the rights of their owner.  A foreign table, also one that inherits from a table of ours,
 * would be read with the caller's user mapping, or without a password where only superusers need none.
 */
static void
refuse_others(Oid relid)
{
	ListCell   *lc;

	foreach(lc, find_all_inheritors(relid, AccessShareLock, NULL))
	{
		char		kind = get_rel_relkind(lfirst_oid(lc));

		if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
			refuse_table(lfirst_oid(lc), "is no table");
	}
}

/* The lock of the query's analysis keeps the owner, the kind and the policies of the table as they are. */
static void
add_relation(Readers *readers, Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	readers->relids = lappend_oid(readers->relids, relid);
	if (atp_owner_is_trusted(GetUserId(), owner))
		return;
	refuse_others(relid);
	if (!atp_owner_narrow(&readers->owner, owner))
		refuse_table(relid, "a second such role owns a further table");
}

static bool
find_relations(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		const RangeTblEntry *rte = (const RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION)
			add_relation(context, rte->relid);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, find_relations, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, find_relations, context);
}

/*
 * Policies depend on the current user, and may read tables with the rights of the caller: what they find must not come
 * into the hands of the owner.
 */
static void
refuse_policies(const Readers *readers)
{
	ListCell   *lc;

	foreach(lc, readers->relids)
		if (check_enable_rls(lfirst_oid(lc), GetUserId(), true) == RLS_ENABLED)
			refuse_table(lfirst_oid(lc), "row security is active");
}

/* ------------------------------------------------------------------------
 * Planning and execution
 * ------------------------------------------------------------------------
 */
typedef struct RowReceiver
{
	DestReceiver pub;
	void		(*row) (void *arg, TupleTableSlot *slot);
	void	   *arg;
} RowReceiver;

static bool
receive_row(TupleTableSlot *slot, DestReceiver *self)
{
	RowReceiver *receiver = (RowReceiver *) self;

	receiver->row(receiver->arg, slot);
	return true;
}

static void
begin_rows(DestReceiver *self, int operation, TupleDesc desc)
{
}

static void
end_rows(DestReceiver *self)
{
}

static void
set_option(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

/*
 * The planner underestimates the number of links in records, and would choose nested loops over
 * whole tables: so nested loops are off while such queries are planned.
 */
static PlannedStmt *
plan_query(Query *query, const char *sql, bool whole, ParamListInfo params)
{
	int			nest = NewGUCNestLevel();
	PlannedStmt *plan;

	if (whole)
	{
		set_option("enable_nestloop", "off");
		/* unavoidable loops then look so expensive that the query would be compiled */
		set_option("jit", "off");
	}
	plan = atp_plan_query(linitial_node(Query, pg_rewrite_query(query)), sql, params);
	AtEOXact_GUC(false, nest);
	return plan;
}

static void
execute_plan(PlannedStmt *plan, const char *sql, ParamListInfo params, RowReceiver *receiver)
{
	QueryDesc  *desc = CreateQueryDesc(plan, sql, GetActiveSnapshot(), InvalidSnapshot, &receiver->pub, params, NULL, 0);

	ExecutorStart(desc, 0);
	atp_executor_run(desc);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
}

void
atp_check_query(const char *sql, Datum target, bool isnull, bool whole, bool *foreign,
				void (*row) (void *arg, TupleTableSlot *slot), void *arg)
{
	RowReceiver receiver = {
		.pub = {.receiveSlot = receive_row, .rStartup = begin_rows, .rShutdown = end_rows, .rDestroy = end_rows, .mydest = DestNone},
		.row = row, .arg = arg
	};
	ParamListInfo params = makeParamList(1);
	Oid			type = NAMEOID;
	Query	   *query = parse_analyze_fixedparams(linitial_node(RawStmt, pg_parse_query(sql)), sql, &type, 1, NULL);
	Readers		readers = {0};
	AtpCaller	caller;

	params->params[0] = (ParamExternData) {target, isnull, PARAM_FLAG_CONST, type};
	(void) find_relations((Node *) query, &readers);
	*foreign = OidIsValid(readers.owner);
	if (*foreign)
	{
		refuse_policies(&readers);
		setRuleCheckAsUser((Node *) query, GetUserId());
		caller = atp_owner_begin(readers.owner);
	}
	execute_plan(plan_query(query, sql, whole, params), sql, params, &receiver);
	/* also restores settings that functions of the owner have changed: the next query may run with the caller's rights */
	if (*foreign)
		atp_owner_end(caller);
}
