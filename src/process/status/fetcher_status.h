/*
 * fetcher_status.h
 *		Live status of the fetchers in shared memory, for the view atproto.stat_fetcher.
 */
#ifndef ATP_FETCHER_STATUS_H
#define ATP_FETCHER_STATUS_H

#include "postgres.h"

/* From _PG_init(): registers the shared memory. */
extern void atp_fetcher_status_init(void);

/* In a fetcher: record errors that end this process, from before the connection to the database on. */
extern void atp_fetcher_status_report_end(Oid database);

/* In a fetcher that holds the claim: begin the entry of this database. */
extern void atp_fetcher_status_begin(void);

/* In the fetcher: publish the counts, and the number of running requests. */
extern void atp_fetcher_status_tell(void);

/* In the manager: record whether there is work without a fetcher. */
extern void atp_fetcher_status_wanted(bool wanted);

/* In the manager: no fetcher could be started, for this reason. */
extern void atp_fetcher_status_not_started(const char *error);

/* In a fetcher that waits after a crash of the server: the reason; NULL: the wait is over. */
extern void atp_fetcher_status_waits(const char *why);

/* How many requests the fetcher of this database has sent that have no answer yet. */
extern int	atp_fetcher_status_requests(void);

/* Remove the entry of a dropped database. */
extern void atp_fetcher_status_forget(Oid database);

#endif							/* ATP_FETCHER_STATUS_H */
