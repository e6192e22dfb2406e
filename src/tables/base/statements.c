/*
 * statements.c
 *		Statements on the data tables: prepared, checked, and run.
 *
 * Rows travel as arrays, one for each column, so that a batch is a handful of statements.  These
 * are ordinary INSERT, UPDATE and DELETE, so triggers, row security, generated columns, partitions
 * and foreign keys work as usual.  (direct.h writes rows without statements where the result
 * is the same.) The arrays are of the extension's types, whatever the columns are; operators are
 * named with their schema, since the search_path is empty.
 *
 * The tables belong to the user, who may change a column's type at any time.  So the types of
 * returned columns are compared with the expected ones before a value is read.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/target.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "storage/lmgr.h"
#include "tables/base/distributed.h"
#include "tables/base/key_plan.h"
#include "tables/base/node_mark.h"
#include "tables/base/referrers.h"
#include "tables/base/statements.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/plancache.h"
#include "utils/portal.h"
#include "utils/resowner.h"
#include "utils/syscache.h"

typedef struct ElementType
{
	Oid			oid;
	Oid			array;
	int16		len;
	bool		byval;
	char		align;
} ElementType;

typedef struct Prepared
{
	const AtpStatement *statement;
	bool		distributed;	/* prepared for a table under Citus */
	SPIPlanPtr	plan;
} Prepared;

struct AtpStatements
{
	MemoryContext cxt;
	char		target[NAMEDATALEN];
	int			writer;
	ElementType elements[ATP_TYPE_COUNT];
	bool		loaded;			/* elements[] is filled */
	bool		packs;			/* loaded: values of records are of the type dagcbor */
	int			checked;		/* ATP_USE_... of tables with checked columns */
	List	   *prepared;
};

static int	nsets;

AtpStatements *
atp_statements_create(const char *schema, int writer)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto statements", ALLOCSET_SMALL_SIZES);
	AtpStatements *set = MemoryContextAllocZero(cxt, sizeof(AtpStatements));

	set->cxt = cxt;
	strlcpy(set->target, schema, sizeof(set->target));
	set->writer = writer;
	nsets++;
	return set;
}

void
atp_statements_free(AtpStatements *set)
{
	ListCell   *lc;

	foreach(lc, set->prepared)
		SPI_freeplan(((Prepared *) lfirst(lc))->plan);
	MemoryContextDelete(set->cxt);
	nsets--;
}

bool
atp_statements_in_use(void)
{
	return nsets > 0;
}

const char *
atp_target(const AtpStatements *set)
{
	return set->target;
}

int
atp_writer(const AtpStatements *set)
{
	return set->writer;
}

Oid
atp_target_table(const AtpStatements *set, const char *name)
{
	return get_relname_relid(name, get_namespace_oid(set->target, false));
}

/* ------------------------------------------------------------------------
 * Types
 * ------------------------------------------------------------------------
 */

/* The type tid is always in the schema atproto. */
static Oid
find_type(AtpType type)
{
	if (!atp_type_is_ours(type))
		return atp_type_oid(type);
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(atp_type_name(type)),
						   ObjectIdGetDatum(type == ATP_TYPE_TID ? get_namespace_oid("atproto", false) : atp_extension_namespace()));
}

static void
load_types(AtpStatements *set)
{
	for (AtpType t = ATP_TYPE_END + 1; t < ATP_TYPE_VALUE; t++)
	{
		ElementType *e = &set->elements[t];

		e->oid = find_type(t);
		e->array = get_array_type(e->oid);
		get_typlenbyvalalign(e->oid, &e->len, &e->byval, &e->align);
	}
	set->packs = atp_target_packs(set->target);
	set->loaded = true;
}

static const ElementType *
element_type(AtpStatements *set, AtpType type)
{
	if (!set->loaded)
		load_types(set);
	return &set->elements[atp_value_type(type, set->packs)];
}

Oid
atp_element(AtpStatements *set, AtpType type)
{
	return element_type(set, type)->oid;
}

Datum
atp_array(AtpStatements *set, AtpType type, Datum *values, bool *nulls, int n)
{
	const ElementType *e = element_type(set, type);
	int			lbound = 1;

	return PointerGetDatum(construct_md_array(values, nulls, 1, &n, &lbound, e->oid, e->len, e->byval, e->align));
}

static void
forget_plans(AtpStatements *set)
{
	ListCell   *lc;

	foreach(lc, set->prepared)
		SPI_freeplan(((Prepared *) lfirst(lc))->plan);
	list_free_deep(set->prepared);
	set->prepared = NIL;
	set->checked = 0;
}

