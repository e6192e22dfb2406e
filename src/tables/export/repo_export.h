/*
 * repo_export.h
 *		What an export does to the state of its repository.
 */
#ifndef ATP_REPO_EXPORT_H
#define ATP_REPO_EXPORT_H

#include "tables/export/export.h"
#include "tables/base/sink.h"

typedef struct AtpRepoExport AtpRepoExport;

typedef enum AtpRefusal
{
	ATP_REFUSED_NOT,
	ATP_REFUSED_INACTIVE,		/* while the account is not active */
	ATP_REFUSED_WAITING,		/* while others are at it */
	ATP_REFUSED_OLD,			/* this export; R-50 */
	ATP_REFUSED_CHANGED			/* it was read for another filter, or another role, than are set now */
} AtpRefusal;

/* Lock the repository, with a row made for it if there is none. */
extern AtpRepoExport *atp_repo_export_begin(AtpApply *a, struct varlena *did);

/*
 * Can the export be taken, or (commit NULL) one be fetched?  held: that was
 * asked before, and the repository has been kept for it.  *why is said in words.
 */
extern AtpRefusal atp_repo_export_refused(AtpRepoExport *r, const AtpCommit *commit, bool force, bool held, const char **why);

/* The #account event that the tables know of. */
typedef struct AtpAccountSaid
{
	bool		has_at;
	TimestampTz at;
	bool		has_seq;
	int64		seq;
} AtpAccountSaid;

extern AtpAccountSaid atp_repo_export_account(const AtpRepoExport *r);

/*
 * its server, this host, says that the account is not active; that is stored by what follows.
 * Not where an #account came since that one, which knows better.  At level full, that it is deleted
 * is asked of its own server, or has just been (V-47).  Is the account active?
 */
extern bool atp_repo_export_inactive(AtpRepoExport *r, const AtpAccountSaid *then, const char *status, const char *host);

/* its events are kept back from now on. */
extern void atp_repo_export_hold(AtpRepoExport *r);

/* They are not any longer, and no export came.  What is there of one goes if the account is gone. */
extern void atp_repo_export_release(AtpRepoExport *r, uint64 rev);

/*
 * its records are in the tables.  verified: the account has signed it.  False: events of the
 * repository were lost meanwhile, and another export is needed.
 */
extern bool atp_repo_export_end(AtpRepoExport *r, const AtpExport *e, bool verified);

#endif							/* ATP_REPO_EXPORT_H */
