/*
 * task.h
 *		A task (AtpTask) is a kind of work of the fetcher.  process/manager/fetcher.c calls the
 *		functions of an AtpTask, and knows nothing else of the task.
 *
 * To add a task: an AtpTask, declared here, and its row in tasks[] of
 * process/manager/fetcher.c.
 */
#ifndef ATP_TASK_H
#define ATP_TASK_H

#include "postgres.h"

#include "common/clock.h"

typedef struct AtpTask
{
	const char *name;			/* the task's name in pg_stat_activity and in the statistics */

	/*
	 * Is there work, now or at a later time?  The manager calls this in a transaction, and starts
	 * the fetcher if any task has work; the fetcher calls this too, and ends after a minute in
	 * which no task had work.  SPI is connected.  Must be cheap: an index, or a small table.
	 */
	bool		(*wanted) (void);

	/* Called once, when the process begins; no transaction is open.  NULL: nothing to begin. */
	void		(*begin) (void);

	/*
	 * Look for work, in transactions of the task's own (atp_begin(), atp_commit()), each below a
	 * second; start requests through fetch.h; take the requests that have ended, and write the
	 * results.  Never wait here: all tasks share the process.  The fetcher's loop calls step() when
	 * a request has ended, after atp_wake_fetcher(), and when the time has passed that step()
	 * returned last: milliseconds, -1 for none.  The loop resets the current memory context
	 * afterwards.  An ERROR ends the process.
	 */
	long		(*step) (AtpTime now);

	/*
	 * How many kinds of HTTP requests the task starts: each has a reserve (request_share.h).  A kind
	 * for each owner of requests, and one more if the owner starts requests with limits of its own,
	 * too (atp_fetch_start()).
	 */
	int			kinds;
} AtpTask;

extern const AtpTask atp_settings_task;
extern const AtpTask atp_clock_task;
extern const AtpTask atp_identity_task;
extern const AtpTask atp_audit_task;
extern const AtpTask atp_repo_task;
extern const AtpTask atp_prove_task;
extern const AtpTask atp_list_task;
extern const AtpTask atp_status_task;
extern const AtpTask atp_handle_task;
extern const AtpTask atp_plc_log_task;
extern const AtpTask atp_server_info_task;
extern const AtpTask atp_dictionary_task;

/* A further task, set by a file of test/ that a build for tests links in; NULL in the product. */
extern const AtpTask *atp_task_for_tests;

#endif							/* ATP_TASK_H */
