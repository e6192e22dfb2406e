/*
 * target.h
 *		Targets: the schemas with the tables that subscriptions fill, and which
 *		roles may fill them.
 */
#ifndef ATP_TARGET_H
#define ATP_TARGET_H

#include "postgres.h"

/* Names of the data tables; ends with NULL.  tables/table.h describes the tables. */
extern const char *const atp_target_tables[];

/*
 * May this role fill the tables of this schema?  A role may that has SELECT, INSERT,
 * UPDATE and DELETE on each data table that the schema has; where the schema has
 * none, CREATE on the schema; where there is no such schema, CREATE on the database.
 * Each of these tables must belong to the role itself, or to somebody whom the role
 * has to trust anyway: otherwise the table's triggers would run as that role.
 *
 * Inside a transaction.  Reads the caches of the catalog only.
 */
extern bool atp_role_may_fill(Oid role, const char *target);

/* NULL when the role may; otherwise one sentence that says why not, palloc'd. */
extern char *atp_target_fault(Oid role, const char *target);

/* An ERROR with SQLSTATE 42501 unless the role may. */
extern void atp_target_check(Oid role, const char *target);

/*
 * For a process that fills one target as one role: also why the schema is not the one any more that the
 * process began to fill.
 */
extern char *atp_target_fault_here(Oid role, const char *target);

/*
 * For a process that fills one target as one role: the same, but the catalog is read only
 * when rights may have changed since this process asked last.
 */
extern char *atp_target_fault_since(Oid role, const char *target);

#endif							/* ATP_TARGET_H */