bool
atp_statements_pack(AtpStatements *set)
{
	bool		packs = atp_target_packs(set->target);

	if (set->loaded && packs != set->packs)
		forget_plans(set);
	set->packs = packs;
	return packs;
}

/* ------------------------------------------------------------------------
 * Tables
 * ------------------------------------------------------------------------
 */

/* The type that the column must have in this target. */
static AtpType
type_of(AtpStatements *set, const AtpColumn *column)
{
	if (!set->loaded)
		load_types(set);
	return atp_value_type(column->type, set->packs);
}

/*
 * ERROR if the column is missing (a table that an older version made may lack the column) or has the wrong type.  A
 * column of an extension type has to be of this type or of a domain over the type: an assignment cast to another type
 * could change the value unnoticed.  All columns of values have one type: a value of the type dagcbor that jsonb cannot hold
 * would become NULL by the cast.
 */
static void
check_column(AtpStatements *set, const AtpTable *table, const AtpColumn *column)
{
	Oid			relid = atp_target_table(set, table->name);
	AttrNumber	attnum = OidIsValid(relid) ? get_attnum(relid, column->name) : InvalidAttrNumber;
	AtpType		type;
	Oid			base;

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("schema \"%s\" has no table \"%s\" with a column \"%s\"", set->target, table->name, column->name),
				 !OidIsValid(relid) || atp_column_can_be_added(column)
				 ? errhint("Run SELECT atproto.create_tables('%s').", set->target) : 0));
	base = getBaseType(get_atttype(relid, attnum));
	type = type_of(set, column);
	if (base == atp_element(set, type) ||
		(!atp_type_is_ours(type) && (column->type != ATP_TYPE_VALUE || base != atp_element(set, ATP_TYPE_DAGCBOR))))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" of table \"%s.%s\" is of type %s, not %s",
					column->name, set->target, table->name, format_type_be(base), atp_type_name(type)),
			 column->type == ATP_TYPE_VALUE ? errdetail("Values have one type in a target, which column \"%s\" of table \"%s\" tells.", "value", "record") : 0));
}

static void
check_columns(AtpStatements *set, int uses)
{
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
		if ((*table)->use & uses & ~set->checked)
		{
			for (int i = 0; i < (*table)->ncolumns; i++)
			{
				const AtpColumn *column = &(*table)->columns[i];

				/* a column not filled by rows may be missing */
				if (column->written != ATP_APART || atp_type_is_ours(column->type))
					check_column(set, *table, column);
			}
			atp_check_referrers(atp_target_table(set, (*table)->name));
		}
	set->checked |= uses;
}

bool
atp_values_are_packed(const AtpStatements *set)
{
	return set->packs;
}

/*
 * The plan of an INSERT casts each value to the type of the column, and a cast from dagcbor to jsonb may give NULL: so the types
 * are compared in each transaction, and not only when the plan is made.
 */
static void
check_value_columns(AtpStatements *set, int uses)
{
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
		for (int i = 0; ((*table)->use & uses) && i < (*table)->ncolumns; i++)
			if ((*table)->columns[i].type == ATP_TYPE_VALUE)
				check_column(set, *table, &(*table)->columns[i]);
}

void
atp_require_values(AtpStatements *set, const AtpSettings *settings, int uses)
{
	Oid			relid = atp_target_table(set, atp_record_table.name);

	if (OidIsValid(relid))
		LockRelationOid(relid, RowExclusiveLock);
	if (atp_statements_pack(set) != settings->packs)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the values in schema \"%s\" have become of another type since the settings were read", set->target),
				 errhint("Try again.")));
	check_value_columns(set, uses);
}

/* ------------------------------------------------------------------------
 * Statements
 * ------------------------------------------------------------------------
 */
static int
arg_types(AtpStatements *set, const AtpStatement *statement, Oid *types)
{
	int			n = 0;

	for (; statement->args[n] != ATP_TYPE_END; n++)
	{
		/* the list has room for ATP_TYPE_END */
		Assert(n < lengthof(statement->args) - 1);
		types[n] = statement->args[n] > ATP_TYPE_COUNT
			? element_type(set, statement->args[n] - ATP_TYPE_COUNT)->array : atp_element(set, statement->args[n]);
	}
	return n;
}

/* Append the types of the table's row columns to n existing types; returns the new number. */
static int
add_row_types(AtpStatements *set, const AtpTable *table, bool arrays, Oid *types, int n)
{
	int			ncolumns;
	const AtpColumn **columns = atp_row_columns(table, &ncolumns);

	Assert(n + ncolumns <= ATP_STATEMENT_ARGS);
	for (int i = 0; i < ncolumns; i++)
		types[n++] = arrays ? element_type(set, columns[i]->type)->array : atp_element(set, columns[i]->type);
	pfree(columns);
	return n;
}

