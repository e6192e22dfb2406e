/*
 * distributed.c
 *		Tables whose rows Citus keeps on remote servers.
 *
 * PostgreSQL itself has only an empty shell of such a table; Citus replaces the planner, so that
 * statements find the rows.  When Citus is missing from shared_preload_libraries, PostgreSQL takes
 * the shell for an ordinary table: rows go into the shell without any error, and are hidden as soon
 * as Citus is loaded again.
 *
 * Therefore every statement is preceded by a check whether Citus has the table and is loaded.  In a
 * database without Citus the check costs one look into the syscache.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_namespace.h"
#include "common/compat.h"
#include "config/spi.h"
#include "config/target.h"
#include "storage/lmgr.h"
#include "tables/base/distributed.h"
#include "tables/base/error_class.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"

/*
 * pg_dist_partition.repmodel: one copy of each shard, or several copies, to each of which Citus sends every
 * statement.
 */
#define MODEL_STREAMING	's'
#define MODEL_COPIES	'c'

/* Citus' catalog of tables; InvalidOid: this database has no Citus. */
static Oid
citus_catalog(void)
{
	return get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE);
}

/* Citus defines its settings when the library is loaded.  A line of postgresql.conf alone makes a placeholder. */
static bool
citus_is_loaded(void)
{
	return GetConfigOption("citus.version", true, false) != NULL &&
		!(GetConfigOptionFlags("citus.version", true) & GUC_CUSTOM_PLACEHOLDER);
}

bool
atp_has_citus(void)
{
	return OidIsValid(citus_catalog()) && citus_is_loaded();
}

/* Does this server have shards, and is the coordinator another server? */
static bool
is_worker(void)
{
	AtpResult	found = atp_query("SELECT EXISTS (SELECT FROM pg_catalog.pg_dist_local_group WHERE groupid <> 0) AS is_worker", ATP_NO_ARGS);
	bool		is = atp_get_bool(atp_result_row(found, 0), "is_worker");

	atp_result_free(found);
	return is;
}

/* pg_dist_partition.repmodel of a table; '\0': Citus does not keep the table's rows. */
static char
model_of(Oid catalog, Oid relid)
{
	Oid			index = get_relname_relid("pg_dist_partition_logical_relid_index", PG_CATALOG_NAMESPACE);
	AttrNumber	attnum = get_attnum(catalog, "logicalrelid");
	AttrNumber	repmodel = get_attnum(catalog, "repmodel");
	Relation	rel;
	SysScanDesc scan;
	ScanKeyData key;
	HeapTuple	tuple;
	char		model = '\0';

	if (attnum == InvalidAttrNumber || repmodel == InvalidAttrNumber)
		return '\0';
	rel = table_open(catalog, AccessShareLock);
	ScanKeyInit(&key, attnum, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, index, OidIsValid(index), NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		value = atp_tuple_column(tuple, repmodel, RelationGetDescr(rel), &isnull);

		model = isnull ? MODEL_STREAMING : DatumGetChar(value);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return model;
}

static char *
distributed_fault(Oid relid)
{
	return psprintf("the rows of table \"%s.%s\" are kept by Citus, which is not loaded: shared_preload_libraries has to be 'citus,atproto'",
					get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}

static void
refuse_distributed(Oid relid)
{
	ereport(ERROR,
			(errcode(ATP_ERRCODE_STOP),
			 errmsg_internal("%s", distributed_fault(relid)),
			 errdetail("What is written without it is hidden as soon as it is back."),
			 errhint("Restart the server with it, then SELECT atproto.resume(...).")));
}

/* Citus sends a statement to all copies of a shard at once, and may return the rows of more than one copy. */
static void
refuse_copies(Oid relid)
{
	ereport(ERROR,
			(errcode(ATP_ERRCODE_STOP),
			 errmsg("Citus keeps several copies of each shard of table \"%s.%s\"",
					get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid)),
			 errdetail("Rows that a statement returns might come twice."),
			 errhint("SELECT undistribute_table(...), then atproto.distribute() with citus.shard_replication_factor = 1.")));
}

bool
atp_has_copies(Oid relid)
{
	Oid			catalog = citus_catalog();

	return OidIsValid(catalog) && model_of(catalog, relid) == MODEL_COPIES;
}

bool
atp_is_distributed(Oid relid)
{
	Oid			catalog = citus_catalog();
	char		model;

	if (!OidIsValid(catalog) || !OidIsValid(relid))
		return false;
	LockRelationOid(relid, RecoveryInProgress() ? AccessShareLock : RowExclusiveLock);
	model = model_of(catalog, relid);
	if (model == '\0')
		return false;
	if (!citus_is_loaded())
		refuse_distributed(relid);
	if (model == MODEL_COPIES)
		refuse_copies(relid);
	return true;
}

/* A data table that Citus keeps while Citus is not loaded; InvalidOid: no table is in this state. */
static Oid
unreachable_table(const char *target)
{
	Oid			catalog = citus_catalog();

	if (!OidIsValid(catalog) || citus_is_loaded())
		return InvalidOid;
	for (const AtpTable *const *table = atp_tables; *table != NULL; table++)
	{
		Oid			relid = atp_target_relid(target, (*table)->name);

		if (OidIsValid(relid) && model_of(catalog, relid) != '\0')
			return relid;
	}
	return InvalidOid;
}

void
atp_check_distributed(const char *target)
{
	Oid			relid = unreachable_table(target);

	if (OidIsValid(relid))
		refuse_distributed(relid);
}

char *
atp_distributed_fault(const char *target)
{
	Oid			relid = unreachable_table(target);

	return OidIsValid(relid) ? distributed_fault(relid) : NULL;
}

void
atp_require_coordinator(const char *target)
{
	Oid			catalog = citus_catalog();

	if (OidIsValid(catalog) && model_of(catalog, atp_target_relid(target, atp_repo_table.name)) != '\0' && is_worker())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("accounts of schema \"%s\" are erased, blocked and hidden on the coordinator of Citus only", target),
				 errdetail("This server is a worker, which has no list of blocked accounts, and no events that wait."),
				 errhint("Make the call in a statement of its own on the coordinator: a query that reads tables of Citus calls functions on the workers.")));
}

void
atp_recover_prepared(void)
{
	AtpResult	found = atp_query("SELECT has_function_privilege('recover_prepared_transactions()', 'execute') AS may", ATP_NO_ARGS);

	if (atp_get_bool(atp_result_row(found, 0), "may"))
		atp_result_free(atp_query("SELECT recover_prepared_transactions()", ATP_NO_ARGS));
	atp_result_free(found);
}
