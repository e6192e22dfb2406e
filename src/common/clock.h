/*
 * clock.h
 *		The two clocks of the background workers, which read the time through this file
 *		only, so that tests can shift it.
 *
 * Processes wait by the monotonic clock, which nobody can set.  The time of day steps back and forth:
 * a process waiting by the time of day would sleep for an hour after a step back, and would give up at
 * once after a step forward.  The time of day is for output to people, and for comparison with the
 * times in events (F-03).
 *
 * With ATP_INJECTION_POINTS defined (injection.h), two settings shift these clocks, so that tests of
 * time limits need not wait.
 */
#ifndef ATP_CLOCK_H
#define ATP_CLOCK_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef int64 AtpTime;			/* microseconds since some moment before the start of this process; 0 is long past */

extern AtpTime atp_now(void);

/* Milliseconds from now until interval_ms after t, rounded up; 0 when the interval has passed. */
extern long atp_remaining(AtpTime now, AtpTime t, int interval_ms);

/* The shorter of two timeouts; -1 means no timeout. */
static inline long
atp_earlier(long a, long b)
{
	return a < 0 ? b : b < 0 ? a : Min(a, b);
}

extern TimestampTz atp_time_of_day(void);

#ifdef ATP_INJECTION_POINTS
extern void atp_clock_init(void);
#else
#define atp_clock_init()	((void) 0)
#endif

#endif							/* ATP_CLOCK_H */
