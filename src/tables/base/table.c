/*
 * table.c
 *		SQL made from the descriptions of the data tables: CREATE TABLE, and statements with their
 *		columns filled in.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "common/compat.h"
#include "common/quotable.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/target.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "tables/base/distributed.h"
#include "tables/base/logged.h"
#include "tables/base/table.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_create_tables_sql);

const AtpTable *const atp_tables[] = {
	&atp_record_table, &atp_repo_table, &atp_record_event_table, &atp_label_table, &atp_message_table,
	&atp_link_source_table, &atp_link_table, &atp_link_count_table, &atp_collection_count_table, &atp_sweep_deletion_table,
	&atp_plc_text_table, &atp_plc_operation_table, &atp_plc_refused_table, NULL
};

static const struct
{
	const char *name;
	Oid			oid;
}			types[ATP_TYPE_COUNT] = {
	[ATP_TYPE_DID] = {"did"},
	[ATP_TYPE_NSID] = {"nsid"},
	[ATP_TYPE_RKEY] = {"recordkey"},
	[ATP_TYPE_CID] = {"cidlink"},
	[ATP_TYPE_TID] = {"tid"},
	[ATP_TYPE_HANDLE] = {"handle"},
	[ATP_TYPE_ATURI] = {"aturi"},
	[ATP_TYPE_DAGCBOR] = {"dagcbor"},
	[ATP_TYPE_JSONB] = {"jsonb", JSONBOID},
	[ATP_TYPE_BYTEA] = {"bytea", BYTEAOID},
	[ATP_TYPE_BOOL] = {"boolean", BOOLOID},
	[ATP_TYPE_TEXT] = {"text", TEXTOID},
	[ATP_TYPE_INT4] = {"integer", INT4OID},
	[ATP_TYPE_INT8] = {"bigint", INT8OID},
	[ATP_TYPE_TIMESTAMP] = {"timestamptz", TIMESTAMPTZOID},
	[ATP_TYPE_OID] = {"oid", OIDOID},
	[ATP_TYPE_CTID] = {"tid", TIDOID},
};

AtpType
atp_value_type(AtpType type, bool packs)
{
	return type != ATP_TYPE_VALUE ? type : packs ? ATP_TYPE_DAGCBOR : ATP_TYPE_JSONB;
}

const char *
atp_type_name(AtpType type)
{
	return types[type].name;
}

Oid
atp_type_oid(AtpType type)
{
	return types[type].oid;
}

const AtpColumn **
atp_row_columns(const AtpTable *table, int *n)
{
	const AtpColumn **columns = palloc(sizeof(AtpColumn *) * table->ncolumns);

	*n = 0;
	for (int i = 0; i < table->ncolumns; i++)
		if (table->columns[i].written == ATP_KEY || table->columns[i].written == ATP_VALUE)
			columns[(*n)++] = &table->columns[i];
	return columns;
}

bool
atp_has_shard_column(const AtpTable *table, Oid relid)
{
	HeapTuple	tuple = table->shard_setup != NULL && OidIsValid(relid) ? SearchSysCacheAttName(relid, table->shard_by) : NULL;
	Form_pg_attribute att;
	bool		found;

	if (!HeapTupleIsValid(tuple))
		return false;
	att = (Form_pg_attribute) GETSTRUCT(tuple);
	/* a user may have added a column of this name without these properties */
	found = att->attnotnull && att->attgenerated == '\0';
	ReleaseSysCache(tuple);
	return found;
}

char *
atp_expand_sql(const char *sql, const char *target)
{
	const char *schema = atp_extension_schema();
	StringInfoData out;
	bool		quoted = false;

	atp_check_distributed(target);
	initStringInfo(&out);
	for (; *sql; sql++)
	{
		if (*sql == '\'')
			quoted = !quoted;
		if (*sql == '@' && !quoted)
			appendStringInfoString(&out, schema);
		else if (*sql == '#' && !quoted)
			appendStringInfoString(&out, quote_identifier(target));
		else
			appendStringInfoChar(&out, *sql);
	}
	return out.data;
}

/* ------------------------------------------------------------------------
 * Statements
 * ------------------------------------------------------------------------
 */

/* Append the expansion of {word} in a statement. */
static void
append_columns(StringInfo out, const char *word, const AtpTable *table, int nargs)
{
	int			n;
	const AtpColumn **columns = atp_row_columns(table, &n);
	const char *dot = strchr(word, '.');
	const char *comma = "";

	for (int i = 0; i < n; i++)
	{
		const char *name = columns[i]->name;
		bool		set = strncmp(word, "set ", 4) == 0;

		if (set && columns[i]->written == ATP_KEY)
			continue;
		appendStringInfoString(out, comma);
		comma = ", ";
		if (set)
			appendStringInfo(out, "%s = %s.%s", name, word + 4, name);
		else if (strcmp(word, "arrays") == 0)
			appendStringInfo(out, "$%d", nargs + i + 1);
		else if (dot != NULL && columns[i]->written == ATP_KEY)
			appendStringInfo(out, "%.*s.%s", (int) (dot - word), word, name);
		else
			appendStringInfoString(out, name);
	}
}

