/*
 * fetcher_status.h
 *		Live status of the fetchers, in shared memory: view atproto.stat_fetcher.
 */
#ifndef ATP_FETCHER_STATUS_H
#define ATP_FETCHER_STATUS_H

#include "postgres.h"

/* From _PG_init(): its place in shared memory. */
extern void atp_fetcher_status_init(void);

/* A fetcher: errors that end it are shown, also before it has a connection to the database. */
extern void atp_fetcher_status_report_end(Oid database);

/* It is the one of its database. */
extern void atp_fetcher_status_begin(void);

/* It: what it has done, and how many requests run. */
extern void atp_fetcher_status_tell(void);

/* The manager: there is work, but no fetcher; or there is none. */
extern void atp_fetcher_status_wanted(bool wanted);

/* The database is gone. */
extern void atp_fetcher_status_forget(Oid database);

#endif							/* ATP_FETCHER_STATUS_H */
