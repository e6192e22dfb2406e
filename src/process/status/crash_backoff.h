/*
 * crash_backoff.h
 *		Who may have crashed the server does not come back at once.
 */
#ifndef ATP_CRASH_BACKOFF_H
#define ATP_CRASH_BACKOFF_H

#include "postgres.h"

/*
 * A consumer begins: how often in a row has the server crashed while it ran,
 * and it had got nowhere?  From now on an end that is not orderly counts.
 */
extern int	atp_crash_begin(const char *subscription);

/* Milliseconds to wait after so many crashes. */
extern int	atp_crash_delay(int crashes);

/* It got somewhere: a crash from here on is the first one. */
extern void atp_crash_progress(void);

#endif							/* ATP_CRASH_BACKOFF_H */
