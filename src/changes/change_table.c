/*
 * change_table.c
 *		The tables whose changes the output plugin tells: a table of a target, and atproto.cursor.
 *
 * While a transaction is decoded, the catalogs show what they were at this place of the transaction, and no other tables can
 * be read.  So a table of a target is recognized by the catalogs alone: by its name, and by columns of the extension's types.
 * The owner may have altered it in any way since; so names and types are checked before a value is read.
 *
 * The partition that is written stands for the partitioned table to which it belongs at this place.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "changes/change_table.h"
#include "commands/extension.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

typedef struct TypedColumn
{
	const char *name;
	const char *ours;			/* name of a type of the extension; NULL: type */
	Oid			type;
	bool		optional;
	const char *packed;			/* name of the type of the extension that the column can have instead of type */
} TypedColumn;

static const TypedColumn record_columns[] = {
	[ATP_RECORD_DID] = {"did", "did"},
	[ATP_RECORD_COLLECTION] = {"collection", "nsid"},
	[ATP_RECORD_RKEY] = {"rkey", "recordkey"},
	[ATP_RECORD_CID] = {"cid", "cidlink"},
	[ATP_RECORD_REV] = {"rev", "tid"},
	[ATP_RECORD_VALUE] = {"value", NULL, JSONBOID, .packed = "dagcbor"},
	[ATP_RECORD_RAW] = {"raw", NULL, BYTEAOID, true},
};

static const TypedColumn repo_columns[] = {
	[ATP_REPO_DID] = {"did", "did"},
	[ATP_REPO_REV] = {"rev", "tid"},
	[ATP_REPO_ACTIVE] = {"active", NULL, BOOLOID},
	[ATP_REPO_STATUS] = {"status", NULL, TEXTOID},
	[ATP_REPO_HANDLE] = {"handle", "handle"},
	[ATP_REPO_HIDDEN] = {"hidden_at", NULL, TIMESTAMPTZOID, true},
};

static const TypedColumn label_columns[] = {
	[ATP_LABEL_SRC] = {"src", "did"},
	[ATP_LABEL_URI] = {"uri", NULL, TEXTOID},
	[ATP_LABEL_VAL] = {"val", NULL, TEXTOID},
	[ATP_LABEL_CID] = {"cid", "cidlink"},
	[ATP_LABEL_NEG] = {"neg", NULL, BOOLOID},
	[ATP_LABEL_CTS] = {"cts", NULL, TIMESTAMPTZOID},
	[ATP_LABEL_EXP] = {"exp", NULL, TIMESTAMPTZOID, true},
	[ATP_LABEL_VER] = {"ver", NULL, INT4OID, true},
	[ATP_LABEL_SIG] = {"sig", NULL, BYTEAOID, true},
};

static const TypedColumn cursor_columns[] = {
	[ATP_CURSOR_SUBSCRIPTION] = {"subscription", NULL, TEXTOID},
	[ATP_CURSOR_ENDPOINT] = {"endpoint", NULL, TEXTOID},
	[ATP_CURSOR_SHARD] = {"shard", NULL, INT4OID},
	[ATP_CURSOR_SEQ] = {"seq", NULL, INT8OID},
};

static const struct
{
	const char *name;
	const TypedColumn *columns;
	int			ncolumns;
	int			nkey;			/* the first columns are the key */
}			kinds[] = {
	[ATP_CHANGE_NOTHING] = {"", NULL, 0, 0},
	[ATP_CHANGE_RECORD] = {"record", record_columns, lengthof(record_columns), 3},
	[ATP_CHANGE_REPO] = {"repo", repo_columns, lengthof(repo_columns), 1},
	[ATP_CHANGE_LABEL] = {"label", label_columns, lengthof(label_columns), 3},
	[ATP_CHANGE_CURSOR] = {"cursor", cursor_columns, lengthof(cursor_columns), 3},
};

/* Of this process.  stale: the catalog has changed; the tables are looked up again. */
static MemoryContext context = NULL;
static HTAB *known = NULL;
static bool stale = true;
static uint64 catalog_changes = 0;

int
atp_change_columns(AtpChangeKind kind)
{
	return kinds[kind].ncolumns;
}

int
atp_change_key_columns(AtpChangeKind kind)
{
	return kinds[kind].nkey;
}

Oid
atp_change_column_type(AtpChangeKind kind, int column)
{
	Oid			type = kinds[kind].columns[column].type;

	return type == JSONBOID || type == TEXTOID || type == BYTEAOID ? type : InvalidOid;
}

/* A table's root is an entry, too, so that a change of either is noticed. */
static void
table_changed(Datum arg, Oid relid)
{
	catalog_changes++;
	if (known != NULL && (!OidIsValid(relid) || hash_search(known, &relid, HASH_FIND, NULL) != NULL))
		stale = true;
}

static void
schema_changed(Datum arg, int cacheid, uint32 hashvalue)
{
	stale = true;
}

uint64
atp_change_catalog_changes(void)
{
	return catalog_changes;
}

void
atp_change_tables_begin(void)
{
	static bool registered = false;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(table_changed, (Datum) 0);
		CacheRegisterSyscacheCallback(NAMESPACEOID, schema_changed, (Datum) 0);
	}
	registered = true;
	/* the reader before may have read another time of the catalogs */
	stale = true;
}

