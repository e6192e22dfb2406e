/*
 * view.c
 *		create_view(): a view of a collection's records, with a column for each field that the collection's
 *		Lexicon describes.
 *
 * The view's definition is the only memory: its condition names the collection, and its calls of
 * record_field() tell the field of each column.  So a later revision of the Lexicon adds columns, and keeps
 * the existing columns, even renamed ones.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/known_collection.h"
#include "config/option.h"
#include "config/spi.h"
#include "fmgr.h"
#include "lexicon/document.h"
#include "lexicon/fields.h"
#include "lexicon/names.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "types/types.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(atp_create_view);

/* The columns before the columns of fields. */
static const char *const fixed[] = {"uri", "did", "rkey", "cid", "indexed_at"};

/* A view can have 1600 columns. */
#define FIELDS_MAX	(MaxHeapAttributeNumber - (int) lengthof(fixed))

typedef struct Column
{
	char	   *name;
	char	   *path;			/* path of the field, as an array of texts is printed */
	Oid			type;
	/* the field in this revision of the Lexicon; NULL: only an earlier revision had the field */
	const AtpField *field;
} Column;

typedef struct View
{
	const char *schema;			/* quoted for SQL, like all strings here */
	const char *name;
	const char *source;
	const char *collection;		/* an SQL literal */
	const char *fixed[lengthof(fixed)];
	List	   *columns;
} View;

/* ------------------------------------------------------------------------
 * The existing view
 * ------------------------------------------------------------------------
 */

/* Is the condition "collection = …" with this NSID? */
static bool
shows_collection(Node *quals, const char *nsid)
{
	Oid			type = atp_type("nsid");
	Const	   *c;

	if (quals == NULL || !IsA(quals, OpExpr) || list_length(((OpExpr *) quals)->args) != 2 ||
		((OpExpr *) quals)->opno != lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr)
		return false;
	c = lsecond(((OpExpr *) quals)->args);
	return IsA(c, Const) && !c->constisnull && c->consttype == type &&
		strcmp(atp_nsid_cstring(PG_DETOAST_DATUM_PACKED(c->constvalue)), nsid) == 0;
}

/* Does the query show all rows, unordered? */
static bool
shows_all(const Query *query)
{
	return query->distinctClause == NIL && query->groupClause == NIL && query->groupingSets == NIL && query->havingQual == NULL &&
		query->sortClause == NIL && query->limitOffset == NULL && query->limitCount == NULL;
}

/* The only table that the query reads; InvalidOid: another kind of source, or several. */
static Oid
table_shown(Query *query)
{
	RangeTblEntry *rte;

	if (list_length(query->jointree->fromlist) != 1 || !IsA(linitial(query->jointree->fromlist), RangeTblRef))
		return InvalidOid;
	rte = rt_fetch(linitial_node(RangeTblRef, query->jointree->fromlist)->rtindex, query->rtable);
	return rte->rtekind == RTE_RELATION ? rte->relid : InvalidOid;
}

/* The path as an array is printed: paths are compared, and written into SQL, in this form. */
static char *
print_path(Datum path)
{
	Oid			out;
	bool		varlena;

	getTypeOutputInfo(TEXTARRAYOID, &out, &varlena);
	return OidOutputFunctionCall(out, path);
}

/* Looked up by its argument types: a user may have added a function of the same name. */
static Oid
field_function(Oid value)
{
	Oid			types[] = {value, TEXTARRAYOID, ANYELEMENTOID};

	return LookupFuncName(list_make2(makeString("atproto"), makeString("record_field")), lengthof(types), types, false);
}

/*
 * NULL: the column is no call of record_field() in create_view()'s form.  The column's name may have been
 * changed by the view's owner.
 */
