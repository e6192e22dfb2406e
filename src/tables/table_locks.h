/*
 * table_locks.h
 *		The data tables are locked together, before the first of them is touched:
 *		who waits for one of them has none.
 */
#ifndef ATP_TABLE_LOCKS_H
#define ATP_TABLE_LOCKS_H

#include "postgres.h"

#include "tables/statements.h"

/*
 * Lock the tables of these uses (ATP_USE_...) that there are, with their partitions, as an
 * INSERT does, until the transaction's end, without waiting.  InvalidOid: they are locked; else
 * one that another session has: the transaction must end, and be begun again after
 * atp_tables_await().
 */
extern Oid	atp_tables_lock(const AtpStatements *set, int uses);

/* Wait, in a transaction of its own, until nobody else has this table.  It may be gone then. */
extern void atp_tables_await(Oid relid);

#endif							/* ATP_TABLE_LOCKS_H */
