/*
 * repo_export.h
 *		Changes the row of table repo when an export is fetched, fails, or was written (R-50,
 *		
 */
#ifndef ATP_REPO_EXPORT_H
#define ATP_REPO_EXPORT_H

#include "tables/export/export.h"
#include "tables/base/sink.h"

typedef struct AtpRepoExport AtpRepoExport;

typedef enum AtpRefusal
{
	ATP_REFUSED_NOT,
	ATP_REFUSED_INACTIVE,		/* the account is not active */
	ATP_REFUSED_WAITING,		/* events are held for a different reason, or were released by a
								 * session, or records are being purged */
	ATP_REFUSED_OLD,			/* the export is older than the stored repository */
	ATP_REFUSED_BEHIND,			/* H-43: the export is older than what an archive has shown */
	ATP_REFUSED_REMOVED,		/* the job was removed: the account was deleted, for example */
	ATP_REFUSED_CHANGED			/* the subscription's filter or owner, or the type of the values, has changed since the export
								 * was requested */
} AtpRefusal;

/* Lock the row of the repository; the row is created if missing. */
extern AtpRepoExport *atp_repo_export_begin(AtpApply *a, struct varlena *did);

/*
 * May the export with this commit be written, or (commit NULL) an export be fetched?  held:
 * atp_repo_export_hold() was called for this fetch.  *why: the reason as text.
 */
extern AtpRefusal atp_repo_export_refused(AtpRepoExport *r, const AtpCommit *commit, bool force, bool held, const char **why);

/* The revision of the repository's row; 0: none. */
extern uint64 atp_repo_export_rev(const AtpRepoExport *r);

/* P-50: the rows are not the account's: a synchronized or unproven repository becomes desynchronized. */
extern void atp_repo_export_differs(AtpRepoExport *r);

/* The #account event that the repository's row is based on. */
typedef struct AtpAccountSaid
{
	bool		has_at;
	TimestampTz at;
	bool		has_seq;
	int64		seq;
} AtpAccountSaid;

extern AtpAccountSaid atp_repo_export_account(const AtpRepoExport *r);

/*
 * the server at this host says that the account is not active.  The status is not taken if an
 * #account came after "then", which is newer.  With verify = full, a deletion must be confirmed by
 * the account's own server (V-47), unless that has just been done.  The caller stores the row
 * (atp_repo_export_release()).  Returns whether the account is active.
 */
extern bool atp_repo_export_inactive(AtpRepoExport *r, const AtpAccountSaid *then, const char *status, const char *host);

/* R-04, F-11: hold the repository's events from now on. */
extern void atp_repo_export_hold(AtpRepoExport *r);

/*
 * A fetch has failed: release the held events, and store the row.  rev: revision of the export
 * whose rows may be in the tables (0: no rows); if the account is deleted, these rows are purged.
 */
extern void atp_repo_export_release(AtpRepoExport *r, uint64 rev);

/*
 * R-55, P-23: the export's records are in the tables.  verified: the signature was checked; M-40: with this former key of the
 * account (NULL: with the present key).  False: events of the repository were lost meanwhile, and a second export is needed.
 */
extern bool atp_repo_export_end(AtpRepoExport *r, const AtpExport *e, bool verified, const uint8_t *former_key);

#endif							/* ATP_REPO_EXPORT_H */