char *
atp_expand_statement(const AtpStatement *statement, int nargs, const char *target)
{
	const char *sql = statement->sql;
	StringInfoData out;

	initStringInfo(&out);
	for (const char *open; (open = strchr(sql, '{')) != NULL;)
	{
		const char *close = strchr(open, '}');

		appendBinaryStringInfo(&out, sql, open - sql);
		append_columns(&out, pnstrdup(open + 1, close - open - 1), statement->table, nargs);
		sql = close + 1;
	}
	appendStringInfoString(&out, sql);
	return atp_expand_sql(out.data, target);
}

/* ------------------------------------------------------------------------
 * Tables
 * ------------------------------------------------------------------------
 */
static void
append_column(StringInfo sql, const AtpColumn *column, bool packs)
{
	AtpType		type = atp_value_type(column->type, packs);

	/* the type tid is always in the schema atproto */
	appendStringInfo(sql, "%s %s%s", column->name,
					 type == ATP_TYPE_TID ? "atproto." : atp_type_is_ours(type) ? "@." : "", types[type].name);
	if (column->constraints != NULL)
		appendStringInfo(sql, " %s", column->constraints);
}

static void
append_column_rest(StringInfo sql, const AtpTable *table, const AtpColumn *column)
{
	if (column->more != NULL)
		appendStringInfo(sql, ";%s", column->more);
	if (column->comment != NULL)
		appendStringInfo(sql, ";COMMENT ON COLUMN #.%s.%s IS %s", table->name, column->name,
						 quote_literal_cstr(column->comment));
}

static void
create_table(const AtpTable *table, const char *target, bool packs)
{
	StringInfoData sql;

	/* gives the error of a missing schema privilege without quoting the whole statement */
	(void) LookupCreationNamespace(target);
	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE TABLE #.%s (", table->name);
	for (int i = 0; i < table->ncolumns; i++)
	{
		appendStringInfoString(&sql, i == 0 ? "" : ", ");
		append_column(&sql, &table->columns[i], packs);
	}
	if (table->key != NULL)
		appendStringInfo(&sql, ", %s", table->key);
	appendStringInfo(&sql, ")%s", table->options != NULL ? table->options : "");
	if (table->more != NULL)
		appendStringInfo(&sql, ";%s", table->more);
	appendStringInfo(&sql, ";COMMENT ON TABLE #.%s IS %s", table->name, quote_literal_cstr(table->comment));
	for (int i = 0; i < table->ncolumns; i++)
		append_column_rest(&sql, table, &table->columns[i]);
	atp_run_each(atp_expand_sql(sql.data, target));
}

bool
atp_column_can_be_added(const AtpColumn *column)
{
	return column->constraints == NULL || strstr(column->constraints, "DEFAULT") != NULL;
}

/*
 * A table made by this or an older version has every column that cannot be added later.  A table without these
 * columns belongs to a user and only has the same name.
 */
bool
atp_table_is_ours(const AtpTable *table, Oid relid)
{
	char		kind = get_rel_relkind(relid);

	if (kind != RELKIND_RELATION && kind != RELKIND_PARTITIONED_TABLE)
		return false;
	for (int i = 0; i < table->ncolumns; i++)
	{
		const AtpColumn *column = &table->columns[i];
		AttrNumber	attnum = get_attnum(relid, column->name);
		Oid			type = atp_type_is_ours(column->type) ? atp_type(atp_type_name(column->type)) : atp_type_oid(column->type);

		if (!atp_column_can_be_added(column) &&
			(attnum == InvalidAttrNumber || getBaseType(get_atttype(relid, attnum)) != type))
			return false;
	}
	return true;
}

static void
add_columns(const AtpTable *table, Oid relid, const char *target, bool packs)
{
	if (!atp_table_is_ours(table, relid))
		return;
	for (int i = 0; i < table->ncolumns; i++)
	{
		const AtpColumn *column = &table->columns[i];
		StringInfoData sql;

		if (get_attnum(relid, column->name) != InvalidAttrNumber || !atp_column_can_be_added(column))
			continue;
		initStringInfo(&sql);
		/* IF NOT EXISTS: a concurrent session may add the column while this session waits for the lock */
		appendStringInfo(&sql, "ALTER TABLE #.%s ADD COLUMN IF NOT EXISTS ", table->name);
		append_column(&sql, column, packs);
		append_column_rest(&sql, table, column);
		atp_run_each(atp_expand_sql(sql.data, target));
	}
}

