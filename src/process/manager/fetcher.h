/*
 * fetcher.h
 *		The fetcher, the one process of a database that makes HTTP requests (rule W-57).
 */
#ifndef ATP_FETCHER_H
#define ATP_FETCHER_H

#include "postgres.h"

#include "postmaster/bgworker.h"

/* Does any task have work?  Call in a transaction with SPI connected. */
extern bool atp_fetcher_is_wanted(void);

/*
 * Start the fetcher.  Called by the manager, which the postmaster notifies when the fetcher ends.  False: no
 * worker slot is free.
 */
extern bool atp_fetcher_start(const char *database, BackgroundWorkerHandle **handle);

extern PGDLLEXPORT void atp_fetcher_main(Datum arg);

#endif							/* ATP_FETCHER_H */
