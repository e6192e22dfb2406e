/*
 * owner.c
 *		Owners of subscriptions: which roles may own one, protection of owners against
 *		DROP ROLE, and acting with an owner's rights.
 *
 * An owner is stored by OID, so a rename of the role does no harm.  An entry in pg_shdepend makes DROP
 * ROLE fail, from any database.  The entry has the form of a privilege on the column "owner".  DROP
 * OWNED and REASSIGN OWNED leave such an entry alone, as they do with any use of a role unknown to
 * them.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_shdepend.h"
#include "commands/trigger.h"
#include "common/compat.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

PG_FUNCTION_INFO_V1(atp_subscription_owned);

/* Longer than a batch of another consumer usually holds its rows, which it writes last. */
#define QUEUE_WAIT_MS	100

AtpQueueWait atp_queue_wait;

void
atp_owner_check(Oid role)
{
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("role with OID %u does not exist", role)));
	if (!has_privs_of_role(GetUserId(), role))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be a member of role \"%s\" to make it a subscription's owner",
						GetUserNameFromId(role, false)),
				 errhint("A superuser can make you a member: GRANT %s TO %s.",
						 quote_identifier(GetUserNameFromId(role, false)), quote_identifier(GetUserNameFromId(GetUserId(), false)))));
}

static bool
is_noted(Oid relid, int column, Oid role)
{
	Relation	rel = table_open(SharedDependRelationId, AccessShareLock);
	ScanKeyData key[4];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	ScanKeyInit(&key[0], Anum_pg_shdepend_dbid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(MyDatabaseId));
	ScanKeyInit(&key[1], Anum_pg_shdepend_classid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&key[2], Anum_pg_shdepend_objid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	ScanKeyInit(&key[3], Anum_pg_shdepend_objsubid, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(column));
	scan = systable_beginscan(rel, SharedDependDependerIndexId, true, NULL, 4, key);
	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
		found = ((Form_pg_shdepend) GETSTRUCT(tuple))->refclassid == AuthIdRelationId &&
			((Form_pg_shdepend) GETSTRUCT(tuple))->refobjid == role;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* Add or remove the entry of a role. */
static void
note_dependency(Oid relid, int column, Oid role, bool owns)
{
	/* updateAclDependencies() frees this array */
	Oid		   *roles = palloc(sizeof(Oid));

	*roles = role;
	updateAclDependencies(RelationRelationId, relid, column, InvalidOid,
						  owns ? 0 : 1, owns ? NULL : roles, owns ? 1 : 0, owns ? roles : NULL);
	CommandCounterIncrement();
}

/* Does the role own any subscription?  The scan also sees rows that row security hides from the current user. */
static bool
owns_any(Relation rel, int column, Oid role)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, snapshot, 0, NULL);
	HeapTuple	tuple;
	bool		found = false;

	while (!found && HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		owner = atp_tuple_column(tuple, column, RelationGetDescr(rel), &isnull);

		found = !isnull && DatumGetObjectId(owner) == role;
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	return found;
}

/* A command has inserted or removed subscriptions of this role: add or remove its entry. */
static void
sync_dependency(Relation rel, int column, Oid role)
{
	bool		owns;

	/* nobody can drop a pinned role, and PostgreSQL would not keep its entry */
	if (IsPinnedObject(AuthIdRelationId, role))
		return;

	/*
	 * one transaction at a time for each role, since owns_any() sees only rows that other transactions have
	 * committed
	 */
	LockSharedObject(AuthIdRelationId, role, 0, ShareUpdateExclusiveLock);
	if (!SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(role)))
		return;
	CommandCounterIncrement();
	owns = owns_any(rel, column, role);
	if (owns != is_noted(RelationGetRelid(rel), column, role))
		note_dependency(RelationGetRelid(rel), column, role, owns);
}

void
atp_owner_note(Oid role)
{
	Oid			relid = atp_relation("subscription");
	int			column = get_attnum(relid, "owner");
	Relation	rel;

	if (is_noted(relid, column, role))
		return;
	/* since the caller read the subscription, its owner may have changed */
	rel = table_open(relid, AccessShareLock);
	sync_dependency(rel, column, role);
	table_close(rel, NoLock);
}

static Oid
owner_of(HeapTuple row, TupleDesc desc)
{
	bool		isnull;
	Datum		owner = atp_get((AtpTuple) {row, desc}, "owner", OIDOID, &isnull);

	return isnull ? InvalidOid : DatumGetObjectId(owner);
}

