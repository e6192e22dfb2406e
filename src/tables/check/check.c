/*
 * check.c
 *		SQL: atproto.check(), which checks the invariants between the tables.
 *
 * The invariants are in the lists of check.h; this file runs their queries.  All queries use the
 * snapshot of the calling statement and the caller's rights (check_query.c), and change nothing.  A table that the
 * caller may not read is reported, and nothing is concluded from missing rows if row security may
 * hide rows.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/spi.h"
#include "config/target.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "tables/check/check.h"
#include "tables/check/check_query.h"
#include "tables/base/distributed.h"
#include "tables/base/error_class.h"
#include "tables/base/lock_patience.h"
#include "tables/base/node_mark.h"
#include "tables/base/table.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/float.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/resowner.h"
#include "utils/rls.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_check);

#define ROWS_MAX	1000		/* rows reported for an invariant of a target; further rows are only
								 * counted */

static const AtpInvariant *const lists[] = {
	atp_check_streams, atp_check_waiting, atp_check_shapes, atp_check_repos, atp_check_links, atp_check_events, atp_check_plc, atp_check_nodes
};

typedef struct CheckRun
{
	ReturnSetInfo *result;
	const char *target;			/* NULL: queries over all targets */
	bool		given;			/* the caller has named the target */
	bool		deep;
	const char *sample;			/* TABLESAMPLE clause for tables of which a share is enough */
	List	   *noted;			/* OIDs of relations reported as not readable */
	bool		locked;			/* a session has locked a table of the target, so the target is not checked further */
	bool		foreign;		/* the present query reads tables of a role that the caller does not trust */
} CheckRun;

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */

/* An SQL literal; NULL without quotes for a null pointer. */
static const char *
literal_of(const char *value)
{
	return value != NULL ? quote_literal_cstr(value) : "NULL";
}

static char *
expand_mend(const char *mend, const char *target, const char *did, const char *object)
{
	const struct
	{
		const char *name;
		const char *value;
	}			words[] = {{"{target}", target}, {"{did}", did}, {"{object}", object}};
	StringInfoData out;

	initStringInfo(&out);
	while (*mend != '\0')
	{
		int			w = 0;

		while (w < lengthof(words) && strncmp(mend, words[w].name, strlen(words[w].name)) != 0)
			w++;
		if (w == lengthof(words))
			appendStringInfoChar(&out, *mend++);
		else
		{
			appendStringInfoString(&out, literal_of(words[w].value));
			mend += strlen(words[w].name);
		}
	}
	return out.data;
}

/* Add a row to the function's result; every argument except "what" may be NULL. */
static void
add_finding(const CheckRun *c, const char *what, const char *target, const char *did, const char *object, const char *detail, const char *mend)
{
	const char *texts[] = {what, target, did, object, detail, mend == NULL ? NULL : expand_mend(mend, target, did, object)};
	Datum		values[lengthof(texts)];
	bool		nulls[lengthof(texts)];

	for (int i = 0; i < lengthof(texts); i++)
	{
		Oid			type = TupleDescAttr(c->result->setDesc, i)->atttypid;
		Oid			input,
					param;

		nulls[i] = texts[i] == NULL;
		getTypeInputInfo(type, &input, &param);
		values[i] = nulls[i] ? (Datum) 0 : OidInputFunctionCall(input, unconstify(char *, texts[i]), param, -1);
	}
	tuplestore_putvalues(c->result->setResult, c->result->setDesc, values, nulls);
}

/* ------------------------------------------------------------------------
 * Which tables may be read
 * ------------------------------------------------------------------------
 */
typedef enum Readable
{
	READABLE,
	NOT_THERE,					/* missing, or not created by us */
	NOT_READABLE				/* reported as not readable */
} Readable;

/* NULL: the name is not a data table's. */
static const AtpTable *
table_named(const char *name)
{
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
		if (strcmp((*table)->name, name) == 0)
			return *table;
	return NULL;
}

static Readable
note_unreadable(CheckRun *c, Oid relid, const char *detail, const char *mend)
{
	const char *schema = get_namespace_name(get_rel_namespace(relid));

	if (!list_member_oid(c->noted, relid))
		add_finding(c, "not readable", c->target, NULL, quote_qualified_identifier(schema, get_rel_name(relid)), detail, mend);
	c->noted = list_append_unique_oid(c->noted, relid);
	return NOT_READABLE;
}