static Column *
column_of(TargetEntry *entry, const char *name)
{
	FuncExpr   *call = (FuncExpr *) entry->expr;
	Const	   *path;
	Column	   *column;

	if (!IsA(call, FuncExpr) || (call->funcid != field_function(JSONBOID) && call->funcid != field_function(atp_type("dagcbor"))))
		return NULL;
	path = lsecond(call->args);
	if (!IsA(path, Const) || path->constisnull)
		return NULL;
	column = palloc0(sizeof(Column));
	column->name = pstrdup(name);
	column->path = print_path(path->constvalue);
	column->type = call->funcresulttype;
	return column;
}

/* Is this the view's fixed column number n?  Its name may have been changed. */
static bool
is_fixed(const TargetEntry *entry, int n, Oid table)
{
	if (n == 0)
		return IsA(entry->expr, FuncExpr) && ((FuncExpr *) entry->expr)->funcresulttype == atp_type("aturi");
	return IsA(entry->expr, Var) && ((Var *) entry->expr)->varattno == get_attnum(table, fixed[n]);
}

/* The columns of a view that create_view() made; false: another view, or a view of another collection. */
static bool
columns_of(Relation rel, Query *query, const char *nsid, View *view)
{
	int			n = 0;
	Oid			table = table_shown(query);
	ListCell   *lc;

	if (query->commandType != CMD_SELECT || !OidIsValid(table) || !shows_all(query) || !shows_collection(query->jointree->quals, nsid))
		return false;
	foreach(lc, query->targetList)
	{
		TargetEntry *entry = lfirst(lc);
		const char *name = NameStr(TupleDescAttr(RelationGetDescr(rel), entry->resno - 1)->attname);
		Column	   *column;

		if (n < (int) lengthof(fixed))
		{
			if (!is_fixed(entry, n, table))
				return false;
			view->fixed[n++] = pstrdup(name);
			continue;
		}
		column = column_of(entry, name);
		if (column == NULL)
			return false;
		view->columns = lappend(view->columns, column);
	}
	return n == lengthof(fixed);
}

/*
 * The table or view that the existing view shows: table, or active; InvalidOid: no relation of this name
 * exists.  Any other relation of this name is an ERROR.
 */
static Oid
read_existing(Oid relid, const char *nsid, Oid table, Oid active, View *view)
{
	Relation	rel;
	Oid			shown = InvalidOid;

	if (!OidIsValid(relid))
		return InvalidOid;
	rel = relation_open(relid, AccessShareLock);
	if (rel->rd_rel->relkind == RELKIND_VIEW && columns_of(rel, get_view_query(rel), nsid, view))
		shown = table_shown(get_view_query(rel));
	if (!OidIsValid(shown) || (shown != table && shown != active))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" exists, and is no view of these records that create_view() made", RelationGetRelationName(rel)),
				 errhint("Give the view another name: atproto.create_view(..., view => 'name').")));
	relation_close(rel, AccessShareLock);
	return shown;
}

/* ------------------------------------------------------------------------
 * The columns of the new view
 * ------------------------------------------------------------------------
 */
static char *
field_path(const AtpField *field)
{
	Datum		names[ATP_FIELD_DEPTH];

	for (int i = 0; i < field->depth; i++)
		names[i] = CStringGetTextDatum(field->path[i]);
	return print_path(PointerGetDatum(construct_array(names, field->depth, TEXTOID, -1, false, TYPALIGN_INT)));
}

static char *
field_name(const AtpField *field, HTAB *names)
{
	StringInfoData name;

	initStringInfo(&name);
	for (int i = 0; i < field->depth; i++)
		atp_name_append(&name, field->path[i]);
	return atp_names_take_free(names, atp_name_finish(&name));
}

static Column *
find_column(List *columns, const char *path, Oid type)
{
	ListCell   *lc;

	foreach(lc, columns)
	{
		Column	   *column = lfirst(lc);

		if (column->type == type && strcmp(column->path, path) == 0)
			return column;
	}
	return NULL;
}

