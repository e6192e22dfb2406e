/*
 * process.h
 *		Code shared by all background processes of the extension.
 */
#ifndef ATP_PROCESS_H
#define ATP_PROCESS_H

#include "postgres.h"

#include "config/subscription.h"
#include "postmaster/bgworker.h"

#define ATP_STATS_DELAY_MS	1000	/* idle time after which PostgreSQL's statistics are reported */

/*
 * Fill in *worker for registration: named "TYPE NAME", running a function of this library once the server
 * accepts writes, not restarted.  All other fields are zero.
 */
extern void atp_process_describe(BackgroundWorker *worker, const char *type, const char *name,
								 const char *function);

/* Call first in a process, before connecting to a database. */
extern void atp_process_begin(void);

/*
 * Call after connecting: sets application_name, and a search_path in which no other role can put objects
 * first.
 */
extern void atp_process_connected(const char *appname);

/*
 * From now on, report an ERROR or FATAL that ends this process, unless a user wanted the process to end.
 * Also works before connecting.
 */
extern void atp_process_report_end(void (*report) (const char *error));

/* For a process that the postmaster restarts after a failure: do not restart after its database was dropped. */
extern void atp_process_ends_with_database(void);

/*
 * Stop a subscription until an operator decides.  False: the row was changed since it was read, so nothing is
 * stopped.
 */
extern bool atp_process_stop_subscription(const AtpSubscription *sub, const char *reason);

#endif							/* ATP_PROCESS_H */
