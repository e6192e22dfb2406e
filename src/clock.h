/*
 * clock.h
 *		The clock by which the consumer's processes wait.
 *
 * Nobody can set it: the time of day steps back and forth, and whoever waits
 * by it does not come back for an hour, or gives up at once.  GetCurrentTimestamp()
 * is for what people read, and for comparison with the times in events.
 */
#ifndef ATP_CLOCK_H
#define ATP_CLOCK_H

#include "postgres.h"

typedef int64 AtpTime;			/* microseconds since some moment before this process; 0 is long past */

extern AtpTime atp_now(void);

/* Milliseconds from now until so many after t, rounded up; 0 when that is past. */
extern long atp_remaining(AtpTime now, AtpTime t, int interval_ms);

#endif							/* ATP_CLOCK_H */