/* The existing columns, and then columns for the new fields. */
static List *
add_fields(const View *view, List *fields)
{
	List	   *columns = view->columns;
	HTAB	   *names = atp_names_make();
	List	   *known = list_copy(columns);
	ListCell   *lc;

	for (int i = 0; i < (int) lengthof(fixed); i++)
	{
		atp_names_take(names, fixed[i]);
		atp_names_take(names, view->fixed[i]);
	}
	foreach(lc, columns)
		atp_names_take(names, ((Column *) lfirst(lc))->name);
	foreach(lc, fields)
	{
		const AtpField *field = lfirst(lc);
		char	   *path = field_path(field);
		Column	   *column = find_column(known, path, field->type);

		if (column == NULL)
		{
			column = palloc0(sizeof(Column));
			*column = (Column) {.name = field_name(field, names), .path = path, .type = field->type};
			columns = lappend(columns, column);
		}
		column->field = field;
	}
	if (list_length(columns) > FIELDS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("with the columns that it has, the view would have more than %d", MaxHeapAttributeNumber),
				 errhint("Drop it, and make it anew.")));
	return columns;
}

/* ------------------------------------------------------------------------
 * SQL
 * ------------------------------------------------------------------------
 */
static void
make_view(const View *view)
{
	const char *ours = atp_extension_schema();
	StringInfoData sql;
	ListCell   *lc;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE OR REPLACE VIEW %s.%s WITH (security_invoker = true) AS SELECT %s.aturi(r.did, r.collection, r.rkey) AS %s",
					 view->schema, view->name, ours, quote_identifier(view->fixed[0]));
	for (int i = 1; i < (int) lengthof(fixed); i++)
		appendStringInfo(&sql, ", r.%s AS %s", fixed[i], quote_identifier(view->fixed[i]));
	foreach(lc, view->columns)
	{
		const Column *column = lfirst(lc);

		appendStringInfo(&sql, ", atproto.record_field(r.value, %s, NULL::%s) AS %s", quote_literal_cstr(column->path),
						 format_type_be_qualified(column->type), quote_identifier(column->name));
	}
	appendStringInfo(&sql, " FROM %s r WHERE r.collection OPERATOR(%s.=) %s::%s.nsid", view->source, ours, view->collection, ours);
	atp_run(sql.data, ATP_NO_ARGS);
}

/* Builds "reply.parent.uri: the description". */
static char *
comment_of(const AtpField *field)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < field->depth; i++)
		appendStringInfo(&text, "%s%s", i > 0 ? "." : "", field->path[i]);
	if (field->description != NULL)
		appendStringInfo(&text, ": %s", field->description);
	return text.data;
}

static void
make_comments(const View *view, const char *nsid, const char *description)
{
	StringInfoData sql;
	ListCell   *lc;

	initStringInfo(&sql);
	appendStringInfo(&sql, "COMMENT ON VIEW %s.%s IS %s", view->schema, view->name,
					 quote_literal_cstr(psprintf("records of %s%s%s", nsid, description == NULL ? "" : ": ",
												 description == NULL ? "" : description)));
	foreach(lc, view->columns)
	{
		const Column *column = lfirst(lc);

		if (column->field != NULL)
			appendStringInfo(&sql, ";COMMENT ON COLUMN %s.%s.%s IS %s", view->schema, view->name, quote_identifier(column->name),
							 quote_literal_cstr(comment_of(column->field)));
	}
	atp_run(sql.data, ATP_NO_ARGS);
}

/* ------------------------------------------------------------------------
 * create_view()
 * ------------------------------------------------------------------------
 */
static const char *
view_name(FunctionCallInfo fcinfo, int arg, const char *nsid)
{
	StringInfoData name;

	if (!PG_ARGISNULL(arg))
		return pstrdup(NameStr(*PG_GETARG_NAME(arg)));
	initStringInfo(&name);
	atp_name_append(&name, nsid);
	if (name.len >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("a view of \"%s\" would have a name of more than %d bytes", nsid, NAMEDATALEN - 1),
				 errhint("Give it one: atproto.create_view(..., view => 'name').")));
	return name.data;
}

