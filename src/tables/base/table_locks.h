/*
 * table_locks.h
 *		The data tables are locked together, before the first of them is touched:
 *		who waits for one of them has none.
 */
#ifndef ATP_TABLE_LOCKS_H
#define ATP_TABLE_LOCKS_H

#include "postgres.h"

#include "tables/base/statements.h"

/*
 * Lock the tables of these uses (ATP_USE_...) that there are, with their partitions, as an
 * INSERT does, until the transaction's end.  InvalidOid: they are locked; else, unless it waits,
 * one that another session has: the transaction must end, and be begun again by
 * atp_begin_with_table(), so that it has that one when it tries the others: who only waited for it
 * would never get it while others want it one after the other.
 */
extern Oid	atp_tables_lock(const AtpStatements *set, int uses, bool waits);

/* The same, in a transaction that has none of them yet; it waits as long as the transaction may wait for a lock, with none of them. */
extern void atp_tables_lock_waiting(const AtpStatements *set, int uses);

#endif							/* ATP_TABLE_LOCKS_H */