static void
forget_tables(void)
{
	HASHCTL		ctl = {
		.keysize = sizeof(Oid),
		.entrysize = sizeof(AtpChangeTable)
	};

	if (context == NULL)
		context = AllocSetContextCreate(TopMemoryContext, "atproto tables of changes", ALLOCSET_DEFAULT_SIZES);
	known = NULL;
	MemoryContextReset(context);
	ctl.hcxt = context;
	known = hash_create("atproto tables of changes", 64, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	stale = false;
}

/* ------------------------------------------------------------------------
 * Recognizing a table
 * ------------------------------------------------------------------------
 */

/* Is the object one of the extension's?  At a place of WAL where the extension is not installed, no object is. */
static bool
is_of_extension(Oid class, Oid object)
{
	Oid			extension = get_extension_oid("atproto", true);

	return OidIsValid(extension) && getExtensionOfObject(class, object) == extension;
}

bool
atp_is_extension_type(Oid type)
{
	return is_of_extension(TypeRelationId, type);
}

static bool
is_extension_type(Oid type, const char *name)
{
	HeapTuple	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	bool		same;

	if (!HeapTupleIsValid(tuple))
		return false;
	same = strcmp(NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname), name) == 0;
	ReleaseSysCache(tuple);
	return same && atp_is_extension_type(type);
}

static Form_pg_attribute
find_column(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att;
	}
	return NULL;
}

static bool
is_packed(Form_pg_attribute att, const TypedColumn *column)
{
	return column->packed != NULL && is_extension_type(getBaseType(att->atttypid), column->packed);
}

static bool
has_type(Form_pg_attribute att, const TypedColumn *column)
{
	Oid			type = getBaseType(att->atttypid);

	if (column->ours != NULL)
		return is_extension_type(type, column->ours);
	return type == column->type || is_packed(att, column);
}

/* False: the table lacks the column, or the column has a wrong type. */
static bool
read_column(AtpChangeTable *table, TupleDesc desc, int i)
{
	const TypedColumn *column = &kinds[table->kind].columns[i];
	Form_pg_attribute att = find_column(desc, column->name);
	Oid			output;

	table->attnums[i] = 0;
	if (att == NULL)
		return column->optional;
	if (!has_type(att, column))
		return false;
	table->attnums[i] = att->attnum;
	table->packed |= is_packed(att, column);
	getTypeOutputInfo(att->atttypid, &output, &table->varlena[i]);
	fmgr_info_cxt(output, &table->out[i], context);
	return true;
}

/* A table of the user may have the name of one of ours; without our column of the key it has nothing to do with us. */
static void
read_columns(AtpChangeTable *table, TupleDesc desc)
{
	table->readable = true;
	for (int i = 0; i < kinds[table->kind].ncolumns; i++)
		if (!read_column(table, desc, i))
		{
			table->readable = false;
			if (i == 0)
				table->kind = ATP_CHANGE_NOTHING;
		}
}

static AtpChangeKind
kind_of(Oid root, const char *target, const char *name)
{
	if (strcmp(target, "atproto") == 0 && strcmp(name, kinds[ATP_CHANGE_CURSOR].name) == 0)
		return is_of_extension(RelationRelationId, root) ? ATP_CHANGE_CURSOR : ATP_CHANGE_NOTHING;
	for (AtpChangeKind kind = ATP_CHANGE_RECORD; kind <= ATP_CHANGE_LABEL; kind++)
		if (strcmp(name, kinds[kind].name) == 0)
			return kind;
	return ATP_CHANGE_NOTHING;
}

static Oid
root_of(Relation relation)
{
	List	   *ancestors;

	if (!relation->rd_rel->relispartition)
		return RelationGetRelid(relation);
	ancestors = get_partition_ancestors(RelationGetRelid(relation));
	return ancestors != NIL ? llast_oid(ancestors) : RelationGetRelid(relation);
}

static void
read_table(AtpChangeTable *table, Relation relation)
{
	Oid			root = root_of(relation);
	char	   *name = get_rel_name(root);
	char	   *target = get_namespace_name(get_rel_namespace(root));

	table->root = root;
	if (name == NULL || target == NULL)
		return;
	table->kind = kind_of(root, target, name);
	if (table->kind == ATP_CHANGE_NOTHING)
		return;
	table->name = MemoryContextStrdup(context, name);
	table->target = MemoryContextStrdup(context, target);
	read_columns(table, RelationGetDescr(relation));
}

static AtpChangeTable *
enter_table(Oid relid, bool *found)
{
	AtpChangeTable *table = hash_search(known, &relid, HASH_ENTER, found);

	if (!*found)
	{
		memset(table, 0, sizeof(AtpChangeTable));
		table->relid = relid;
	}
	return table;
}

const AtpChangeTable *
atp_change_table(Relation relation)
{
	AtpChangeTable *table;
	bool		found;

	if (stale)
		forget_tables();
	table = enter_table(RelationGetRelid(relation), &found);
	if (!OidIsValid(table->root))
	{
		read_table(table, relation);
		(void) enter_table(table->root, &found);
	}
	return table;
}

bool
atp_is_change_table(Oid relid)
{
	Relation	relation = RelationIdGetRelation(relid);
	Form_pg_attribute att;
	AtpChangeKind kind = ATP_CHANGE_NOTHING;
	Oid			root;
	char	   *name,
			   *target;
	bool		is_ours;

	if (!RelationIsValid(relation))
		return false;
	root = root_of(relation);
	name = get_rel_name(root);
	target = get_namespace_name(get_rel_namespace(root));
	if (name != NULL && target != NULL)
		kind = kind_of(root, target, name);
	att = kind == ATP_CHANGE_NOTHING || kind == ATP_CHANGE_CURSOR ? NULL : find_column(RelationGetDescr(relation), kinds[kind].columns[0].name);
	/* a temporary table has no WAL */
	is_ours = att != NULL && relation->rd_rel->relpersistence != RELPERSISTENCE_TEMP && has_type(att, &kinds[kind].columns[0]);
	RelationClose(relation);
	return is_ours;
}
