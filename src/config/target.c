/*
 * target.c
 *		Targets: the schemas with the tables that subscriptions fill, and which roles
 *		may fill them.
 *
 * Subscriptions with the same target share held events, jobs and limits.  So wherever a subscription
 * takes part in a target, this file checks whether the subscription's owner may write the target's
 * tables.  The answer is read from the catalog each time and stored nowhere, so a REVOKE counts at
 * once.  Only the owner of the schema at the time when the schema was named is stored
 * (atproto.subscription.target_owner): a schema of the same name may belong to another role later.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_namespace.h"
#include "commands/dbcommands.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/target.h"
#include "fmgr.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_role_may_fill_sql);

const char *const atp_target_tables[] = {
	"record", "repo", "record_event", "label", "message", "link_source", "link", "link_count", "collection_count", "sweep_deletion",
	"plc_text", "plc_operation", "plc_refused",
	/* where Citus distributes them (tables/base/node_mark.h) */
	"node_mark", "node_written", NULL
};

/* Privileges that a consumer needs on a table. */
static const struct
{
	AclMode		mode;
	const char *name;
}			privileges[] = {
	{ACL_SELECT, "SELECT"}, {ACL_INSERT, "INSERT"}, {ACL_UPDATE, "UPDATE"}, {ACL_DELETE, "DELETE"}
};

/* InvalidOid: the object is gone. */
static Oid
owner_of_table(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner = InvalidOid;

	if (!HeapTupleIsValid(tuple))
		return owner;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

Oid
atp_owner_of_schema(Oid schema)
{
	HeapTuple	tuple = SearchSysCache1(NAMESPACEOID, ObjectIdGetDatum(schema));
	Oid			owner = InvalidOid;

	if (!HeapTupleIsValid(tuple))
		return owner;
	owner = ((Form_pg_namespace) GETSTRUCT(tuple))->nspowner;
	ReleaseSysCache(tuple);
	return owner;
}

/*
 * A table's triggers run with the rights of the role that writes to the table.  A role that chooses a schema
 * as target trusts the schema's owner.  But a table of a third role in the schema may be a trap for the
 * rights of the next subscriber, in the worst case a superuser's.
 */
static bool
is_trusted(Oid role, Oid owner, Oid schema)
{
	return atp_owner_is_trusted(role, owner) || has_privs_of_role(owner, atp_owner_of_schema(schema));
}

/* Why the role cannot fill this table; NULL: it can, or the table was dropped meanwhile. */
static char *
table_fault(Oid role, Oid relid, Oid schema)
{
	Oid			owner = owner_of_table(relid);
	StringInfoData missing;
	char	   *name;

	if (!OidIsValid(owner))
		return NULL;
	name = quote_qualified_identifier(get_namespace_name(schema), get_rel_name(relid));
	if (!is_trusted(role, owner, schema))
		return psprintf("table %s belongs to role \"%s\", which does not own the schema: its triggers would run as \"%s\"",
						name, GetUserNameFromId(owner, true), GetUserNameFromId(role, true));
	initStringInfo(&missing);
	for (int i = 0; i < lengthof(privileges); i++)
	{
		bool		is_missing = false;

		if (pg_class_aclcheck_ext(relid, role, privileges[i].mode, &is_missing) != ACLCHECK_OK && !is_missing)
			appendStringInfo(&missing, "%s%s", missing.len > 0 ? ", " : "", privileges[i].name);
	}
	return missing.len == 0 ? NULL : psprintf("the role lacks %s on table %s", missing.data, name);
}

/*
 * *fault: why the role cannot fill one of the data tables, or NULL.  Returns whether the schema has any data
 * table.
 */
static bool
tables_fault(Oid role, Oid schema, char **fault)
{
	bool		found = false;

	*fault = NULL;
	for (const char *const *name = atp_target_tables; *name != NULL && *fault == NULL; name++)
	{
		Oid			relid = get_relname_relid(*name, schema);

		if (!OidIsValid(relid))
			continue;
		found = true;
		*fault = table_fault(role, relid, schema);
	}
	return found;
}

/* Why not, without naming role and schema; NULL: the role may. */
static char *
target_fault(Oid role, const char *target)
{
	Oid			schema = get_namespace_oid(target, true);
	char	   *fault;

	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		return pstrdup("the role does not exist");
	if (!OidIsValid(schema))
		return atp_database_aclcheck(MyDatabaseId, role, ACL_CREATE) == ACLCHECK_OK ? NULL
			: psprintf("there is no such schema, and the role lacks CREATE on database \"%s\"", get_database_name(MyDatabaseId));
	if (atp_schema_aclcheck(schema, role, ACL_USAGE) != ACLCHECK_OK)
		return pstrdup("the role lacks USAGE on the schema");
	if (!tables_fault(role, schema, &fault) && atp_schema_aclcheck(schema, role, ACL_CREATE) != ACLCHECK_OK)
		return pstrdup("the schema has none of the tables yet, and the role lacks CREATE on the schema");
	return fault;
}

/*
 * A target is a name.  After DROP SCHEMA another role may make a schema of this name, with grants for the
 * subscription's owner, and with triggers that run as this owner.  A subscriber who named the schema trusted
 * the schema's owner of that time (known), and trusts superusers and the roles of which it is a member.
 */
static char *
stranger_fault(Oid role, const char *target, Oid known)
{
	Oid			schema = get_namespace_oid(target, true);
	Oid			owner = OidIsValid(schema) ? atp_owner_of_schema(schema) : InvalidOid;
	char	   *name;

	if (!OidIsValid(owner) || owner == known || superuser_arg(owner) || is_member_of_role_nosuper(role, owner))
		return NULL;
	name = GetUserNameFromId(role, true);
	return psprintf("schema \"%s\" belongs to role \"%s\" now: its triggers would run as \"%s\"",
					target, GetUserNameFromId(owner, true), name ? name : "?");
}

bool
atp_target_is_strange(Oid role, const char *target, Oid known)
{
	return stranger_fault(role, target, known) != NULL;
}

static char *
rights_fault(Oid role, const char *target)
{
	char	   *fault = target_fault(role, target);
	char	   *name = GetUserNameFromId(role, true);

	return fault == NULL ? NULL : psprintf("role \"%s\" may not fill schema \"%s\": %s", name ? name : "?", target, fault);
}

char *
atp_target_fault(Oid role, const char *target, Oid known)
{
	char	   *stranger = stranger_fault(role, target, known);

	return stranger != NULL ? stranger : rights_fault(role, target);
}

bool
atp_role_may_fill(Oid role, const char *target, Oid known)
{
	return atp_target_fault(role, target, known) == NULL;
}

static void
refuse_target(char *fault)
{
	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("%s", fault),
				 errdetail("A subscription writes the tables of its target with the rights of its owner."),
				 errhint("Name a schema of the owner as \"%s\", or grant USAGE on the schema, and SELECT, INSERT, UPDATE and DELETE on its tables.", "target")));
}

