/*
 * crash_backoff.h
 *		Delays the restart of a process whose work may have crashed the server.
 */
#ifndef ATP_CRASH_BACKOFF_H
#define ATP_CRASH_BACKOFF_H

#include "postgres.h"

/*
 * Call when a consumer (or the fetcher) begins.  Returns how many times in a row the server crashed while it
 * ran without progress.
 */
extern int	atp_crash_begin(const char *subscription);

/*
 * Call when the process has waited for atp_crash_delay() and begins its work.  From now on, an end of the process
 * without exit callbacks counts as a crash.  A crash of the server during the wait does not count: the process had
 * tried nothing, and counting such crashes would make the waits grow.
 */
extern void atp_crash_run(void);

/* Milliseconds to wait after this number of crashes. */
extern int	atp_crash_delay(int crashes);

/* The process has made progress: a later crash counts as the first one. */
extern void atp_crash_progress(void);

#endif							/* ATP_CRASH_BACKOFF_H */