/* Checks a single word of "reads". */
static Readable
may_read(CheckRun *c, const AtpInvariant *invariant, char *word)
{
	bool		whole = word[strlen(word) - 1] == '!';
	char	   *name = strchr(word, '.') + 1;
	char	   *column;
	char	   *type = NULL;
	bool		ours = word[0] == '#';
	Oid			schema = get_namespace_oid(ours ? c->target : "atproto", true);
	Oid			relid;

	if (whole)
		word[strlen(word) - 1] = '\0';
	column = strchr(name, '.');
	if (column != NULL)
		*column++ = '\0';
	if (column != NULL && (type = strchr(column, ':')) != NULL)
		*type++ = '\0';
	relid = OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
	if (!OidIsValid(relid) || (column != NULL && get_attnum(relid, column) == InvalidAttrNumber))
		return NOT_THERE;
	if (type != NULL && getBaseType(get_atttype(relid, get_attnum(relid, column))) != atp_type(type))
		return NOT_THERE;
	if (ours && table_named(name) != NULL && !atp_table_is_ours(table_named(name), relid))
		return NOT_THERE;
	if (ours && atp_has_copies(relid))
		return note_unreadable(c, relid, "Citus keeps several copies of each shard, so rows might come twice: what needs this table was not checked",
							   "SELECT undistribute_table(...), then atproto.distribute({target}) with citus.shard_replication_factor = 1.");
	if ((invariant->flags & ATP_CHECK_PLAIN) && atp_has_citus() && atp_is_distributed(relid))
		return NOT_THERE;
	if (atp_schema_aclcheck(schema, GetUserId(), ACL_USAGE) != ACLCHECK_OK ||
		pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		return note_unreadable(c, relid, "what needs this table was not checked", "Grant SELECT on it, and USAGE of its schema.");
	if (whole && check_enable_rls(relid, InvalidOid, true) == RLS_ENABLED)
		return note_unreadable(c, relid, "row security may hide rows of it: nothing was concluded from rows that are not there",
							   "Check as a superuser, or as a role with BYPASSRLS.");
	return READABLE;
}

static bool
invariant_applies(CheckRun *c, const AtpInvariant *invariant)
{
	char	   *words = pstrdup(invariant->reads);
	char	   *next;
	bool		all = true;

	if ((invariant->flags & ATP_CHECK_DEEP) && !c->deep)
		return false;
	if ((invariant->flags & ATP_CHECK_NODES) && !(atp_has_citus() && atp_has_node_marks(c->target)))
		return false;
	for (char *word = strtok_r(words, " ", &next); word != NULL && all; word = strtok_r(NULL, " ", &next))
		all = may_read(c, invariant, word) == READABLE;
	return all;
}

/* ------------------------------------------------------------------------
 * Queries
 * ------------------------------------------------------------------------
 */

/*
 * Insert the schemas' names.  atp_expand_sql() is not used, since it locks tables that Citus may
 * distribute.
 */
static char *
expand_schemas(const CheckRun *c, const char *sql)
{
	static const char sample[] = "{sample}";
	const char *schema = atp_extension_schema();
	StringInfoData out;
	bool		quoted = false;

	initStringInfo(&out);
	for (; *sql != '\0'; sql++)
	{
		if (*sql == '\'')
			quoted = !quoted;
		if (!quoted && *sql == '@')
			appendStringInfoString(&out, schema);
		else if (!quoted && *sql == '#')
			appendStringInfoString(&out, quote_identifier(c->target));
		else if (!quoted && strncmp(sql, sample, strlen(sample)) == 0)
		{
			appendStringInfoString(&out, c->sample);
			sql += strlen(sample) - 1;
		}
		else
			appendStringInfoChar(&out, *sql);
	}
	return out.data;
}

static const char *
query_of(const CheckRun *c, const AtpInvariant *invariant)
{
	const char *sql = expand_schemas(c, invariant->sql);

	if (invariant->flags & ATP_CHECK_ONCE)
		return psprintf("SELECT q.* FROM (%s) q (target, did, object, detail) WHERE $1 IS NULL OR q.target = $1", sql);
	return psprintf("SELECT $1 AS target, q.* FROM (%s) q (did, object, detail)", sql);
}

typedef struct FoundRows
{
	const CheckRun *run;
	const AtpInvariant *invariant;
	uint64		n;
} FoundRows;

/* The text form of a column; NULL: a null. */
static char *
column_text(TupleTableSlot *slot, int number)
{
	Oid			output;
	bool		is_varlena;
	bool		isnull;
	Datum		value = slot_getattr(slot, number, &isnull);

	if (isnull)
		return NULL;
	getTypeOutputInfo(TupleDescAttr(slot->tts_tupleDescriptor, number - 1)->atttypid, &output, &is_varlena);
	return OidOutputFunctionCall(output, value);
}

/* Report the first ROWS_MAX rows of a query. */
static void
take_row(void *arg, TupleTableSlot *slot)
{
	FoundRows  *found = arg;

	if (found->n++ < ROWS_MAX)
		add_finding(found->run, found->invariant->what, column_text(slot, 1), column_text(slot, 2), column_text(slot, 3),
					column_text(slot, 4), found->invariant->mend);
}

/* Run an invariant's query, and report its rows, and the number of rows beyond ROWS_MAX. */
static void
run_invariant(CheckRun *c, const AtpInvariant *invariant)
{
	FoundRows	found = {.run = c, .invariant = invariant};
	NameData	name;
	bool		all = (invariant->flags & ATP_CHECK_ONCE) != 0 && !c->given;

	namestrcpy(&name, all ? "" : c->target);
	atp_check_query(query_of(c, invariant), NameGetDatum(&name), all,
					(invariant->flags & ATP_CHECK_WHOLE) != 0 && c->sample[0] == '\0', &c->foreign, take_row, &found);
	if (found.n > ROWS_MAX)
		add_finding(c, invariant->what, all ? NULL : c->target, NULL, NULL,
					psprintf("and " UINT64_FORMAT " more", found.n - ROWS_MAX), NULL);
}

/*
 * An invariant's query has failed: report that the invariant was not checked, if the reason is in the
 * user's tables or rights.  False: any other error ends check().
 */
static bool
say_failed(CheckRun *c, const AtpInvariant *invariant, const ErrorData *error)
{
	int			category = ERRCODE_TO_CATEGORY(error->sqlerrcode);

	if (atp_lock_is_reason(error->sqlerrcode))
	{
		c->locked = (invariant->flags & ATP_CHECK_ONCE) == 0;
		add_finding(c, "not readable", c->target, NULL, invariant->what,
					psprintf("%s: a session has locked a table%s", error->message, c->locked ? ", and the target was not checked further" : ""),
					"Look for the session in pg_locks, and check again.");
	}
	else if (error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE || error->sqlerrcode == ERRCODE_FEATURE_NOT_SUPPORTED)
		add_finding(c, "not readable", c->target, NULL, invariant->what, error->message,
					error->sqlerrcode == ERRCODE_INSUFFICIENT_PRIVILEGE && c->foreign ? "Grant the owner of the tables what the message names." : NULL);
	/* the invariant of the column value names the rows with such a value */
	else if (error->sqlerrcode == ERRCODE_DATA_CORRUPTED)
		add_finding(c, "not checked", c->target, NULL, invariant->what, error->message, NULL);
	/* a user has dropped a column or changed its type, or a function of the user has failed */
	else if ((c->foreign && !atp_is_cancelled(error)) || category == ERRCODE_TO_CATEGORY(ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION) ||
			 category == ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION))
		add_finding(c, "not checked", c->target, NULL, invariant->what, error->message,
					"Give the tables the columns, with the types, that atproto.create_tables() makes in an empty schema.");
	else
		return false;
	return true;
}

