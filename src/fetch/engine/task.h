/*
 * task.h
 *		A kind of work that the fetcher does: what process/manager/fetcher.c calls, and
 *		nothing more that it knows of it.
 *
 * To add one: an AtpErrand, declared here, and its row in errands[] of
 * process/manager/fetcher.c.
 */
#ifndef ATP_TASK_H
#define ATP_TASK_H

#include "postgres.h"

#include "common/clock.h"

typedef struct AtpErrand
{
	const char *name;			/* what pg_stat_activity and statistics call it */

	/*
	 * Is there something to do, now or at some time?  Asked in a transaction of
	 * the manager, which then starts the fetcher, or of the fetcher, which ends
	 * when nobody wanted it for a minute.  SPI is connected; cheap: an index, or
	 * a small table.
	 */
	bool		(*wanted) (void);

	/* Once, when the process begins; no transaction is open.  NULL: nothing to begin. */
	void		(*begin) (void);

	/*
	 * Look for work, in transactions of its own (atp_begin(), atp_commit()), each
	 * below a second; start requests through fetch.h; take those that have ended
	 * and write what they brought.  Never waits.  Called in each round of the loop:
	 * when a request has ended, when somebody called atp_wake_fetcher(), and when
	 * the time is over that it returned last: milliseconds, -1 for none.  The
	 * current context is reset after it.  An ERROR ends the process.
	 */
	long		(*step) (AtpTime now);
} AtpErrand;

extern const AtpErrand atp_identity_errand;
extern const AtpErrand atp_audit_errand;
extern const AtpErrand atp_repo_errand;
extern const AtpErrand atp_list_errand;
extern const AtpErrand atp_status_errand;
extern const AtpErrand atp_handle_errand;
extern const AtpErrand atp_question_errand;
extern const AtpErrand atp_dictionary_errand;

#ifdef ATP_INJECTION_POINTS
extern const AtpErrand atp_probe_errand;	/* of tests */
#endif

#endif							/* ATP_TASK_H */