/* SQL: atproto_internal.subscription_owned(), AFTER INSERT, UPDATE OF owner or DELETE for each row, and TRUNCATE */
Datum
atp_subscription_owned(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	Relation	rel;
	int			column;
	Oid			before,
				after = InvalidOid;

	if (!CALLED_AS_TRIGGER(fcinfo) || !TRIGGER_FIRED_AFTER(trigger->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function \"%s\" must be fired after the change", "subscription_owned")));
	rel = trigger->tg_relation;
	column = get_attnum(RelationGetRelid(rel), "owner");
	if (TRIGGER_FIRED_BY_TRUNCATE(trigger->tg_event))
	{
		deleteSharedDependencyRecordsFor(RelationRelationId, RelationGetRelid(rel), column);
		return PointerGetDatum(NULL);
	}
	before = owner_of(trigger->tg_trigtuple, RelationGetDescr(rel));
	if (TRIGGER_FIRED_BY_UPDATE(trigger->tg_event))
		after = owner_of(trigger->tg_newtuple, RelationGetDescr(rel));
	/* lock the two roles in the order of their OIDs, so that concurrent changes do not deadlock */
	if (OidIsValid(after) && after < before)
		sync_dependency(rel, column, after);
	sync_dependency(rel, column, before);
	if (OidIsValid(after) && after > before)
		sync_dependency(rel, column, after);
	return PointerGetDatum(NULL);
}

static Oid
table_owner(const char *target, const char *name)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(atp_table_in(target, name)));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for table \"%s\"", name);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

bool
atp_has_owners_rights(const char *target, const char *name)
{
	return has_privs_of_role(GetUserId(), table_owner(target, name));
}

Oid
atp_owner_of_table(const char *target, const char *name)
{
	Oid			owner = table_owner(target, name);

	if (!has_privs_of_role(GetUserId(), owner))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, name);
	return owner;
}

bool
atp_owner_is_trusted(Oid role, Oid owner)
{
	return has_privs_of_role(owner, role) || (!superuser_arg(role) && is_member_of_role_nosuper(role, owner));
}

bool
atp_owner_narrow(Oid *narrowest, Oid owner)
{
	if (!OidIsValid(*narrowest) || has_privs_of_role(*narrowest, owner))
		*narrowest = owner;
	return has_privs_of_role(owner, *narrowest);
}

void
atp_fix_search_path(void)
{
	if (strcmp(namespace_search_path, ATP_SEARCH_PATH) != 0)
		(void) set_config_option("search_path", ATP_SEARCH_PATH, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
}

int
atp_caller_begin(void)
{
	int			nest;

	atp_run("SET CONSTRAINTS ALL IMMEDIATE", ATP_NO_ARGS);
	nest = NewGUCNestLevel();
	atp_fix_search_path();
	return nest;
}

void
atp_caller_end(int nest)
{
	AtEOXact_GUC(false, nest);
}

AtpCaller
atp_owner_begin(Oid owner)
{
	AtpCaller	caller = {.nest = NewGUCNestLevel(), .in_queue = atp_queue_wait.in_queue};

	GetUserIdAndSecContext(&caller.user, &caller.security);
	SetUserIdAndSecContext(owner, caller.security | SECURITY_RESTRICTED_OPERATION);
	atp_queue_wait.in_queue = false;
	return caller;
}

void
atp_owner_end(AtpCaller caller)
{
	AtEOXact_GUC(false, caller.nest);
	SetUserIdAndSecContext(caller.user, caller.security);
	atp_queue_wait.in_queue = caller.in_queue;
}

void
atp_queue_wait_begin(void)
{
	char		limit[16];

	if (!atp_queue_wait.limited)
		return;
	/* shorter than deadlock_timeout: the server must not find a deadlock first, and end the session's statement or the batch */
	snprintf(limit, sizeof(limit), "%dms", Max(Min(QUEUE_WAIT_MS, DeadlockTimeout / 2), 1));
	(void) set_config_option("lock_timeout", limit, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	atp_queue_wait.in_queue = true;
}

bool
atp_queue_wait_failed(int sqlstate)
{
	return sqlstate == ERRCODE_LOCK_NOT_AVAILABLE && atp_queue_wait.in_queue;
}

AtpCaller
atp_visitor_begin(const char *target, const char *const *names)
{
	AtpCaller	caller = {.nest = NewGUCNestLevel(), .in_queue = atp_queue_wait.in_queue};
	Oid			visited = InvalidOid;

	GetUserIdAndSecContext(&caller.user, &caller.security);
	if (!superuser_arg(caller.user))
		return caller;
	/* a missing table is an ERROR: its owner could make it before the superuser's next statement reads it */
	for (; *names != NULL; names++)
	{
		Oid			owner = table_owner(target, *names);

		if (!atp_owner_is_trusted(caller.user, owner) && !atp_owner_narrow(&visited, owner))
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("tables of schema \"%s\" belong to two roles that are not trusted, and neither has the rights of the other", target)));
	}
	if (OidIsValid(visited))
		SetUserIdAndSecContext(visited, caller.security | SECURITY_RESTRICTED_OPERATION);
	return caller;
}
