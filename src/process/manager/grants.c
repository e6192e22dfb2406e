/*
 * grants.c
 *		grant_to() and revoke_from(): the privileges that a role needs, in one list.
 *
 * The functions run GRANT and REVOKE with the caller's rights.  GRANT only warns when the caller may not grant a
 * privilege, so the functions ask first, and an ERROR takes back what was granted before.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/spi.h"
#include "config/target.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "tables/base/table.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

PG_FUNCTION_INFO_V1(atp_grant_to);
PG_FUNCTION_INFO_V1(atp_revoke_from);

#define READ	"SELECT"
#define WRITE	"SELECT, INSERT, UPDATE, DELETE"

/*
 * Privileges of a subscriber besides the target, in schema atproto.  A reader gets no such privilege: the functions
 * open connections and change tables.
 */
static const struct
{
	const char *kind;
	const char *names;
	const char *privileges;
	const char *columns;		/* NULL: all */
}			to_subscribe[] = {
	{"FUNCTION",
		"subscribe, unsubscribe, pause, resume, set_cursor, history_again, close_gap, refill, retry, create_tables, audit, rebuild_links,"
		" count_links, link_problems, check, backlinks, backlink_count, backlink_dids, load_car, set_zstd_dictionary, plc_ask, grant_to, revoke_from",
	"EXECUTE"},
	{"PROCEDURE", "audit_all, revalidate, await_backfill, await_history", "EXECUTE"},
	{"TABLE", "subscription, request_header, cursor, dead_frame", WRITE},
	/* without the column id, because all subscriptions share its numbers */
	{"TABLE", "dead_letter", "INSERT", "subscription, seq, stage, sqlstate, message, did, path, digest, attempts"},
	{"TABLE", "dead_letter", "SELECT, UPDATE, DELETE"},
	{"TABLE", "gap", "INSERT", "subscription, endpoint, after_seq, before_seq, reason"},
	{"TABLE", "gap", "UPDATE", "again_since, closed_at, closed_how"},
	{"TABLE", "gap", "SELECT, DELETE"},
	{"TABLE", "status, stat_subscription, history, history_progress, subscription_log, audit_state, repo_progress, repo_problem, audit_progress, stat_progress, limits, blocked_account", READ}
};

typedef struct Change
{
	bool		grant;			/* false: revoke */
	bool		subscribe;		/* false: read */
	Oid			role;
	const char *name;			/* of the role */
	const char *target;
} Change;

static AtpArg
oid_arg(Oid value)
{
	return (AtpArg) {ObjectIdGetDatum(value), OIDOID, false};
}

/* ------------------------------------------------------------------------
 * A single GRANT or REVOKE
 * ------------------------------------------------------------------------
 */

/* A row: for an element of the list the call is false.  $1: object, $2: privileges, $3: columns. */
#define NOT_ALL(list, call) "SELECT FROM unnest(string_to_array(" list ", ', ')) e WHERE NOT " call " LIMIT 1"

static const char not_schema[] = NOT_ALL("$2", "has_schema_privilege($1::regnamespace, e || ' WITH GRANT OPTION') AND $3 IS NULL");
static const char not_routine[] = NOT_ALL("$2", "has_function_privilege($1::regproc, e || ' WITH GRANT OPTION') AND $3 IS NULL");
static const char not_relation[] = NOT_ALL("$2", "has_table_privilege($1, e || ' WITH GRANT OPTION') AND $3 IS NULL");
static const char not_columns[] = NOT_ALL("$3", "has_column_privilege($1, e, $2 || ' WITH GRANT OPTION')");

/* fault: a query that gives a row if the caller may not grant the privileges */
static void
change_privileges(const Change *c, const char *fault, const char *kind, const char *object, const char *privileges, const char *columns)
{
	AtpResult	found = atp_query(fault, ATP_ARGS(atp_text_arg(object), atp_text_arg(privileges), atp_text_arg(columns)));

	if (found.n > 0)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("role \"%s\" may not %s %s on %s", GetUserNameFromId(GetUserId(), false), c->grant ? "grant" : "revoke", privileges, object),
				 errhint("The owner may, and a superuser.")));
	atp_result_free(found);
	(void) atp_run_unnamed(psprintf("%s %s%s ON %s %s %s %s", c->grant ? "GRANT" : "REVOKE",
									privileges, columns != NULL ? psprintf(" (%s)", columns) : "", kind, object,
									c->grant ? "TO" : "FROM", quote_identifier(c->name)), ATP_NO_ARGS);
}

