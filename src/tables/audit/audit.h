/*
 * audit.h
 *		Audits: are the records in the tables exactly the records that the account has signed?
 *		(V-45, V-46)
 *
 * Call with SPI connected, and an active snapshot.
 */
#ifndef ATP_AUDIT_H
#define ATP_AUDIT_H

#include "postgres.h"

#include "config/spi.h"

/* A repository, and the result of its audit. */
typedef struct AtpAudit
{
	/* from the repository's row */
	struct varlena *did;
	bool		has_rev;
	uint64		rev;
	struct varlena *data;		/* NULL: null, or no such repository */
	char	   *sync;			/* NULL: null */
	Datum		updated_at;		/* timestamptz; -infinity: null */
	AtpArg		purge_rev;		/* records up to this revision are about to be purged ... */
	bool		deleted;		/* ... and no event has come since the deletion */
	/* the result */
	bool		judged;
	bool		equal;			/* judged, and the records are those signed */
	const char *reason;			/* NULL: equal */
	int64		records;
	struct varlena *root;		/* NULL: no tree was built */
} AtpAudit;

/* Columns of table repo that atp_audit_read() needs. */
#define ATP_AUDIT_COLUMNS \
	"did, rev, data, sync, purge_rev, COALESCE(deleted_rev OPERATOR(@.=) rev, false) AS deleted," \
	" COALESCE(updated_at, '-infinity') AS updated_at"

/* Query in the active snapshot. */
extern AtpResult atp_audit_look(const char *sql, AtpArg arg);

/* A query with several parameters, at most ATP_AUDIT_LOOK_ARGS. */
#define ATP_AUDIT_LOOK_ARGS	4

extern AtpResult atp_audit_look_all(const char *sql, const AtpArg *args, int nargs);

/* Read a row of ATP_AUDIT_COLUMNS; values are copied into the current memory context. */
extern void atp_audit_read(AtpAudit *audit, AtpTuple row);

/* A copy of a column's value in the current memory context; NULL: the column is null. */
extern struct varlena *atp_audit_copy(AtpTuple row, const char *column, const char *type);

/* Does a subscription leave out some records of its repositories?  Then no audit can judge the repositories. */
extern bool atp_audit_is_filtered(const char *target);

/* For audits of repositories of a target, as long as the snapshot is active. */
typedef struct AtpAuditor AtpAuditor;

extern AtpAuditor *atp_auditor_begin(const char *target, bool deep);

/*
 * Audit a repository after atp_audit_read().  If Citus keeps the rows, the repository's row is read
 * again, together with the records.
 */
extern void atp_audit_judge(AtpAuditor *auditor, AtpAudit *audit);

/* Read and audit the repository of this DID. */
extern void atp_audit_one(AtpAuditor *auditor, AtpArg did, AtpAudit *audit);
extern void atp_auditor_end(AtpAuditor *auditor);

#endif							/* ATP_AUDIT_H */
