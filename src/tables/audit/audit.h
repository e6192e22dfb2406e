/*
 * audit.h
 *		Are the records in the tables those that the account has signed? (V-45, V-46)
 *
 * SPI is connected, and a snapshot active.
 */
#ifndef ATP_AUDIT_H
#define ATP_AUDIT_H

#include "postgres.h"

#include "config/spi.h"

/* A repository, and what was found. */
typedef struct AtpAudit
{
	/* as its row has it */
	struct varlena *did;
	bool		has_rev;
	uint64		rev;
	struct varlena *data;		/* NULL: null, or there is no such repository */
	char	   *sync;			/* NULL: null */
	Datum		updated_at;		/* timestamptz; -infinity: null */
	AtpArg		purge_rev;		/* records up to here are about to go ... */
	bool		deleted;		/* ... and since then nothing came */
	/* what was found */
	bool		judged;
	bool		equal;			/* judged, and so it is */
	const char *reason;			/* NULL: equal */
	int64		records;
	struct varlena *root;		/* NULL: no tree was built */
} AtpAudit;

/* What a statement on table repo has to give for one. */
#define ATP_AUDIT_COLUMNS \
	"did, rev, data, sync, purge_rev, COALESCE(deleted_rev OPERATOR(@.=) rev, false) AS deleted," \
	" COALESCE(updated_at, '-infinity') AS updated_at"

/* Rows in the snapshot that is active. */
extern AtpResult atp_audit_look(const char *sql, AtpArg arg);

/* What it points to is in the current memory. */
extern void atp_audit_read(AtpAudit *audit, AtpTuple row);

/* Likewise; NULL: the column is null. */
extern struct varlena *atp_audit_copy(AtpTuple row, const char *column, const char *type);

/* Does a subscription leave out some of the records of its repositories?  Then nobody can judge them. */
extern bool atp_audit_is_filtered(const char *target);

/* For repositories of one target, as long as the snapshot is active. */
typedef struct AtpAuditor AtpAuditor;

extern AtpAuditor *atp_auditor_begin(const char *target, bool deep);

/* One that has been read.  Where Citus keeps the rows, it is read anew, with them. */
extern void atp_audit_judge(AtpAuditor *auditor, AtpAudit *audit);

/* One by its DID. */
extern void atp_audit_one(AtpAuditor *auditor, AtpArg did, AtpAudit *audit);
extern void atp_auditor_end(AtpAuditor *auditor);

#endif							/* ATP_AUDIT_H */