static void
change_extension(const Change *c)
{
	for (int i = 0; i < lengthof(to_subscribe); i++)
	{
		const char *columns = to_subscribe[i].columns;
		const char *fault = strcmp(to_subscribe[i].kind, "TABLE") != 0 ? not_routine : columns != NULL ? not_columns : not_relation;
		char	   *names = pstrdup(to_subscribe[i].names);

		for (char *name = strtok(names, ", "); name != NULL; name = strtok(NULL, ", "))
			change_privileges(c, fault, to_subscribe[i].kind, psprintf("atproto.%s", name), to_subscribe[i].privileges, columns);
	}
}

/* ------------------------------------------------------------------------
 * Target
 * ------------------------------------------------------------------------
 */

/*
 * $1: target, $2: names of relations, $3: role, $4: is this a GRANT?  The owner of a table needs no grant, and REVOKE
 * would take the owner's own privileges.  Partitions have privileges of their own.
 */
#define OF_OTHERS(owner) "CASE WHEN $4 THEN NOT pg_has_role($3, " owner ", 'USAGE') ELSE " owner " <> $3 END"
static const char relations[] =
	"SELECT DISTINCT o.oid::regclass::text AS object FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid,"
	" LATERAL (SELECT c.oid AS relid UNION SELECT relid FROM pg_partition_tree(c.oid)) p JOIN pg_class o ON o.oid = p.relid"
	" WHERE n.nspname = $1 AND c.relname = ANY ($2) AND c.relkind IN ('r', 'p', 'v') AND " OF_OTHERS("o.relowner") " ORDER BY 1";

/*
 * Roles that make tables in the target; may: the caller may alter the default privileges of the role.  A former
 * owner of the tables has default privileges, too, so REVOKE reads pg_default_acl.
 */
static const char makers[] =
	"SELECT o.rolname::text AS maker, pg_has_role(o.oid, 'USAGE') AS may FROM pg_roles o WHERE o.oid IN"
	" (SELECT nspowner FROM pg_namespace WHERE nspname = $1 UNION SELECT c.relowner FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid"
	"  WHERE n.nspname = $1 AND c.relname = ANY ($2) UNION SELECT d.defaclrole FROM pg_namespace n JOIN pg_default_acl d ON d.defaclnamespace = n.oid,"
	"  aclexplode(d.defaclacl) a WHERE NOT $4 AND n.nspname = $1 AND d.defaclobjtype = 'r' AND a.grantee = $3) AND " OF_OTHERS("o.oid") " ORDER BY 1";

/* Includes the tables of distribute(), without an AtpTable. */
static AtpArg
names_of_tables(Oid schema)
{
	Datum		names[32];
	int			n = 0;

	for (int i = 0; atp_target_tables[i] != NULL; i++)
	{
		Oid			relid = get_relname_relid(atp_target_tables[i], schema);
		bool		foreign = false;

		for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
			foreign |= strcmp((*table)->name, atp_target_tables[i]) == 0 && !atp_table_is_ours(*table, relid);
		if (OidIsValid(relid) && !foreign)
			names[n++] = CStringGetTextDatum(atp_target_tables[i]);
	}
	return atp_array_arg(TEXTOID, names, NULL, n);
}

static AtpArg
names_of_views(Oid schema)
{
	Datum		names[32];
	int			n = 0;

	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
		if ((*table)->view != NULL && get_rel_relkind(get_relname_relid((*table)->view, schema)) == RELKIND_VIEW)
			names[n++] = CStringGetTextDatum((*table)->view);
	return atp_array_arg(TEXTOID, names, NULL, n);
}

