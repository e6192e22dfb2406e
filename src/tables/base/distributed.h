/*
 * distributed.h
 *		Tables whose rows Citus keeps on remote servers.
 */
#ifndef ATP_DISTRIBUTED_H
#define ATP_DISTRIBUTED_H

#include "postgres.h"

/*
 * Does Citus keep this table's rows?  In a database with Citus, the table is locked as for writing, so that nobody
 * distributes or undistributes the table before the transaction ends.  ERROR with ATP_ERRCODE_STOP when Citus keeps
 * the rows and is not loaded: whatever is written then goes into the empty shell, where nobody finds the rows later.
 */
extern bool atp_is_distributed(Oid relid);

/* Does Citus keep several copies of each shard of this table?  atp_is_distributed() refuses such a table. */
extern bool atp_has_copies(Oid relid);

/* Does this database have Citus, and is Citus loaded? */
extern bool atp_has_citus(void);

/* ERROR with ATP_ERRCODE_STOP when Citus keeps a data table of this schema and is not loaded. */
extern void atp_check_distributed(const char *target);

/* The text of the error of atp_check_distributed(), palloc'd; NULL: no error. */
extern char *atp_distributed_fault(const char *target);

/*
 * ERROR on a worker of Citus, when Citus keeps the tables of this schema.  Blocks, events that wait and dead letters are rows of the
 * coordinator: a block that is written on a worker would be obeyed by no consumer.
 */
extern void atp_require_coordinator(const char *target);

/*
 * Have each node of Citus commit the transactions that the node has prepared and does not yet know to be committed.
 * Until then the rows of these transactions are invisible on the node.  A role without the privilege for
 * recover_prepared_transactions() skips this step, and has to trust that no such transaction exists.
 */
extern void atp_recover_prepared(void);

#endif							/* ATP_DISTRIBUTED_H */