Oid
atp_target_check(Oid role, const char *target)
{
	Oid			schema = get_namespace_oid(target, true);

	refuse_target(rights_fault(role, target));
	return OidIsValid(schema) ? atp_owner_of_schema(schema) : InvalidOid;
}

void
atp_target_require(Oid role, const char *target, Oid known)
{
	refuse_target(atp_target_fault(role, target, known));
}

void
atp_target_hold(Oid role, const char *target, Oid known)
{
	Oid			schema = get_namespace_oid(target, true);
	Oid			locked;

	/* while we waited for the lock, the schema of this name may have become another one */
	do
	{
		locked = schema;
		if (OidIsValid(schema))
			LockDatabaseObject(NamespaceRelationId, schema, 0, AccessShareLock);
		schema = get_namespace_oid(target, true);
	} while (schema != locked);
	atp_target_require(role, target, known);
}

AtpCaller
atp_target_begin(const AtpSubscription *sub)
{
	atp_target_hold(sub->owner, sub->target, sub->target_owner);
	return atp_owner_begin(sub->owner);
}

/* SQL: atproto.role_may_fill(role, target, target_owner) */
Datum
atp_role_may_fill_sql(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(atp_role_may_fill(PG_GETARG_OID(0), NameStr(*PG_GETARG_NAME(1)), PG_GETARG_OID(2)));
}

bool
atp_target_packs(const char *target)
{
	Oid			relid = atp_target_relid(target, "record");
	AttrNumber	attnum = OidIsValid(relid) ? get_attnum(relid, "value") : InvalidAttrNumber;

	return attnum != InvalidAttrNumber && getBaseType(get_atttype(relid, attnum)) == atp_type("dagcbor");
}

/* A value of the type dagcbor is the DAG-CBOR, which the column raw would have a second time. */
char *
atp_target_raw_fault(const char *target)
{
	return !atp_target_packs(target) ? NULL
		: psprintf("a subscription with \"%s\" cannot fill schema \"%s\", whose values are of type %s", "keep_raw", target, "dagcbor");
}

/* ------------------------------------------------------------------------
 * Changes
 * ------------------------------------------------------------------------
 */

static bool rights_changed = true;

static void
catalog_callback(Datum arg, int cacheid, uint32 hashvalue)
{
	rights_changed = true;
}

/*
 * GRANT and REVOKE update the catalog row of the object concerned, and its cache invalidation arrives at the
 * commit.  Most invalidations of these caches have other causes; checking again costs less than telling the
 * causes apart.
 */
char *
atp_target_fault_since(Oid role, const char *target, Oid known)
{
	static const int caches[] = {RELOID, NAMESPACEOID, AUTHOID, AUTHMEMROLEMEM};
	static bool registered = false;
	char	   *fault;

	for (int i = 0; i < lengthof(caches) && !registered; i++)
		CacheRegisterSyscacheCallback(caches[i], catalog_callback, (Datum) 0);
	registered = true;
	if (!rights_changed)
		return NULL;
	rights_changed = false;
	fault = atp_target_fault(role, target, known);
	/* after a fault, check again at the next call */
	rights_changed |= fault != NULL;
	return fault;
}

Oid
atp_target_relid(const char *target, const char *name)
{
	Oid			schema = get_namespace_oid(target, true);

	return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

List *
atp_targets(const char *only)
{
	/* a table repo of a user has no column did of the type did, or no column rev */
	AtpResult	found = atp_query("SELECT n.nspname::text AS name FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid"
								  " WHERE c.relname = 'repo' AND c.relkind IN ('r', 'p') AND ($2 IS NULL OR n.nspname = $2::name)"
								  " AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'did' AND a.atttypid = $1)"
								  " AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'rev') ORDER BY n.nspname",
								  ATP_ARGS((AtpArg) {ObjectIdGetDatum(atp_type("did")), OIDOID, false}, atp_text_arg(only)));
	List	   *targets = NIL;

	for (uint64 i = 0; i < found.n; i++)
		targets = lappend(targets, atp_get_text(atp_result_row(found, i), "name"));
	atp_result_free(found);
	return targets;
}