static AtpResult
of_target(const Change *c, const char *sql, AtpArg names)
{
	return atp_query(sql, ATP_ARGS(atp_text_arg(c->target), names, oid_arg(c->role), atp_bool_arg(c->grant)));
}

static void
change_relations(const Change *c, AtpArg names, const char *privileges)
{
	AtpResult	found = of_target(c, relations, names);

	for (uint64 i = 0; i < found.n; i++)
		change_privileges(c, not_relation, "TABLE", atp_get_text(atp_result_row(found, i), "object"), privileges, NULL);
	atp_result_free(found);
}

/* In the schema atproto, later versions of the extension make internal tables, so default privileges there only read. */
static void
change_tables_to_come(const Change *c, AtpArg names)
{
	AtpResult	found = of_target(c, makers, names);
	bool		only_read = c->grant && (!c->subscribe || strcmp(c->target, "atproto") == 0);

	for (uint64 i = 0; i < found.n; i++)
	{
		const char *maker = atp_get_text(atp_result_row(found, i), "maker");

		if (atp_get_bool(atp_result_row(found, i), "may"))
			(void) atp_run_unnamed(psprintf("ALTER DEFAULT PRIVILEGES FOR ROLE %s IN SCHEMA %s %s %s ON TABLES %s %s",
											quote_identifier(maker), quote_identifier(c->target), c->grant ? "GRANT" : "REVOKE",
											only_read || !c->subscribe ? READ : WRITE, c->grant ? "TO" : "FROM", quote_identifier(c->name)),
								   ATP_NO_ARGS);
		else
			ereport(NOTICE,
					(errmsg("privileges on tables that role \"%s\" makes later stay as they are", maker),
					 errhint("A member of this role may change them.")));
	}
	atp_result_free(found);
}

/* Grant USAGE if the role lacks USAGE; revoke USAGE if a GRANT names the role. */
static void
change_schema(const Change *c)
{
	AtpResult	found = atp_query("SELECT FROM pg_namespace n WHERE nspname = $1 AND " OF_OTHERS("nspowner") " AND CASE WHEN $4 THEN"
								  " NOT has_schema_privilege($3, n.oid, 'USAGE') ELSE $3 IN (SELECT grantee FROM aclexplode(nspacl)) END AND $2 IS NULL",
								  ATP_ARGS(atp_text_arg(c->target), atp_text_arg(NULL), oid_arg(c->role), atp_bool_arg(c->grant)));

	if (found.n > 0)
		change_privileges(c, not_schema, "SCHEMA", quote_identifier(c->target), "USAGE", NULL);
	atp_result_free(found);
}

static void
change_target(const Change *c, Oid schema)
{
	AtpArg		tables = names_of_tables(schema);

	change_schema(c);
	change_relations(c, tables, c->subscribe ? WRITE : READ);
	change_relations(c, names_of_views(schema), READ);
	change_tables_to_come(c, tables);
}

/* ------------------------------------------------------------------------
 * SQL functions
 * ------------------------------------------------------------------------
 */
static Change
get_change(FunctionCallInfo fcinfo, bool grant)
{
	Change		c = {.grant = grant};
	char	   *what;

	for (int i = 0; i < 3; i++)
		if (PG_ARGISNULL(i))
			atp_argument_is_null(i == 0 ? "role" : i == 1 ? "target" : "what");
	c.name = NameStr(*PG_GETARG_NAME(0));
	c.role = get_role_oid(c.name, false);
	c.target = NameStr(*PG_GETARG_NAME(1));
	what = text_to_cstring(PG_GETARG_TEXT_PP(2));
	c.subscribe = strcmp(what, "subscribe") == 0;
	if (!c.subscribe && strcmp(what, "read") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("what must be \"%s\" or \"%s\"", "read", "subscribe"),
				 errhint("To \"%s\" is to see the data tables of the target, to \"%s\" is to fill them from streams of other machines.", "read", "subscribe")));
	return c;
}

