/*
 * audit_index.h
 *		The records of a repository in the tree's order, by the primary key of an
 *		ordinary table.
 */
#ifndef ATP_AUDIT_INDEX_H
#define ATP_AUDIT_INDEX_H

#include "postgres.h"

#include "tables/audit/audit_rows.h"

typedef struct AtpAuditIndex AtpAuditIndex;

/*
 * NULL: an SQL statement has to read this table.  The current user is known to have
 * the right to read it, it is locked, and no extension keeps its rows elsewhere.
 */
extern AtpAuditIndex *atp_audit_index_open(Oid relid, bool with_values);
extern void atp_audit_index_close(AtpAuditIndex *index);
extern void atp_audit_index_of(AtpAuditIndex *index, Datum did, AtpArg purge_rev);
extern bool atp_audit_index_next(AtpAuditIndex *index, AtpAuditRow *row);

#endif							/* ATP_AUDIT_INDEX_H */
