/*
 * clock.h
 *		The two clocks of the consumer's processes; nobody asks the time elsewhere.
 *
 * Who waits, waits by a clock that nobody can set: the time of day steps back and
 * forth, and whoever waits by it does not come back for an hour, or gives up at
 * once.  The time of day is for what people read, and for comparison with the
 * times in events (F-03).
 *
 * With ATP_INJECTION_POINTS defined (injection.h), two settings put these clocks
 * forward or back, so that tests of time limits need not wait.
 */
#ifndef ATP_CLOCK_H
#define ATP_CLOCK_H

#include "postgres.h"

#include "datatype/timestamp.h"

typedef int64 AtpTime;			/* microseconds since some moment before this process; 0 is long past */

extern AtpTime atp_now(void);

/* Milliseconds from now until so many after t, rounded up; 0 when that is past. */
extern long atp_remaining(AtpTime now, AtpTime t, int interval_ms);

/* The earlier of two timeouts, of which -1 is none. */
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
