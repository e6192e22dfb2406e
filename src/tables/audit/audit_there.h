/*
 * audit_there.h
 *		Audits where the rows are: of tables that Citus keeps on other servers.
 */
#ifndef ATP_AUDIT_THERE_H
#define ATP_AUDIT_THERE_H

#include "postgres.h"

#include "tables/audit/audit.h"

typedef struct AtpAuditFound
{
	int64		records;
	struct varlena *root;		/* NULL: they are no tree */
	bool		fit;			/* no row is wrong by itself */
} AtpAuditFound;

/* Are this target's repositories on other servers, each with its records? */
extern bool atp_audit_is_there(const char *target);

/*
 * The state of a repository and its records' root, by one statement, which the server
 * that has both answers from one snapshot.  False: there is no such repository; audit
 * is then as it was.
 */
extern bool atp_audit_ask(const char *target, bool deep, AtpArg did, AtpAudit *audit, AtpAuditFound *found);

#endif							/* ATP_AUDIT_THERE_H */