static Jsonb *
known_lexicon(const char *nsid)
{
	Jsonb	   *doc = atp_lexicon_find(nsid);

	if (doc == NULL)
	{
		const char *meant = atp_collection_near(nsid);

		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no Lexicon \"%s\" is known", nsid),
				 meant != NULL ? errhint("Perhaps you mean \"%s\".", meant)
				 : errhint("Views are of collections, that is of Lexicons with a \"main\" of type \"record\". If it is one, load it with atproto.load_lexicon(), or give it here: lexicon => '{...}'. The view \"%s\" has the known ones.", "atproto.lexicon")));
	}
	return doc;
}

/* SQL: atproto.create_view(collection, lexicon, target, schema, view, active) */
Datum
atp_create_view(PG_FUNCTION_ARGS)
{
	const char *description;
	const char *nsid;
	const char *id;
	const char *target;
	const char *schema;
	const char *name;
	Oid			target_id,
				schema_id,
				table,
				active,
				shown;
	bool		all;
	Jsonb	   *doc;
	View		view;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		atp_argument_is_null(PG_ARGISNULL(0) ? "collection" : "target");
	nsid = atp_nsid_cstring(PG_GETARG_VARLENA_PP(0));
	target = NameStr(*PG_GETARG_NAME(2));
	schema = PG_ARGISNULL(3) ? target : NameStr(*PG_GETARG_NAME(3));
	name = view_name(fcinfo, 4, nsid);
	target_id = atp_schema_of(target);
	schema_id = get_namespace_oid(schema, true);
	if (!OidIsValid(schema_id))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema \"%s\" does not exist", schema),
				 errhint("\"%s\" is the schema in which the view is made, such as public; CREATE SCHEMA %s makes it.",
						 "schema", quote_identifier(schema))));

	SPI_connect();
	doc = PG_ARGISNULL(1) ? known_lexicon(nsid) : PG_GETARG_JSONB_P(1);
	id = atp_lexicon_id(doc, PG_ARGISNULL(1) || atp_lexicon_find(nsid) == NULL ? NULL :
						psprintf("The Lexicon of %s is known: leave \"%s\" out. The view's schema and name are schema => '...' and view => '...'.", nsid, "lexicon"));
	if (strcmp(id, nsid) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the Lexicon is of \"%s\", not of \"%s\"", id, nsid),
				 errhint("Name its collection: atproto.create_view('%s', ...). Or leave \"%s\" out: for a known collection it is not needed.",
						 id, "lexicon")));
	/* people name the schema of the view as target */
	if (strcmp(target, "atproto") != 0 && !OidIsValid(get_relname_relid("record", target_id)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("schema \"%s\" has no table \"%s\"", target, "record"),
				 errhint("\"%s\" is the schema of the records: atproto.subscribe() or atproto.create_tables() makes its tables. The schema of the view is another argument: schema => %s.",
						 "target", quote_literal_cstr(target))));
	table = atp_table_in(target, "record");
	active = get_relname_relid("visible_record", target_id);
	view = (View) {
		.schema = quote_identifier(schema), .name = quote_identifier(name), .collection = quote_literal_cstr(nsid)
	};
	memcpy(view.fixed, fixed, sizeof(fixed));
	shown = read_existing(get_relname_relid(name, schema_id), nsid, table, active, &view);
	/* NULL leaves an existing view as it is. */
	all = PG_ARGISNULL(5) ? shown != active || !OidIsValid(shown) : !PG_GETARG_BOOL(5);
	view.source = quote_qualified_identifier(target, all ? "record" : "visible_record");
	view.columns = add_fields(&view, atp_lexicon_fields(doc, FIELDS_MAX, &description));
	make_view(&view);
	make_comments(&view, nsid, description);
	SPI_finish();
	PG_RETURN_OID(get_relname_relid(name, schema_id));
}
