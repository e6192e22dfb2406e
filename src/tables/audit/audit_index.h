/*
 * audit_index.h
 *		Reads the records of a repository in the tree's order, by the primary key of an ordinary
 *		table.
 */
#ifndef ATP_AUDIT_INDEX_H
#define ATP_AUDIT_INDEX_H

#include "postgres.h"

#include "tables/audit/audit_rows.h"

typedef struct AtpAuditIndex AtpAuditIndex;

/*
 * Open; NULL: the table has to be read by a statement.  The caller has checked that the current
 * user may read the table, has locked the table, and knows that no extension keeps the rows
 * elsewhere.
 */
extern AtpAuditIndex *atp_audit_index_open(Oid relid, bool with_values);
extern void atp_audit_index_close(AtpAuditIndex *index);
extern void atp_audit_index_of(AtpAuditIndex *index, Datum did, AtpArg purge_rev);
extern bool atp_audit_index_next(AtpAuditIndex *index, AtpAuditRow *row);

#endif							/* ATP_AUDIT_INDEX_H */
