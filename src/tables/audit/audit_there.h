/*
 * audit_there.h
 *		Audits of tables that Citus keeps: the node with the rows builds the tree.
 */
#ifndef ATP_AUDIT_THERE_H
#define ATP_AUDIT_THERE_H

#include "postgres.h"

#include "tables/audit/audit.h"

typedef struct AtpAuditFound
{
	int64		records;
	struct varlena *root;		/* NULL: the rows form no tree */
	bool		fit;			/* no row is invalid by itself */
} AtpAuditFound;

/* Are the target's repositories on Citus' nodes, each together with its records? */
extern bool atp_audit_is_there(const char *target);

/*
 * Read a repository's row and the root of its records, by a single statement that the node with
 * both answers from a single snapshot.  False: no such repository; audit is unchanged.
 */
extern bool atp_audit_ask(const char *target, bool deep, AtpArg did, AtpAudit *audit, AtpAuditFound *found);

#endif							/* ATP_AUDIT_THERE_H */
