/*
 * fetcher.h
 *		The one process of a database that speaks HTTP (rule W-57).
 */
#ifndef ATP_FETCHER_H
#define ATP_FETCHER_H

#include "postgres.h"

#include "postmaster/bgworker.h"

/* In a transaction, SPI connected: has some errand work? */
extern bool atp_fetcher_is_wanted(void);

/* By the manager, which is told when it ends.  False: no worker slot is free. */
extern bool atp_fetcher_start(const char *database, BackgroundWorkerHandle **handle);

extern PGDLLEXPORT void atp_fetcher_main(Datum arg);

#endif							/* ATP_FETCHER_H */
