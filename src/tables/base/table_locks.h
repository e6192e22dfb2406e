/*
 * table_locks.h
 *		All data tables of a transaction are locked together, before the first is touched: a process
 *		waiting for a table holds no other table.
 */
#ifndef ATP_TABLE_LOCKS_H
#define ATP_TABLE_LOCKS_H

#include "postgres.h"

#include "tables/base/statements.h"

/*
 * Lock the existing tables of these uses (ATP_USE_...), with their partitions, in the mode of an INSERT, until the
 * end of the transaction.  InvalidOid: all are locked.  Otherwise the OID of a table that was replaced meanwhile, or
 * (only if waits is false) is locked by another session: the caller ends the transaction, and begins the next transaction by atp_begin_with_table(),
 * which waits for this table and keeps the lock while the remaining tables are tried.  A caller giving the lock back
 * before the next try might never get all locks, if sessions keep locking the tables in turn.
 */
extern Oid	atp_tables_lock(const AtpStatements *set, int uses, bool waits);

/*
 * Lock the tables in a transaction without any lock on them.  Waits for a table while holding no other table, as long
 * as lock_timeout allows.
 */
extern void atp_tables_lock_waiting(const AtpStatements *set, int uses);

#endif							/* ATP_TABLE_LOCKS_H */