/* Citus cannot plan a statement without the values of the parameters. */
static int
plan_options(const AtpStatement *statement, bool distributed)
{
	return distributed || (statement->flags & (ATP_PLANNED_ANEW | ATP_BY_KEY)) ? CURSOR_OPT_CUSTOM_PLAN : CURSOR_OPT_GENERIC_PLAN;
}

static SPIPlanPtr
prepare_statement(AtpStatements *set, const AtpStatement *statement, bool distributed)
{
	Oid			types[ATP_STATEMENT_ARGS];
	int			nargs = arg_types(set, statement, types);
	char	   *sql = atp_expand_statement(statement, nargs, set->target);
	SPIPlanPtr	plan;
	MemoryContext old;
	Prepared   *prepared;

	if (statement->table != NULL)
		check_columns(set, statement->table->use);
	if (statement->flags & ATP_ROWS_IN)
		nargs = add_row_types(set, statement->table, true, types, nargs);
	plan = SPI_prepare_cursor(sql, nargs, types, plan_options(statement, distributed));
	if (plan == NULL || SPI_keepplan(plan) != 0)
		elog(ERROR, "could not prepare \"%s\": %s", sql, SPI_result_code_string(SPI_result));
	old = MemoryContextSwitchTo(set->cxt);
	prepared = palloc(sizeof(Prepared));
	*prepared = (Prepared) {statement, distributed, plan};
	set->prepared = lappend(set->prepared, prepared);
	MemoryContextSwitchTo(old);
	return plan;
}

bool
atp_target_is_distributed(AtpStatements *set, const AtpTable *table)
{
	Oid			relid;
	bool		distributed;

	/*
	 * While the lock was waited for, Citus may have replaced the table: Citus' functions for altering a table make a
	 * new table.
	 */
	do
	{
		relid = atp_target_table(set, table->name);
		distributed = atp_is_distributed(relid);
	} while (relid != atp_target_table(set, table->name));
	return distributed;
}

static bool
has_other_statements(AtpStatements *set, const AtpTable *table, bool distributed)
{
	return table->shard_setup == NULL ? distributed : atp_has_shard_column(table, atp_target_table(set, table->name));
}

/*
 * The plan of a statement.  Where the statement has a variant for distributed tables and the table is distributed,
 * *statement becomes the variant.
 */
static SPIPlanPtr
find_plan(AtpStatements *set, const AtpStatement **statement, bool distributed)
{
	ListCell   *lc;

	if ((*statement)->distributed != NULL && has_other_statements(set, (*statement)->table, distributed))
		*statement = (*statement)->distributed;
	foreach(lc, set->prepared)
	{
		const Prepared *prepared = lfirst(lc);

		if (prepared->statement == *statement && prepared->distributed == distributed)
			return prepared->plan;
	}
	return prepare_statement(set, *statement, distributed);
}

static bool
is_distributed(AtpStatements *set, const AtpStatement *statement)
{
	return statement->table != NULL && atp_target_is_distributed(set, statement->table);
}

static SPIPlanPtr
plan_of(AtpStatements *set, const AtpStatement **statement)
{
	return find_plan(set, statement, is_distributed(set, *statement));
}

/* ERROR unless the returned columns are of the expected types, or of binary coercible ones. */
static void
check_result(AtpStatements *set, const AtpStatement *statement, TupleDesc desc)
{
	Oid			types[ATP_STATEMENT_ARGS];
	int			n = 0;

	for (; statement->columns[n] != ATP_TYPE_END; n++)
	{
		Assert(n < lengthof(statement->columns) - 1);
		types[n] = atp_element(set, statement->columns[n]);
	}
	if (statement->flags & ATP_ROWS_OUT)
		n = add_row_types(set, statement->table, false, types, n);
	for (int i = 0; i < n; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Oid			expected = types[i];

		if (att->atttypid != expected && !IsBinaryCoercible(att->atttypid, expected))
			ereport(ERROR,
					(errcode(ERRCODE_DATATYPE_MISMATCH),
					 errmsg("column \"%s\" of a table in schema \"%s\" is of type %s, not %s",
							NameStr(att->attname), set->target, format_type_be(att->atttypid), format_type_be(expected))));
	}
}

