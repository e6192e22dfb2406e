/*
 * foreign_time.c
 *		Times chosen by strangers, as timestamptz.
 *
 * Python's datetime has the years 1 to 9999, and so have the types of many other programs.  Drivers raise an error at any
 * earlier or later value: a single value ends each query with this value in its result.  Drivers read a value in the
 * session's time zone: 9999-12-31 23:59:59+00 is in the year 10000 in Tokyo, and 0001-01-01 00:00:00+00 is before Christ
 * in New York.  The limits leave out a day at each end, which is more than the distance of any zone from UTC.
 *
 * Invariant: these functions convert all times of strangers that get into a table, view or result.  Times in TIDs need no
 * limit: TIDs hold the years 1970 to 2255 (T-08).
 */
#include "postgres.h"

#include "types/foreign_time.h"
#include "types/types.h"

#define UNIX_DAYS(julian)	((int64) (julian) - UNIX_EPOCH_JDATE)

/* Microseconds since the Unix epoch. */
#define FIRST_MICROS	(UNIX_DAYS(1721427) * USECS_PER_DAY)	/* 0001-01-02 00:00:00 UTC */
#define LAST_MICROS		(UNIX_DAYS(5373484) * USECS_PER_DAY - 1)	/* 9999-12-30 23:59:59.999999 UTC */

bool
atp_is_foreign_time(int64 micros)
{
	return micros >= FIRST_MICROS && micros <= LAST_MICROS;
}

TimestampTz
atp_foreign_time(int64 micros)
{
	return Min(Max(micros, FIRST_MICROS), LAST_MICROS) - ATP_UNIX_TO_POSTGRES;
}