static void
create_view(const AtpTable *table, const char *target)
{
	const char *sql = psprintf("CREATE VIEW #.%s AS %s;COMMENT ON VIEW #.%s IS %s;%s", table->view, table->view_query,
							   table->view, quote_literal_cstr(table->view_comment), table->view_more != NULL ? table->view_more : "");

	atp_run_each(atp_expand_sql(sql, target));
}

#ifdef ATP_INJECTION_POINTS

/* For tests: the values of targets that are made without the argument value are of this type. */
static char *test_value;

void
atp_table_init(void)
{
	DefineCustomStringVariable("atproto.test_value",
							   "For tests: type of the values in tables that are made without the argument value.",
							   NULL, &test_value, "jsonb", PGC_SUSET, 0, NULL, NULL, NULL);
}

static bool
new_values_pack(void)
{
	return strcmp(test_value, "dagcbor") == 0;
}

#else

#define new_values_pack()	false

#endif

/* Is the column value of the table record there? */
static bool
has_values(Oid schema)
{
	Oid			relid = get_relname_relid(atp_record_table.name, schema);

	return OidIsValid(relid) && get_attnum(relid, "value") != InvalidAttrNumber;
}

/*
 * Are the values to be of the type dagcbor?  The type of an existing table is changed by ALTER TABLE alone, which takes as long
 * as the table is large: other columns of a target with another type than record.value would not fit their values.
 */
static bool
packs_values(Oid schema, const char *target, const char *value)
{
	bool		packs = atp_target_packs(target);
	bool		wants = value != NULL && strcmp(value, "dagcbor") == 0;

	if (value != NULL && !wants && strcmp(value, "jsonb") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid value for parameter \"%s\": \"%s\"", "value", atp_quotable(value)),
				 errhint("The values of records are of type \"%s\" or \"%s\".", "jsonb", "dagcbor")));
	if (!has_values(schema))
		return wants || (value == NULL && new_values_pack());
	if (value != NULL && wants != packs)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the values in schema \"%s\" are of another type than %s", target, value),
				 errhint("Pause the subscriptions, and ALTER TABLE: the documentation of \"%s\" has the statements.", "dagcbor")));
	return packs;
}

void
atp_create_tables(const char *target, const char *value)
{
	Oid			schema = atp_schema_of(target);
	bool		packs = packs_values(schema, target, value);

	atp_check_logged(target);
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
	{
		Oid			relid = get_relname_relid((*table)->name, schema);

		Assert(strcmp((*table)->name, atp_target_tables[table - atp_tables]) == 0);
		if (OidIsValid(relid))
			add_columns(*table, relid, target, packs);
		else
			create_table(*table, target, packs);
		if ((*table)->view != NULL && !OidIsValid(get_relname_relid((*table)->view, schema)))
			create_view(*table, target);
	}
}

/*
 * Make the indexes that tables of an earlier version lack although they have the columns.  CREATE INDEX IF NOT EXISTS would
 * lock the table against writers even where the index exists.
 */
static void
create_indexes(const char *target)
{
	Oid			schema = get_namespace_oid(target, false);

	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
	{
		if (!atp_table_is_ours(*table, get_relname_relid((*table)->name, schema)))
			continue;
		for (int i = 0; i < (*table)->ncolumns; i++)
		{
			const AtpColumn *column = &(*table)->columns[i];

			if (column->index != NULL && !OidIsValid(get_relname_relid(column->index, schema)))
				atp_run_each(atp_expand_sql(column->more, target));
		}
	}
}

/*
 * SQL: atproto.create_tables(schema, value).  subscribe() does not make missing indexes: it would lock out the consumers that
 * fill the tables, for as long as a large table is read.
 */
Datum
atp_create_tables_sql(PG_FUNCTION_ARGS)
{
	const char *target;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	target = NameStr(*PG_GETARG_NAME(0));
	if (!OidIsValid(get_namespace_oid(target, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema \"%s\" does not exist", target),
				 errhint("Make the schema first: CREATE SCHEMA %s.", quote_identifier(target))));
	/* where all tables are there, nothing else would ask */
	if (atp_schema_aclcheck(atp_schema_of(target), GetUserId(), ACL_USAGE) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_SCHEMA, target);
	SPI_connect();
	atp_create_tables(target, PG_ARGISNULL(1) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(1)));
	create_indexes(target);
	SPI_finish();
	PG_RETURN_VOID();
}