/*
 * Run in a subtransaction: a query that fails for a reason in the user's tables or rights, or that
 * Citus cannot plan, is reported, and the remaining invariants are still checked.
 */
static void
try_to_run(CheckRun *c, const AtpInvariant *invariant)
{
	MemoryContext old = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	c->foreign = false;
	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(old);
	PG_TRY();
	{
		atp_lock_patience();
		run_invariant(c, invariant);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(old);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(old);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(old);
		CurrentResourceOwner = owner;
		if (!say_failed(c, invariant, error))
			ReThrowError(error);
	}
	PG_END_TRY();
}

/* Has the table all columns by name?  Else it is a user's, and not the business of check(), unless it is ours. */
static bool
has_our_columns(const AtpTable *table, Oid relid)
{
	char		kind = get_rel_relkind(relid);

	for (int i = 0; i < table->ncolumns; i++)
		if (get_attnum(relid, table->columns[i].name) == InvalidAttrNumber)
			return false;
	return kind == RELKIND_RELATION || kind == RELKIND_PARTITIONED_TABLE;
}

/*
 * Report a missing column (tables of an earlier version lack columns that create_tables() adds), and a column to which
 * a user has given another type: invariants that need it may be skipped, since the table does not look like ours.
 */
static void
check_column(const CheckRun *c, const AtpTable *table, const AtpColumn *column, Oid relid)
{
	AttrNumber	attnum = get_attnum(relid, column->name);
	bool		ours = atp_type_is_ours(column->type);
	Oid			type = ours ? atp_type(atp_type_name(column->type)) : atp_type_oid(column->type);
	const char *name = psprintf("%s.%s", table->name, column->name);

	if (attnum == InvalidAttrNumber)
		add_finding(c, "column is missing", c->target, NULL, name, "what needs it was not checked", "SELECT atproto.create_tables({target})");
	/* consumers write any type of PostgreSQL into a column that is not part of every version's table */
	else if ((ours || !atp_column_can_be_added(column)) && getBaseType(get_atttype(relid, attnum)) != type)
		add_finding(c, "column has another type", c->target, NULL, name,
					psprintf("%s; what needs type %s was not checked", format_type_be(get_atttype(relid, attnum)),
							 ours ? atp_type_name(column->type) : format_type_be(type)),
					"ALTER TABLE, so that the column has its type again.");
}