/* An ERROR if the role still cannot fill or read the target. */
static void
require_effect(const Change *c, Oid schema)
{
	char	   *fault = c->subscribe ? atp_target_fault(c->role, c->target, atp_owner_of_schema(schema)) : NULL;

	if (!c->subscribe)
		(void) atp_table_in(c->target, "record");
	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s", fault),
				 errhint("First make the tables, SELECT atproto.create_tables(%s), or give the role a schema of its own: CREATE SCHEMA ... AUTHORIZATION %s.",
						 quote_literal_cstr(c->target), quote_identifier(c->name))));
	if (atp_schema_aclcheck(atp_extension_namespace(), c->role, ACL_USAGE) != ACLCHECK_OK)
		ereport(WARNING,
				(errmsg("role \"%s\" lacks USAGE on schema \"%s\", which has the types and operators of the extension", c->name,
						get_namespace_name(atp_extension_namespace())),
				 errhint("GRANT USAGE ON SCHEMA %s TO %s.", atp_extension_schema(), quote_identifier(c->name))));
}

/* SQL: atproto.grant_to(role, target, what) */
Datum
atp_grant_to(PG_FUNCTION_ARGS)
{
	Change		c = get_change(fcinfo, true);
	Oid			schema = atp_schema_of(c.target);

	SPI_connect();
	if (c.subscribe)
		change_extension(&c);
	change_target(&c, schema);
	require_effect(&c, schema);
	SPI_finish();
	PG_RETURN_VOID();
}

/* Grants of a second role, and of PUBLIC, stay: REVOKE says nothing about them. */
static void
warn_if_in_vain(const Change *c)
{
	AtpResult	found = atp_query("SELECT FROM pg_class r WHERE relname = 'record' AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)"
								  " AND has_table_privilege($2, r.oid, 'SELECT') UNION ALL"
								  " SELECT WHERE $3 AND has_function_privilege($2, 'atproto.subscribe'::regproc, 'EXECUTE') LIMIT 1",
								  ATP_ARGS(atp_text_arg(c->target), oid_arg(c->role), atp_bool_arg(c->subscribe)));

	if (found.n > 0)
		ereport(WARNING,
				(errmsg("role \"%s\" may still %s", c->name, c->subscribe ? "read or subscribe" : "read"),
				 errdetail("The role is a superuser, owns tables of the target or is a member of their owner, or has rights by PUBLIC, by a further role, or by a grant of a role other than the owner.")));
	atp_result_free(found);
}

/*
 * Tables of users got the default privileges, too, and may have grants by hand, so REVOKE leaves tables of users alone.
 */
static void
tell_what_stays(const Change *c)
{
	AtpResult	found = atp_query("SELECT string_agg(DISTINCT c.oid::regclass::text, ', ') AS tables FROM pg_namespace n"
								  " JOIN pg_class c ON c.relnamespace = n.oid, aclexplode(c.relacl) a"
								  " WHERE n.nspname = $1 AND n.nspname <> 'atproto' AND a.grantee = $2 AND c.relowner <> $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')",
								  ATP_ARGS(atp_text_arg(c->target), oid_arg(c->role)));
	const char *tables = atp_get_text_or_null(atp_result_row(found, 0), "tables");

	if (tables != NULL)
		ereport(NOTICE,
				(errmsg("role \"%s\" keeps privileges on tables of schema \"%s\"", c->name, c->target),
				 errdetail("The tables are %s.", tables),
				 errhint("REVOKE ALL ON ... FROM %s.", quote_identifier(c->name))));
	atp_result_free(found);
}

/* SQL: atproto.revoke_from(role, target, what) */
Datum
atp_revoke_from(PG_FUNCTION_ARGS)
{
	Change		c = get_change(fcinfo, false);
	Oid			schema = c.subscribe ? get_namespace_oid(c.target, true) : atp_schema_of(c.target);

	SPI_connect();
	if (c.subscribe)
		change_extension(&c);
	if (OidIsValid(schema))
		change_target(&c, schema);
	warn_if_in_vain(&c);
	tell_what_stays(&c);
	SPI_finish();
	PG_RETURN_VOID();
}
