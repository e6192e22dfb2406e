/*
 * repo_rows.h
 *		Jobs of repositories that are to be fetched, as atproto.repo_job has them, and
 *		what happens to their repositories meanwhile.
 *
 * All of it in a transaction of the fetcher, with SPI connected.
 */
#ifndef ATP_REPO_ROWS_H
#define ATP_REPO_ROWS_H

#include "config/subscription.h"
#include "tables/export/export.h"
#include "tables/export/merge.h"
#include "tables/export/repo_export.h"

/* who is asked for the repositories of a row s of atproto.subscription. */
#define ATP_REPO_SOURCE	"COALESCE(s.repo_source, CASE WHEN s.verify = 'full' OR NOT s.serves_repos THEN 'pds' ELSE 'upstream' END)"

/* ... of an account whose row of atproto.identity, if there is one, is i: scheme and host; NULL: nobody knows. */
#define ATP_REPO_SERVER \
	"CASE WHEN " ATP_REPO_SOURCE " = 'upstream' THEN regexp_replace(s.endpoint, '^ws(s?://[^/]+)/.*$', 'http\\1')" \
	" WHEN " ATP_REPO_SOURCE " <> 'pds' THEN " ATP_REPO_SOURCE \
	" WHEN i.pds LIKE 'http://%' THEN i.pds WHEN i.pds IS NOT NULL THEN 'https://' || i.pds END"

typedef struct AtpRepoJob
{
	char	   *target;
	struct varlena *did;
	char	   *did_text;
	char	   *subscription;
	char	   *server;			/* URL of who is asked; NULL: nobody knows yet */
	bool		at_pds;			/* that is the account's own server */
	char	   *host;			/* its name, or that of who was asked last; NULL: nobody has looked */
	bool		urgent;
	bool		force;
	bool		broke;			/* it is not in step */
	bool		by_itself;		/* nobody asked for it */
	bool		too_often;		/* it was fetched by itself */
	bool		asks;			/* its identity is to be looked up before */
	Oid			owner;			/* of the subscription */
	bool		locked;			/* by a session, when it was to begin */
	AtpAccountSaid account;		/* before it was asked for */
	const char *problem;		/* why nobody can be asked; NULL: somebody can */
} AtpRepoJob;

typedef enum AtpRepoFault
{
	ATP_REPO_FAULT,				/* tried again later, each time more so */
	ATP_REPO_LATER,				/* no fault of the repository: tried again soon */
	ATP_REPO_DOUBTED,			/* what is known of its account may be old: tried again when that has been read again (W-36) */
	ATP_REPO_NOTED				/* its job says so already, or is not ours any more */
} AtpRepoFault;

/* Is any outstanding? */
extern bool atp_repo_jobs_wanted(void);

/*
 * what is marked as running, but is not among these n, is tried again, and that
 * counts as a failure, with this error: the last fetcher ended, or a session had locked
 * the job when its fetch ended, and may have it locked still: then it is the next time.
 */
extern void atp_repo_jobs_reset(const AtpRepoJob **running, int n, const char *error);

/*
 * Whoever is to be asked for jobs that are new is written down, or the account's identity is
 * looked up.  Returns those for which there is nobody.  *placed: how many can be fetched now.
 */
extern List *atp_repo_jobs_place(int max, int *placed);

/* Jobs that are due, of which that is known, the most urgent first, but of these hosts and owners; in the current memory. */
extern List *atp_repo_jobs_due(char **hosts, int nhosts, const Oid *owners, int nowners, int max);

/* It is being fetched, as its job has it: nobody has suspended or removed that. */
extern bool atp_repo_job_is_running(const AtpRepoJob *job);

/* Another host is asked for it than was written down; NULL: that has to be found anew. */
extern void atp_repo_job_moves(const AtpRepoJob *job, const char *host);

/*
 * In the tables of the subscription's owner, as he.
 *
 * from the commit on nobody else writes its records.  ATP_REFUSED_NOT: it has
 * begun, at this host.  ATP_REFUSED_INACTIVE: it is suspended.
 */
extern AtpRefusal atp_repo_job_begin(AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set,
									 const char *host, const char **why);

/* Likewise.  The same question, before the export's rows are touched. */
extern AtpRefusal atp_repo_job_look(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set,
									const AtpCommit *commit, const char **why);

/*
 * Likewise.  R-13: this host says that the account has this status: its events are let go.  True: the
 * account is not active, as that or a newer #account says, and the job is suspended.
 */
extern bool atp_repo_job_inactive(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set,
								  const char *status, const char *host);

/* Likewise.  What was begun has failed: its events are not kept back any longer.  rev: of the export, of which some may be in the tables; 0: none. */
extern void atp_repo_job_release(const AtpRepoJob *job, const AtpSubscription *sub, AtpStatements *set, uint64 rev);

/* It is to be tried again. */
extern void atp_repo_job_failed(const AtpRepoJob *job, const char *error, AtpRepoFault fault);

/*
 * the export is in the tables; R-65: it has so many records and bytes.  A job that a
 * session has locked, which asks for it, stays, and is done again (atp_repo_jobs_reset()).
 */
extern void atp_repo_job_done(const AtpRepoJob *job, int64 records, int64 bytes);

#endif							/* ATP_REPO_ROWS_H */
