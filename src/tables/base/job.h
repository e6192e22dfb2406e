/*
 * job.h
 *		Requests to fetch repositories: rows of atproto.repo_job.
 */
#ifndef ATP_JOB_H
#define ATP_JOB_H

#include "postgres.h"

#include "config/spi.h"
#include "config/subscription.h"

/* the most urgent first. */
typedef enum AtpJobPriority
{
	ATP_JOB_USER,				/* a user asked for the repository */
	ATP_JOB_BREAK,				/* the repository is followed, and the tables are out of step with it */
	ATP_JOB_SEEN,				/* an event of the repository came */
	ATP_JOB_LISTED				/* a list of a server names the repository */
} AtpJobPriority;

/* A repository to be fetched. */
typedef struct AtpJobRequest
{
	struct varlena *did;
	AtpJobPriority priority;
	const char *reason;
	const char *listed_by;		/* host whose list names the repository, or NULL */
	bool		suspended;		/* wait until the account is active; an existing job is not suspended by this */
} AtpJobRequest;

/* setting atproto.fetch_retry, the least wait after a failure. */
extern int	atp_fetch_retry_s;

/* setting atproto.fetch_queue, the number of waiting repositories from which on no lists are read. */
extern int	atp_fetch_queue;

/* Defines the settings; called by _PG_init(). */
extern void atp_job_init(void);

/*
 * Request that the repositories of n DIDs (sorted, without duplicates) be fetched into the target of a subscription.
 * a repository that has a job already only becomes more urgent.  Returns how many jobs are new or more urgent.
 * Switches to the table's owner; SPI is connected.  The caller wakes the fetcher.
 */
extern uint64 atp_jobs_add(const AtpSubscription *sub, struct varlena *const *dids, int n,
						   AtpJobPriority priority, const char *reason);

/* atp_jobs_add() with a reason for each repository, and for any target. */
extern uint64 atp_jobs_request(const char *target, const char *subscription, const AtpJobRequest *requests, int n);

/*
 * Before the jobs and status requests of a subscription are handed over: wait for transactions that have requested some,
 * and not yet committed.  Like unsubscribe(), this locks the subscription's row FOR UPDATE.
 */
extern void atp_jobs_await(const char *subscription);

/*
 * Keep the subscription, its name and its target until the end of the transaction.  False: no subscription has the name.
 *
 * A session that removes the subscription or changes its target locks this row first, and then rows of repositories.  So a
 * session that locks a repository, and then writes a row that refers to the subscription, calls this first; consumers do not
 * wait for the row.
 */
extern bool atp_jobs_hold(const char *name);

/*
 * After rows of repo_job or status_request were written for this subscription and this target: has the subscription a different target
 * now?  Then the caller deletes the rows.  Otherwise the target stays until the end of the transaction.
 */
extern bool atp_jobs_are_past(const char *target, const char *subscription);

/*
 * jobs of deleted accounts are removed.  Jobs of inactive accounts are suspended, also while a fetch is
 * running.  Jobs of accounts that are active again run at once.
 */
extern void atp_jobs_remove(const char *target, struct varlena *const *dids, int n);
extern void atp_jobs_suspend(const char *target, struct varlena *const *dids, int n);
extern void atp_jobs_resume(const char *target, struct varlena *const *dids, int n);

/*
 * Request that repositories be fetched that an audit, a status request or a node of Citus, rather than a stream, has
 * found out of step; no effect if no subscription of the target fetches repositories.
 */
extern void atp_jobs_repair(const char *target, struct varlena *const *dids, int n, AtpJobPriority priority, const char *reason);

/*
 * Called before a subscription is deleted, and before any row is locked for this: wait for other sessions that delete a
 * subscription of the same target.  The deletion gives jobs, requests and held events to the target's other subscriptions:
 * two sessions that delete two of them at the same time would each wait for the other's subscription.
 */
extern void atp_jobs_lock_target(const char *name);

/*
 * an owner that has lost the right to fill a target fetches nothing into the target.  Give the jobs of such
 * owners to another subscription of the target, so that the repositories are fetched.  Runs as the tables' owner,
 * with SPI connected.
 */
extern void atp_jobs_take_from_unentitled(void);

/*
 * the owners (an oid[]) whose part of the queue is full: the queue of one owner must not keep the lists of another
 * from being read.  Jobs that failed have a far higher limit.
 */
extern AtpArg atp_jobs_owners_of_many(void);

/* has a host's list used up its share? */
extern bool atp_jobs_of_list_are_many(const char *subscription, const char *listed_by);

/* do too many jobs of a host's list wait for inactive accounts already?  Then no more are added. */
extern bool atp_jobs_of_inactive_are_many(const char *subscription, const char *listed_by);

#endif							/* ATP_JOB_H */
