/*
 * foreign_time.h
 *		Times that strangers choose, as timestamptz, so that each driver can read
 *		them: foreign_time.c has the limits and the reason.
 *
 * All times of the protocol are microseconds since the Unix epoch.
 */
#ifndef ATP_FOREIGN_TIME_H
#define ATP_FOREIGN_TIME_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* Is the time within the limits?  A time that is a mere claim, and of which NULL says enough, is asked this first. */
extern bool atp_is_foreign_time(int64 micros);

/*
 * The time, or the nearest limit: for times that are compared.  A label that expires in the year 9999 never expires, and
 * NULL would be false for a status that is older than all others.
 */
extern TimestampTz atp_foreign_time(int64 micros);

#endif							/* ATP_FOREIGN_TIME_H */
