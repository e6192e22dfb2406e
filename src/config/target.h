/*
 * target.h
 *		Targets: the schemas with the tables that subscriptions fill, and which
 *		roles may fill them.
 */
#ifndef ATP_TARGET_H
#define ATP_TARGET_H

#include "postgres.h"

/* Names of the data tables; ends with NULL.  tables/base/table.h describes the tables. */
extern const char *const atp_target_tables[];

/*
 * May this role fill the tables of this schema?  The role needs SELECT, INSERT, UPDATE and DELETE on each
 * data table in the schema; if the schema has no data table, CREATE on the schema; if the schema does not
 * exist, CREATE on the database.  Each data table must belong to the role itself or to a role it has to trust
 * anyway: otherwise the triggers of a stranger's table would run with the role's rights.
 *
 * Call inside a transaction.  Reads only the catalog caches.
 */
extern bool atp_role_may_fill(Oid role, const char *target);

/* NULL when the role may; otherwise a sentence with the reason, palloc'd. */
extern char *atp_target_fault(Oid role, const char *target);

/* An ERROR with SQLSTATE 42501 unless the role may. */
extern void atp_target_check(Oid role, const char *target);

/*
 * For a process that fills one target as one role: like atp_target_fault(), and also reports that the schema
 * belongs to a different role than when the process began to fill it, unless the process's role has to trust
 * this role anyway.  After DROP SCHEMA, a stranger may have made a schema of the same name.
 */
extern char *atp_target_fault_here(Oid role, const char *target);

/*
 * Like atp_target_fault_here(), but reads the catalog only when rights may have changed since the last call.
 */
extern char *atp_target_fault_since(Oid role, const char *target);

#endif							/* ATP_TARGET_H */
