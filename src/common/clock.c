/*
 * clock.c
 *		The two clocks of the background workers: see clock.h.
 */
#include "postgres.h"

#include <limits.h>

#include "common/clock.h"
#include "portability/instr_time.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#ifdef ATP_INJECTION_POINTS

static int	monotonic_ahead_ms;
static int	time_of_day_ahead_s;

void
atp_clock_init(void)
{
	DefineCustomIntVariable("atproto.test_monotonic_ahead",
							"For tests: how far the clock is ahead by which processes wait.",
							NULL, &monotonic_ahead_ms, 0, 0, INT_MAX,
							PGC_SUSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.test_time_of_day_ahead",
							"For tests: how far the time of day is ahead by which events are judged.",
							NULL, &time_of_day_ahead_s, 0, -INT_MAX, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

#else

#define monotonic_ahead_ms		0
#define time_of_day_ahead_s		0

#endif

AtpTime
atp_now(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return (AtpTime) INSTR_TIME_GET_MICROSEC(now) + (AtpTime) monotonic_ahead_ms * 1000;
}

long
atp_remaining(AtpTime now, AtpTime t, int interval_ms)
{
	int64		ms = (t + (int64) interval_ms * 1000 - now + 999) / 1000;

	return (long) Max(ms, 0);
}

TimestampTz
atp_time_of_day(void)
{
	return GetCurrentTimestamp() + time_of_day_ahead_s * USECS_PER_SEC;
}
