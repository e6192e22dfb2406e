/*
 * target.h
 *		Targets: the schemas with the tables that subscriptions fill, and which
 *		roles may fill them.
 */
#ifndef ATP_TARGET_H
#define ATP_TARGET_H

#include "postgres.h"

#include "config/owner.h"
#include "config/subscription.h"
#include "nodes/pg_list.h"

/* Names of the data tables; ends with NULL.  tables/base/table.h describes the tables. */
extern const char *const atp_target_tables[];

/*
 * known: the owner of the schema when the subscription named the schema (AtpSubscription.target_owner), or
 * InvalidOid if there was no such schema.
 *
 * May this role fill the tables of this schema?  The role needs SELECT, INSERT, UPDATE and DELETE on each
 * data table in the schema; if the schema has no data table, CREATE on the schema; if the schema does not
 * exist, CREATE on the database.  Each data table must belong to the role itself or to a role it has to trust
 * anyway: otherwise the triggers of a stranger's table would run with the role's rights.  For the same reason
 * the schema must belong to known, to a superuser, or to a role of which this role is a member.
 *
 * Call inside a transaction.  Reads only the catalog caches.
 */
extern bool atp_role_may_fill(Oid role, const char *target, Oid known);

/* NULL when the role may; otherwise a sentence with the reason, palloc'd. */
extern char *atp_target_fault(Oid role, const char *target, Oid known);

/*
 * A role names this schema as target of a subscription: an ERROR with SQLSTATE 42501 unless the role may fill
 * the schema, whoever owns the schema.  Returns the schema's owner, or InvalidOid if the schema does not exist.
 */
extern Oid	atp_target_check(Oid role, const char *target);

/* Does the schema belong to a role whom this subscriber has not named, and need not trust? */
extern bool atp_target_is_strange(Oid role, const char *target, Oid known);

/* An ERROR with SQLSTATE 42501 unless the role may.  For a caller that has locked the target's tables. */
extern void atp_target_require(Oid role, const char *target, Oid known);

/*
 * Like atp_target_require(), for a caller that locks the tables later: until the end of the transaction nobody
 * drops the schema.  DROP SCHEMA locks the schema before its tables, too, so there is no deadlock.
 */
extern void atp_target_hold(Oid role, const char *target, Oid known);

/* Hold the target, and act as the subscription's owner until atp_owner_end(). */
extern AtpCaller atp_target_begin(const AtpSubscription *sub);

/*
 * For a process that fills one target as one role: like atp_target_fault(), but reads the catalog only when
 * rights may have changed since the last call.
 */
extern char *atp_target_fault_since(Oid role, const char *target, Oid known);

/*
 * Are the values of records in this schema of the type dagcbor?  The column value of the table record tells; without the
 * column the answer is false.  Call inside a transaction.  Reads only the catalog caches.
 */
extern bool atp_target_packs(const char *target);

/* Why a subscription of repositories cannot have keep_raw in this target; NULL: it can. */
extern char *atp_target_raw_fault(const char *target);

/* A table or view of the target; InvalidOid: there is none, or no such schema.  Call inside a transaction. */
extern Oid	atp_target_relid(const char *target, const char *name);

/*
 * The names of all targets in the order of the names: the schemas with a table repo that create_tables() has made, whoever
 * owns the schema, and whether or not a subscription fills the schema.  only: no schema but this one; NULL: all.  SPI must
 * be connected.  The list is in the current memory context.
 */
extern List *atp_targets(const char *only);

/* InvalidOid: the schema is gone. */
extern Oid	atp_owner_of_schema(Oid schema);

#endif							/* ATP_TARGET_H */
