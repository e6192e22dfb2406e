/*
 * distributed.h
 *		Tables whose rows Citus keeps on other servers.
 */
#ifndef ATP_DISTRIBUTED_H
#define ATP_DISTRIBUTED_H

#include "postgres.h"

/*
 * Does Citus keep this table's rows?  Where there is Citus, the table is locked as for
 * writing, so that it remains as it is.  ERROR that stops a subscription if it does and is
 * not loaded: whatever is written then goes where nobody finds it.
 */
extern bool atp_is_distributed(Oid relid);

/* Has this database Citus, and is it loaded? */
extern bool atp_has_citus(void);

/* ERROR likewise if that is so of one of the data tables in this schema. */
extern void atp_check_distributed(const char *target);

/* The same as a text, palloc'd; NULL: it is not so. */
extern char *atp_distributed_fault(const char *target);

/*
 * Have each node commit what it has prepared, and does not know to be committed: that would be missing there.  If the
 * role may not have this done, it has to trust that nothing is.
 */
extern void atp_settle_prepared(void);

#endif							/* ATP_DISTRIBUTED_H */
