/*
 * extension.c
 *		The extension as the consumer finds it in its database.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "config/claim.h"
#include "config/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"

static Oid	subscription_relid = InvalidOid;
static bool config_changed = true;

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
		Datum		d = heap_getattr(tuple, Anum_pg_extension_extversion,
									 RelationGetDescr(rel), &isnull);

		*version = isnull ? pstrdup("") : TextDatumGetCString(d);
		*schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

AtpExtension
atp_extension_lock(void)
{
	Oid			extoid = get_extension_oid("atproto", true);
	Oid			schema;
	char	   *version;

	if (!OidIsValid(extoid))
		return ATP_EXTENSION_ABSENT;
	LockDatabaseObject(ExtensionRelationId, extoid, 0, AccessShareLock);
	/* it may have been dropped while we waited for the lock */
	if (!extension_row(extoid, &schema, &version))
		return ATP_EXTENSION_ABSENT;
	if (strcmp(version, ATP_EXTVERSION) != 0)
		return ATP_EXTENSION_OTHER_VERSION;
	return ATP_EXTENSION_READY;
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

void
atp_begin(const char *activity)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	atp_claim_guard();
	SPI_connect();
	PushActiveSnapshot(GetTransactionSnapshot());
	pgstat_report_activity(STATE_RUNNING, activity);
}

void
atp_commit(void)
{
	SPI_finish();
	PopActiveSnapshot();
	CommitTransactionCommand();
	/* waiting for a lock may have used up a wake-up that was meant for the loop */
	SetLatch(MyLatch);
	pgstat_report_stat(false);
}

/* Any relation may stand for all (InvalidOid); the extension has no relcache entry. */
static void
relcache_callback(Datum arg, Oid relid)
{
	if (relid == InvalidOid || relid == subscription_relid || !OidIsValid(subscription_relid))
		config_changed = true;
}

bool
atp_config_changed(void)
{
	static bool registered = false;
	bool		changed;

	if (!registered)
	{
		CacheRegisterRelcacheCallback(relcache_callback, (Datum) 0);
		registered = true;
	}
	AcceptInvalidationMessages();
	changed = config_changed;
	config_changed = false;
	return changed;
}

void
atp_config_watch(Oid relid)
{
	subscription_relid = relid;
}

uint64
atp_run_sql(const char *sql, int nargs, Oid *types, Datum *args, const char *nulls)
{
	int			rc = SPI_execute_with_args(sql, nargs, types, args, nulls, false, 0);

	if (rc < 0)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(rc));
	return SPI_processed;
}
