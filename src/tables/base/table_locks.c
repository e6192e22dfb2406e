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
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "tables/base/logged.h"
#include "tables/base/table_locks.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"

/*
 * A table with more partitions than this is for many years, or accounts: each lock costs room in
 * the server's table of locks, and a batch writes into few of them.
 */
#define PARTITIONS_MAX	64

typedef struct Locking
{
	bool		waits;
	int			room;			/* for so many partitions more, of this table */
} Locking;

static Oid	lock_partitions(Oid relid, Locking *locking);

/* InvalidOid, or which of it, and of what is below it, was not to be had. */
static Oid
lock_one(Oid relid, Locking *locking)
{
	if (locking->waits)
		LockRelationOid(relid, RowExclusiveLock);
	else if (!ConditionalLockRelationOid(relid, RowExclusiveLock))
		return relid;
	atp_check_table_logged(relid);
	return get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE ? lock_partitions(relid, locking) : InvalidOid;
}

static Oid
lock_partitions(Oid relid, Locking *locking)
{
	Relation	rel = try_table_open(relid, NoLock);
	PartitionDesc desc;
	Oid			taken = InvalidOid;

	if (rel == NULL)
		return InvalidOid;
	desc = RelationGetPartitionDesc(rel, true);
	if (desc->nparts <= locking->room)
	{
		locking->room -= desc->nparts;
		for (int i = 0; i < desc->nparts && !OidIsValid(taken); i++)
			taken = lock_one(desc->oids[i], locking);
	}
	else
		for (int i = 0; i < desc->nparts; i++)
			atp_check_table_logged(desc->oids[i]);
	table_close(rel, NoLock);
	return taken;
}

Oid
atp_tables_lock(const AtpStatements *set, int uses, bool waits)
{
	Oid			taken = InvalidOid;

	for (const AtpTable *const *table = atp_tables; *table != NULL && !OidIsValid(taken); table++)
	{
		Oid			relid = (*table)->use & uses ? atp_target_table(set, (*table)->name) : InvalidOid;
		Locking		locking = {waits, PARTITIONS_MAX};

		if (OidIsValid(relid))
			taken = lock_one(relid, &locking);
	}
	return taken;
}

/* Likewise, with this table first (InvalidOid: none), for which it waits; none stays locked in vain. */
static Oid
lock_in_step(const AtpStatements *set, int uses, Oid first)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	Oid			taken;

	BeginInternalSubTransaction(NULL);
	if (OidIsValid(first))
		LockRelationOid(first, RowExclusiveLock);
	taken = atp_tables_lock(set, uses, false);
	if (OidIsValid(taken))
		RollbackAndReleaseCurrentSubTransaction();
	else
		ReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return taken;
}

void
atp_tables_lock_waiting(const AtpStatements *set, int uses)
{
	Oid			taken = InvalidOid;

	do
	{
		CHECK_FOR_INTERRUPTS();
		taken = lock_in_step(set, uses, taken);
	} while (OidIsValid(taken));
}