/* Set the planner's settings for the statement.  Returns the GUC nest level to end; 0: nothing was set. */
static int
begin_planning(const AtpStatement *statement)
{
	static const char *const other_ways[] = {"enable_seqscan", "enable_bitmapscan", "enable_sort"};
	int			nest = atp_planning_begin();

	if (!(statement->flags & ATP_BY_INDEX))
		return nest;
	if (nest == 0)
		nest = NewGUCNestLevel();
	for (int i = 0; i < lengthof(other_ways); i++)
		(void) set_config_option(other_ways[i], "off", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	return nest;
}

Portal
atp_open(AtpStatements *set, const AtpStatement *statement, Datum *values)
{
	MemoryContext old = CurrentMemoryContext;
	SPIPlanPtr	plan = plan_of(set, &statement);
	int			nest = begin_planning(statement);
	Portal		portal = SPI_cursor_open(NULL, plan, values, NULL, false);

	MemoryContextSwitchTo(old);
	atp_planning_end(nest);
	check_result(set, statement, portal->tupDesc);
	return portal;
}

static int
run_by_key(SPIPlanPtr plan, Datum *values, const char *nulls)
{
	volatile int rc;

	PG_TRY();
	{
		atp_plan_by_key(DatumGetPointer(values[0]));
		rc = SPI_execute_plan(plan, values, nulls, false, 0);
	}
	PG_CATCH();
	{
		atp_plan_by_key(NULL);
		PG_RE_THROW();
	}
	PG_END_TRY();
	atp_plan_by_key(NULL);
	return rc;
}

uint64
atp_execute(AtpStatements *set, const AtpStatement *statement, Datum *values, const char *nulls)
{
	MemoryContext old = CurrentMemoryContext;
	bool		distributed = is_distributed(set, statement);
	SPIPlanPtr	plan = find_plan(set, &statement, distributed);
	int			nest;
	int			rc;

	if (distributed)
		atp_nodes_touch(set, statement, values);
	nest = begin_planning(statement);
	rc = statement->flags & ATP_BY_KEY ? run_by_key(plan, values, nulls) : SPI_execute_plan(plan, values, nulls, false, 0);
	/* SPI leaves the memory context of SPI current */
	MemoryContextSwitchTo(old);
	atp_planning_end(nest);
	/*
	 * A rule has rewritten the statement.  The SQLSTATE must not be one of a passing error: another attempt would
	 * fail in the same way.
	 */
	if (rc != statement->result)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rules make a statement on a table in schema \"%s\" into another one", set->target),
				 errdetail_internal("\"%s\" gives %s.", statement->sql, SPI_result_code_string(rc))));
	check_result(set, statement, SPI_tuptable != NULL ? SPI_tuptable->tupdesc : NULL);
	return SPI_processed;
}

int
atp_take_dids(struct varlena **dids, int n)
{
	int			taken = 0;

	for (int i = 0; i < n; i++)
	{
		Datum		did;
		bool		null;

		heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, &did, &null);
		if (!null)
			dids[taken++] = PG_DETOAST_DATUM_COPY(did);
	}
	SPI_freetuptable(SPI_tuptable);
	return taken;
}

static void
check_privileges(AtpStatements *set, const AtpTable *table)
{
	const AclMode needed = ACL_SELECT | ACL_INSERT | ACL_UPDATE | ACL_DELETE;
	Oid			relid = atp_target_table(set, table->name);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("schema \"%s\" has no table \"%s\"", set->target, table->name),
				 errhint("Run SELECT atproto.create_tables('%s').", set->target)));
	if (pg_class_aclmask(relid, GetUserId(), needed, ACLMASK_ALL) != needed)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_TABLE, table->name);
}

/* Plan the statement: the planner reports other missing columns and missing keys. */
static void
check_statement(AtpStatements *set, const AtpStatement *statement)
{
	SPIPlanPtr	plan = plan_of(set, &statement);
	CachedPlan *cached = SPI_plan_get_cached_plan(plan);

	if (cached != NULL)
		ReleaseCachedPlan(cached, CurrentResourceOwner);
	check_result(set, statement, ((CachedPlanSource *) linitial(SPI_plan_get_plan_sources(plan)))->resultDesc);
}

void
atp_statements_check(AtpStatements *set, int uses)
{
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
		if ((*table)->use & uses)
			check_privileges(set, *table);
	set->checked = 0;
	check_columns(set, uses);
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
		for (int i = 0; ((*table)->use & uses) && i < (*table)->nstatements; i++)
			check_statement(set, &(*table)->statements[i]);
}

bool
atp_statement_is_ordinary(AtpStatements *set, const AtpStatement *statement)
{
	CachedPlan *plan = SPI_plan_get_cached_plan(plan_of(set, &statement));
	PlannedStmt *planned = linitial_node(PlannedStmt, plan->stmt_list);
	bool		ordinary = IsA(planned->planTree, ModifyTable) || IsA(planned->planTree, LockRows);

	atp_check_permissions(planned);
	ReleaseCachedPlan(plan, CurrentResourceOwner);
	return ordinary;
}
