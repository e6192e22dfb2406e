/*
 * logged.c
 *		UNLOGGED data tables, which no subscription may fill.
 *
 * Once a table is logged again, nobody can see whether a crash emptied the table before.  So the
 * first process that finds a data table unlogged marks the synchronized repositories as unproven,
 * whether there was a crash or not.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "config/spi.h"
#include "config/target.h"
#include "tables/base/audit_request.h"
#include "tables/base/error_class.h"
#include "tables/base/logged.h"
#include "tables/base/table.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

static char *
name_of(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
}

/* A partitioned table has no rows, so its own persistence does not matter; the partitions are checked each. */
static bool
is_unlogged(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		unlogged;

	if (!HeapTupleIsValid(tuple))
		return false;
	unlogged = ((Form_pg_class) GETSTRUCT(tuple))->relpersistence == RELPERSISTENCE_UNLOGGED &&
		((Form_pg_class) GETSTRUCT(tuple))->relkind != RELKIND_PARTITIONED_TABLE;
	ReleaseSysCache(tuple);
	return unlogged;
}

/* The unlogged table or partition among this table and its partitions; or InvalidOid. */
static Oid
unlogged_part(Oid relid)
{
	ListCell   *cell;

	if (OidIsValid(relid))
		foreach(cell, find_all_inheritors(relid, NoLock, NULL))
			if (is_unlogged(lfirst_oid(cell)))
				return lfirst_oid(cell);
	return InvalidOid;
}

static Oid
unlogged_table(const char *target)
{
	Oid			found = InvalidOid;

	for (const AtpTable *const *table = atp_tables; *table != NULL && !OidIsValid(found); table++)
		found = unlogged_part(atp_target_relid(target, (*table)->name));
	return found;
}

static char *
logged_fault(Oid relid)
{
	return psprintf("table %s is unlogged: a crash of the server would empty it, and what is known of its rows would stay", name_of(relid));
}

static void
refuse_unlogged(Oid relid)
{
	ereport(ERROR,
			(errcode(ATP_ERRCODE_STOP),
			 errmsg_internal("%s", logged_fault(relid)),
			 errhint("ALTER TABLE %s SET LOGGED.", name_of(relid))));
}

void
atp_check_table_logged(Oid relid)
{
	if (is_unlogged(relid))
		refuse_unlogged(relid);
}

void
atp_check_logged(const char *target)
{
	Oid			relid = unlogged_table(target);

	if (OidIsValid(relid))
		refuse_unlogged(relid);
}

char *
atp_logged_fault(const char *target)
{
	Oid			relid = unlogged_table(target);

	return OidIsValid(relid) ? logged_fault(relid) : NULL;
}

void
atp_distrust_unlogged(const char *target)
{
	if (!OidIsValid(unlogged_part(atp_target_relid(target, atp_record_table.name))) ||
		!OidIsValid(atp_target_relid(target, atp_repo_table.name)))
		return;
	/*
	 * Rows are locked in the order of the DIDs, in which consumers lock them, too.  The DIDs stay in a CTE: an array
	 * of all repositories of a network would not fit into memory.
	 */
	if (atp_run(atp_expand_sql("WITH l AS MATERIALIZED (SELECT did FROM #.repo WHERE sync = 'synchronized' ORDER BY did FOR NO KEY UPDATE)"
							   " UPDATE #.repo r SET sync = 'unproven', updated_at = now() FROM l WHERE r.did OPERATOR(@.=) l.did", target), ATP_NO_ARGS) > 0)
		atp_audit_request(target);
}
