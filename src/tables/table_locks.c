/*
 * table_locks.c
 *		The data tables are locked together.
 *
 * DROP SCHEMA, TRUNCATE of two tables, and an operator's own transaction lock them in
 * orders that nobody can know.  Who writes into one and waits for the next would
 * be in their way, and one of the two the victim of a deadlock, mostly the session, which
 * comes later.  So a process of ours takes all of them at once, or none and waits for
 * the one that was not to be had.
 *
 * What users' triggers and foreign keys lock besides, nobody knows beforehand.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "config/transaction.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "tables/table_locks.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

/*
 * A table with more partitions than this is for many years, or accounts: each lock costs room in
 * the server's table of locks, and a batch writes into few of them.
 */
#define PARTITIONS_MAX	64

static Oid	lock_partitions(Oid relid);

/* InvalidOid, or which of it, and of what is below it, was not to be had. */
static Oid
lock_one(Oid relid)
{
	if (!ConditionalLockRelationOid(relid, RowExclusiveLock))
		return relid;
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? lock_partitions(relid) : InvalidOid;
}

static Oid
lock_partitions(Oid relid)
{
	Relation	rel = try_table_open(relid, NoLock);
	PartitionDesc desc;
	Oid			taken = InvalidOid;

	if (rel == NULL)
		return InvalidOid;
	desc = RelationGetPartitionDesc(rel, true);
	for (int i = 0; i < desc->nparts && desc->nparts <= PARTITIONS_MAX && !OidIsValid(taken); i++)
		taken = lock_one(desc->oids[i]);
	table_close(rel, NoLock);
	return taken;
}

Oid
atp_tables_lock(const AtpStatements *set, int uses)
{
	Oid			taken = InvalidOid;

	for (const AtpTable *const *table = atp_tables; *table != NULL && !OidIsValid(taken); table++)
	{
		Oid			relid = (*table)->use & uses ? atp_target_table(set, (*table)->name) : InvalidOid;

		if (OidIsValid(relid))
			taken = lock_one(relid);
	}
	return taken;
}

void
atp_tables_await(Oid relid)
{
	atp_begin("waiting for a table");
	LockRelationOid(relid, RowExclusiveLock);
	atp_commit();
}
