/*
 * clock.c
 *		The clock by which the consumer's processes wait.
 */
#include "postgres.h"

#include "clock.h"
#include "portability/instr_time.h"

AtpTime
atp_now(void)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	return INSTR_TIME_GET_MICROSEC(now);
}

long
atp_remaining(AtpTime now, AtpTime t, int interval_ms)
{
	int64		ms = (t + (int64) interval_ms * 1000 - now + 999) / 1000;

	return (long) Max(ms, 0);
}
