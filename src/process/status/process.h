/*
 * process.h
 *		What the extension's background processes have in common.
 */
#ifndef ATP_PROCESS_H
#define ATP_PROCESS_H

#include "postgres.h"

#include "config/subscription.h"
#include "postmaster/bgworker.h"

#define ATP_STATS_DELAY_MS	1000	/* of rest, until PostgreSQL's statistics are told */

/*
 * Describe a process, to be registered: "TYPE NAME", which runs a function of
 * this library once the server takes writes.  It is not restarted; the rest is
 * zero.
 */
extern void atp_process_describe(BackgroundWorker *worker, const char *type, const char *name,
								 const char *function);

/* First of all in the process, which has no database yet. */
extern void atp_process_begin(void);

/* When it has one: application_name, and a search_path that finds nothing of others. */
extern void atp_process_connected(const char *appname);

/*
 * From now on an ERROR or FATAL that ends this process is reported so, unless
 * somebody wanted it to end.  Before there is a connection to the database, too.
 */
extern void atp_process_report_end(void (*report) (const char *error));

/*
 * The postmaster starts this process again when it fails: not when its database
 * has been dropped.
 */
extern void atp_process_ends_with_database(void);

/* An operator has to decide.  False: the row is another than the one that was read, so nothing is stopped. */
extern bool atp_process_stop_subscription(const AtpSubscription *sub, const char *reason);

#endif							/* ATP_PROCESS_H */
