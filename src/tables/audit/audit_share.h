/*
 * audit_share.h
 *		Audits some repositories of a target, and writes the results into table repo.
 */
#ifndef ATP_AUDIT_SHARE_H
#define ATP_AUDIT_SHARE_H

#include "postgres.h"

#include "config/spi.h"

#define ATP_AUDIT_SHARE	1000	/* most repositories in a transaction */

/* Results so far. */
typedef struct AtpAuditCounts
{
	int64		repos;
	int64		records;
	int64		synchronized;
	int64		desynchronized;
	int64		filtered;		/* not judged, since a filter leaves out some of their records */
} AtpAuditCounts;

/*
 * Audit the repositories that a statement returns, until the share of a transaction is used up: one
 * repository at least, limit at most.  The statement has a single parameter, and returns
 * ATP_AUDIT_COLUMNS.  SPI must be connected.  Returns the number of repositories; *last: DID of the
 * last, in the current memory context.
 */
extern uint64 atp_audit_share(const char *target, const char *sql, AtpArg arg, int limit,
							  AtpAuditCounts *counts, struct varlena **last);

#endif							/* ATP_AUDIT_SHARE_H */
