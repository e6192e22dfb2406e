/*
 * crash.h
 *		Who may have crashed the server does not come back at once.
 */
#ifndef ATP_CRASH_H
#define ATP_CRASH_H

#include "postgres.h"

/*
 * A consumer begins: how often in a row has the server crashed while it ran,
 * and it had got nowhere?
 */
extern int	atp_crash_begin(const char *subscription);

/*
 * The consumer has waited for atp_crash_delay(), and begins its work: from now on an end that is not orderly counts.
 * A crash during the wait is not the consumer's: if it counted, the waits would grow although nothing was tried.
 */
extern void atp_crash_run(void);

/* Milliseconds to wait after so many crashes. */
extern int	atp_crash_delay(int crashes);

/* It got somewhere: a crash from here on is the first one. */
extern void atp_crash_progress(void);

#endif							/* ATP_CRASH_H */
