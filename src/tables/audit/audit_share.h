/*
 * audit_share.h
 *		Audits of some repositories of a target, whose outcome is written down.
 */
#ifndef ATP_AUDIT_SHARE_H
#define ATP_AUDIT_SHARE_H

#include "postgres.h"

#include "config/spi.h"

#define ATP_AUDIT_SHARE	1000	/* repositories in a transaction, at most */

/* What became of those that were audited so far. */
typedef struct AtpAuditCounts
{
	int64		repos;
	int64		records;
	int64		synchronized;
	int64		desynchronized;
	int64		filtered;		/* cannot be judged: a part of their records is left out */
} AtpAuditCounts;

/*
 * Audit repositories of the target that a statement names, from the first one on,
 * until they have taken a share of a transaction; at least one, at most limit.  The
 * statement has one parameter and gives ATP_AUDIT_COLUMNS.  SPI is connected.  How
 * many there were, and in current memory the DID of the last.
 */
extern uint64 atp_audit_share(const char *target, const char *sql, AtpArg arg, int limit,
							  AtpAuditCounts *counts, struct varlena **last);

#endif							/* ATP_AUDIT_SHARE_H */