static void
check_columns(const CheckRun *c)
{
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
	{
		Oid			relid = get_relname_relid((*table)->name, get_namespace_oid(c->target, false));

		if (!OidIsValid(relid) || !(atp_table_is_ours(*table, relid) || has_our_columns(*table, relid)))
			continue;
		for (int i = 0; i < (*table)->ncolumns; i++)
			check_column(c, *table, &(*table)->columns[i], relid);
	}
}

static void
check_all(CheckRun *c, bool once)
{
	if (!once)
		check_columns(c);
	for (int l = 0; l < lengthof(lists); l++)
		for (const AtpInvariant *i = lists[l]; i->what != NULL; i++)
			if (!c->locked && once == ((i->flags & ATP_CHECK_ONCE) != 0) && invariant_applies(c, i))
				try_to_run(c, i);
}

/* ------------------------------------------------------------------------
 * The function
 * ------------------------------------------------------------------------
 */

/* The targets that the caller may use. */
static List *
usable_targets(void)
{
	List	   *targets = NIL;
	ListCell   *lc;

	foreach(lc, atp_targets(NULL))
	{
		Oid			schema = get_namespace_oid(lfirst(lc), true);

		if (OidIsValid(schema) && atp_schema_aclcheck(schema, GetUserId(), ACL_USAGE) == ACLCHECK_OK)
			targets = lappend(targets, lfirst(lc));
	}
	return targets;
}

static const char *
sample_of(double share)
{
	if (!(share > 0 && share <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("share must be more than 0, and 1 at most"),
				 errhint("0.01 reads a hundredth of the pages of large tables, 1 reads all.")));
	return share == 1 ? "" : psprintf(" TABLESAMPLE SYSTEM (%s)", float8out_internal(share * 100));
}

/* SQL: atproto.check(target, deep, share) */
Datum
atp_check(PG_FUNCTION_ARGS)
{
	CheckRun	c = {0};
	List	   *targets;
	ListCell   *lc;
	int			nest;

	if (PG_ARGISNULL(1) || PG_ARGISNULL(2))
		atp_argument_is_null(PG_ARGISNULL(1) ? "deep" : "share");
	c.deep = PG_GETARG_BOOL(1);
	c.sample = sample_of(PG_GETARG_FLOAT8(2));
	c.given = !PG_ARGISNULL(0);
	if (c.given)
	{
		c.target = NameStr(*PG_GETARG_NAME(0));
		(void) get_namespace_oid(c.target, false);
	}
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	c.result = (ReturnSetInfo *) fcinfo->resultinfo;
	SPI_connect();
	nest = NewGUCNestLevel();
	/*
	 * A user may have distributed the tables so that a repository's rows are apart.  Citus refuses to join
	 * such tables, unless it may send rows from node to node, and looks at this setting when a query runs.
	 */
	if (atp_has_citus())
		(void) set_config_option("citus.enable_repartition_joins", "on", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	targets = c.given ? list_make1(unconstify(char *, c.target)) : usable_targets();
	check_all(&c, true);
	foreach(lc, targets)
	{
		c.target = lfirst(lc);
		c.locked = false;
		/* the owner may have dropped the schema while check() read other targets */
		if (OidIsValid(get_namespace_oid(c.target, true)))
			check_all(&c, false);
	}
	AtEOXact_GUC(false, nest);
	SPI_finish();
	return (Datum) 0;
}
