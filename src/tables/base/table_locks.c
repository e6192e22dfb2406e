/*
 * table_locks.c
 *		All data tables of a transaction are locked together.
 *
 * DROP SCHEMA, TRUNCATE of two tables, and an operator's own transaction lock the tables in unknown
 * orders.  A process that has written into one table and waits for the next would deadlock with
 * such a session, and PostgreSQL would mostly end the session, which came later.  So a process of
 * the extension takes all locks at once without waiting, or none and waits for the table that was
 * not available.
 *
 * Tables that users' triggers and foreign keys lock besides are not known beforehand, and are not
 * covered.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "partitioning/partdesc.h"
#include "storage/lmgr.h"
#include "tables/base/error_class.h"
#include "tables/base/logged.h"
#include "tables/base/table_locks.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/rls.h"

/*
 * The partitions of a table with more partitions than this (many months or accounts) are not locked beforehand: each
 * lock costs room in the server's lock table, and a batch writes into few partitions.
 */
#define PARTITIONS_MAX	64

typedef struct Locking
{
	bool		waits;
	int			room;			/* remaining number of partitions to lock for this table */
} Locking;

static Oid	lock_partitions(Oid relid, Locking *locking);

/*
 * Lock the table and the partitions.  Returns InvalidOid, or the first table or partition with an unavailable lock.
 */
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

/* Only the policies of the table that a statement names count, not policies of partitions. */
static void
check_whole(const AtpTable *table, Oid relid)
{
	const char *name;

	if (!table->whole || check_enable_rls(relid, InvalidOid, true) != RLS_ENABLED)
		return;
	name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)), get_rel_name(relid));
	ereport(ERROR,
			(errcode(ATP_ERRCODE_STOP),
			 errmsg_internal("row security of table %s may hide rows from the owner of the subscription: a hidden row would be taken for a missing row", name),
			 errhint("ALTER TABLE %s DISABLE ROW LEVEL SECURITY, or give role \"%s\" the attribute BYPASSRLS.",
					 name, GetUserNameFromId(GetUserId(), false))));
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
		if (OidIsValid(relid) && !OidIsValid(taken))
			check_whole(*table, relid);
		/* partition() may have replaced the table before the lock: then the statements would wait for the new table */
		if (OidIsValid(relid) && !OidIsValid(taken) && atp_target_table(set, (*table)->name) != relid)
			taken = relid;
	}
	return taken;
}

/*
 * Wait for the table first (InvalidOid: no wait), then try all tables without waiting.  Returns InvalidOid, or the
 * table with an unavailable lock; in this case no lock is kept.
 *
 * An ERROR of the wait (lock_timeout, a deadlock, a dropped table) leaves this function without the subtransaction: whoever
 * catches the ERROR, such as an exception block of PL/pgSQL, ends the subtransaction that the catcher has begun, and no other.
 */
static Oid
lock_in_step(const AtpStatements *set, int uses, Oid first)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile Oid taken = InvalidOid;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		if (OidIsValid(first))
			LockRelationOid(first, RowExclusiveLock);
		taken = atp_tables_lock(set, uses, false);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(cxt);
		error = CopyErrorData();
		FlushErrorState();
	}
	PG_END_TRY();
	if (error != NULL || OidIsValid(taken))
		RollbackAndReleaseCurrentSubTransaction();
	else
		ReleaseCurrentSubTransaction();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	if (error != NULL)
		ReThrowError(error);
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
