/*
 * repo_rows.h
 *		Rows of atproto.repo_job: which repositories are to be fetched, and how a job begins, fails
 *		and ends in the table and in the owner's table repo.  The transfer itself is in
 *		repo_transfer.c.
 *
 * Call in a transaction of the fetcher, with SPI connected.
 */
#ifndef ATP_REPO_ROWS_H
#define ATP_REPO_ROWS_H

#include "config/subscription.h"
#include "tables/export/export.h"
#include "tables/export/merge.h"
#include "tables/export/repo_export.h"

/*
 * the source of the repositories of a row s of atproto.subscription: 'pds', 'upstream' or a
 * URL.
 */
#define ATP_REPO_SOURCE	"COALESCE(s.repo_source, CASE WHEN s.verify = 'full' OR NOT s.serves_repos THEN 'pds' ELSE 'upstream' END)"

/*
 * The server of an account with row i of atproto.identity (i may be null): scheme and host; NULL:
 * not known.
 */
#define ATP_REPO_SERVER \
	"CASE WHEN " ATP_REPO_SOURCE " = 'upstream' THEN regexp_replace(s.endpoint, '^ws(s?://[^/]+)/.*$', 'http\\1')" \
	" WHEN " ATP_REPO_SOURCE " <> 'pds' THEN " ATP_REPO_SOURCE \
	" WHEN i.pds LIKE 'http://%' THEN i.pds WHEN i.pds IS NOT NULL THEN 'https://' || i.pds END"

/*
 * SQL: the host of a row j of atproto.repo_job, also before the job has a host; NULL: not known.  Without the port, as in
 * j.host: the ports of a server are not several hosts.
 */
#define ATP_REPO_HOST	"COALESCE(j.host, lower(substring(" ATP_REPO_SERVER " FROM '^https?://(\\[[^]]*\\]|[^/:]+)')))"

typedef struct AtpRepoJob
{
	char	   *target;
	struct varlena *did;
	char	   *did_text;
	char	   *subscription;
	char	   *server;			/* URL of the server; NULL: not known yet */
	bool		at_pds;			/* the server is the account's own */
	char	   *host;			/* host of the server, or of the last request; NULL: not determined
								 * yet */
	bool		urgent;
	bool		force;
	bool		broke;			/* the repository is not in step */
	bool		by_itself;		/* no user asked for the repository */
	bool		too_often;		/* the repository was fetched too often without a user's request
								 * (R-06) */
	bool		asks;			/* the identity has to be looked up first */
	bool		parts;			/* P-30: the subscription's collections may be fetched instead of the whole */
	bool		only_parts;		/* ... and never the whole */
	bool		expects_none;	/* P-02: nothing says that the account has records of these collections */
	bool		whole;			/* P-61: fetching parts has failed, so that the next try fetches the whole */
	Oid			owner;			/* owner of the subscription */
	bool		locked;			/* a session had locked the job's row when the fetch was to begin */
	AtpAccountSaid account;		/* the account's status before the server was asked */
	const char *problem;		/* why no server can be asked; NULL: no problem */
} AtpRepoJob;

typedef enum AtpRepoFault
{
	ATP_REPO_FAULT,				/* tried again later, after a longer pause each time */
	ATP_REPO_LATER,				/* no fault of the repository: tried again, soon at first */
	ATP_REPO_WAITS,				/* ... and no host was asked: events wait, or a session has locked rows */
	ATP_REPO_DOUBTED,			/* the account's identity may be old: tried again after a look-up of
								 * the identity (W-36) */
	ATP_REPO_NOTED				/* the job has been updated already, or has been removed */
} AtpRepoFault;

/* Is any job outstanding? */
extern bool atp_repo_jobs_wanted(void);

/*
 * jobs in state running that are not among these n are queued again, which counts as a
 * failure with this error.  Such a job was left by a fetcher that ended, or was locked by a session
 * when its fetch ended; if still locked, the job waits for the next call.
 */
extern void atp_repo_jobs_reset(const AtpRepoJob **running, int n, const char *error);

/*
 * Determine the server of new jobs, or queue a look-up of the account.  Returns jobs for which no
 * server can be asked.  *placed: how many jobs can be fetched now.
 */
extern List *atp_repo_jobs_place(int max, int *placed);

/*
 * Due jobs whose host is known, except jobs of these hosts and owners: in turn from the owners of
 * the subscriptions, most urgent first within an owner; in the current memory context.
 */
extern List *atp_repo_jobs_due(char **hosts, int nhosts, const Oid *owners, int nowners, int max);

/*
 * Is the job still in state running?  False: a session or consumer has suspended or removed the
 * job.
 */
extern bool atp_repo_job_is_running(const AtpRepoJob *job);

/*
 * Lock a running job until the end of the transaction, so that the job cannot be removed before the
 * transaction's rows are visible.  False: the job was removed or suspended, or is being removed.
 */
extern bool atp_repo_job_lock(const AtpRepoJob *job);

/* Write the host that is asked instead of the host in the row; NULL: determine the server again. */
extern void atp_repo_job_moves(const AtpRepoJob *job, const char *host);

/*
 * Begin a fetch in the tables of the subscription's owner; call as the owner.
 *
 * from the commit on, no consumer writes the repository's records: its events are held.
 * ATP_REFUSED_NOT: the fetch has begun, from this host.  ATP_REFUSED_INACTIVE: the job is
 * suspended.
 */
extern AtpRefusal atp_repo_job_begin(AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set,
									 const char *host, const char **why);

/*
 * May the export with this commit still be written?  Called as the owner, before the export's rows
 * are written.
 */
extern AtpRefusal atp_repo_job_look(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set,
									const AtpCommit *commit, const char **why);

/*
 * the host says that the account has this status.  Called as the owner; releases the held
 * events.  True: the account is not active, by this status or by a newer #account, and the job is
 * suspended.
 */
extern bool atp_repo_job_inactive(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set,
								  const char *status, const char *host);

/*
 * A fetch that had begun has failed: release the held events.  Called as the owner.  rev: revision
 * of the export, if some of its rows may be in the tables; 0: no row is.
 */
extern void atp_repo_job_release(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set, uint64 rev);

/* The fetch has failed: when is the job tried again? */
extern void atp_repo_job_failed(const AtpRepoJob *job, const char *error, AtpRepoFault fault);

/*
 * the export is in the tables.  Deletes the job, and counts records and bytes.  A job
 * locked by a session that asks for the repository stays, and is done again
 * (atp_repo_jobs_reset()).
 */
extern void atp_repo_job_done(const AtpRepoJob *job, int64 records, int64 bytes);

#endif							/* ATP_REPO_ROWS_H */
