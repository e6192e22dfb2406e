/*
 * job.h
 *		Repositories that are to be fetched: rows of atproto.repo_job.
 */
#ifndef ATP_JOB_H
#define ATP_JOB_H

#include "postgres.h"

#include "config/subscription.h"

typedef enum AtpJobPriority
{
	ATP_JOB_USER,				/* somebody asked for it */
	ATP_JOB_BREAK,				/* it is followed, and not in step */
	ATP_JOB_SEEN,				/* something of it came */
	ATP_JOB_LISTED				/* a list has it */
} AtpJobPriority;

/* One that is to be fetched. */
typedef struct AtpJobWish
{
	struct varlena *did;
	AtpJobPriority priority;
	const char *reason;
	const char *listed_by;		/* the list of a host; NULL: none */
	bool		suspended;		/* it waits until the account is active; a job that is there stays as it is */
} AtpJobWish;

/* the least wait after a failure; a setting. */
extern int	atp_fetch_retry_s;

/* with so many repositories that wait, no lists are read; a setting. */
extern int	atp_fetch_queue;

/* From _PG_init(): the settings. */
extern void atp_job_init(void);

/*
 * The repositories of n DIDs, given in their order, each once, are to be fetched
 * into the target of a subscription.  One that is to be already only gets more
 * urgent.  Returns how many are new or more urgent.  With the rights of the
 * table's owner; SPI is connected.  The caller wakes the fetcher.
 */
extern uint64 atp_jobs_add(const AtpSubscription *sub, struct varlena *const *dids, int n,
						   AtpJobPriority priority, const char *reason);

/* The same, each with its own reason; the target may be another subscription's, too. */
extern uint64 atp_jobs_wish(const char *target, const char *subscription, const AtpJobWish *wishes, int n);

/*
 * of accounts that are gone, nothing is fetched; those that are not active wait until they are, also
 * where they are just being fetched; and those that are active again need not wait for it.
 */
extern void atp_jobs_remove(const char *target, struct varlena *const *dids, int n);
extern void atp_jobs_suspend(const char *target, struct varlena *const *dids, int n);
extern void atp_jobs_resume(const char *target, struct varlena *const *dids, int n);

/* They are not in step, as somebody else than a stream has found: they are to be fetched, if a subscription does so. */
extern void atp_jobs_repair(const char *target, struct varlena *const *dids, int n, AtpJobPriority priority, const char *reason);

/*
 * an owner that has lost the right to fill a target fetches nothing into it, and its jobs keep nobody
 * else's from being done: another subscription of the target gets them.  As the tables' owner, with SPI.
 */
extern void atp_jobs_take_from_unentitled(void);

/* are there as many as there should be?  Those that failed may be far more. */
extern bool atp_jobs_are_many(void);

/* ... of those that one host's list has named? */
extern bool atp_jobs_of_list_are_many(const char *subscription, const char *listed_by);

/* do so many wait for accounts that are not active, as one host's list says, that no more are noted? */
extern bool atp_jobs_of_inactive_are_many(const char *subscription, const char *listed_by);

#endif							/* ATP_JOB_H */
