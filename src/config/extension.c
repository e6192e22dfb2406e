/*
 * extension.c
 *		The state of the extension in the current database, and the OIDs of its objects.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "common/compat.h"
#include "config/extension.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

/* Namespace and version of the extension's pg_extension row. */
static bool
extension_row(Oid extoid, Oid *schema, char **version)
{
	Relation	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extoid));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	found = HeapTupleIsValid(tuple);
	if (found)
	{
		bool		isnull;
		Datum		d = atp_tuple_column(tuple, Anum_pg_extension_extversion, RelationGetDescr(rel), &isnull);

		*version = isnull ? pstrdup("") : TextDatumGetCString(d);
		*schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/*
 * Lock an extension, then read its row.  The row is read after locking, because the extension may have been
 * dropped before the lock was granted.  False: the extension is gone.
 */
static bool
lock_row(Oid extoid, Oid *schema, char **version)
{
	if (!OidIsValid(extoid))
		return false;
	LockDatabaseObject(ExtensionRelationId, extoid, 0, AccessShareLock);
	return extension_row(extoid, schema, version);
}

/*
 * Two checkouts of a version can have different install scripts.  In a database whose objects came from the script of the
 * second checkout, the library's statements would fail or write wrong rows.
 */
static bool
is_from_own_script(void)
{
#ifdef ATP_SCRIPT_DIGEST
	HeapTuple	tuple = SearchSysCache3(PROCNAMEARGSNSP, CStringGetDatum("install_script"), PointerGetDatum(buildoidvector(NULL, 0)),
										ObjectIdGetDatum(get_namespace_oid("atproto_internal", true)));
	bool		isnull,
				same;
	Datum		body;

	if (!HeapTupleIsValid(tuple))
		return false;
	body = SysCacheGetAttr(PROCNAMEARGSNSP, tuple, Anum_pg_proc_prosrc, &isnull);
	same = !isnull && strstr(TextDatumGetCString(body), "'" ATP_SCRIPT_DIGEST "'") != NULL;
	ReleaseSysCache(tuple);
	return same;
#else
	return true;
#endif
}

static AtpExtension
state_of(const char *version)
{
	if (strcmp(version, ATP_EXTVERSION) != 0)
		return ATP_EXTENSION_OTHER_VERSION;
	return is_from_own_script() ? ATP_EXTENSION_READY : ATP_EXTENSION_OTHER_SCRIPT;
}

AtpExtension
atp_extension_lock(void)
{
	static Oid	last = InvalidOid;	/* cached OID; the extension is looked up by name only when this OID is gone */
	Oid			schema;
	char	   *version;

	if (!lock_row(last, &schema, &version) && !lock_row(last = get_extension_oid("atproto", true), &schema, &version))
		return ATP_EXTENSION_ABSENT;
	return state_of(version);
}

/* ConditionalLockDatabaseObject() does this, but the first minor versions of PostgreSQL 15 and 16 do not have the function. */
static bool
lock_at_once(Oid extoid)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, ExtensionRelationId, extoid, 0);
	if (LockAcquire(&tag, AccessShareLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		return false;
	AcceptInvalidationMessages();
	return true;
}

bool
atp_extension_lock_at_once(void)
{
	Oid			extoid = get_extension_oid("atproto", true);

	return !OidIsValid(extoid) || lock_at_once(extoid);
}

AtpExtension
atp_extension_look(void)
{
	Oid			schema;
	char	   *version;

	return extension_row(get_extension_oid("atproto", true), &schema, &version) ? state_of(version) : ATP_EXTENSION_ABSENT;
}

const char *
atp_extension_fault(AtpExtension extension)
{
	return extension == ATP_EXTENSION_OTHER_VERSION
		? "the extension and the library have different versions: ALTER EXTENSION atproto UPDATE, or restart the server"
		: "the extension was made by the install script of a different checkout than the library:"
		" install that checkout and restart the server, or DROP EXTENSION atproto CASCADE, which drops the data, and CREATE EXTENSION atproto";
}

Oid
atp_extension_namespace(void)
{
	Oid			schema;
	char	   *version;

	if (!extension_row(get_extension_oid("atproto", false), &schema, &version))
		elog(ERROR, "extension atproto has vanished");
	return schema;
}

const char *
atp_extension_schema(void)
{
	return quote_identifier(get_namespace_name(atp_extension_namespace()));
}

Oid
atp_type(const char *name)
{
	/* tid has the name of a type of PostgreSQL, and is therefore in schema atproto */
	Oid			schema = strcmp(name, "tid") == 0 ? get_namespace_oid("atproto", false) : atp_extension_namespace();
	Oid			type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, CStringGetDatum(name), ObjectIdGetDatum(schema));

	if (!OidIsValid(type))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("type \"%s\" of extension atproto does not exist", name)));
	return type;
}

Oid
atp_relation(const char *name)
{
	Oid			schema = get_namespace_oid("atproto", false);
	Oid			relid = get_relname_relid(name, schema);

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"atproto.%s\" does not exist", name)));
	return relid;
}

Oid
atp_schema_of(const char *target)
{
	Oid			schema = get_namespace_oid(target, true);

	if (!OidIsValid(schema))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema \"%s\" does not exist", target),
				 errhint("Name a schema with the tables of records: SELECT schemaname FROM pg_tables WHERE tablename = 'record' shows them.")));
	return schema;
}

Oid
atp_table_in(const char *target, const char *name)
{
	Oid			relid = get_relname_relid(name, atp_schema_of(target));

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("schema \"%s\" has no table \"%s\"", target, name),
				 errhint("If a subscription stores into another schema, name that schema as \"target\" (in backlinks() as \"tables\"): SELECT schemaname FROM pg_tables WHERE tablename = %s shows the schemas with such a table. If there is no subscription yet, atproto.subscribe() makes the tables; SELECT atproto.create_tables(%s) makes empty ones.",
						 quote_literal_cstr(name), quote_literal_cstr(target))));
	return relid;
}
