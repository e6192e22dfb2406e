/*
 * foreign_time.h
 *		Times chosen by strangers, as timestamptz within limits, so that each driver can
 *		read the values.  foreign_time.c has the limits and the reason.
 *
 * All times of the protocol are microseconds since the Unix epoch.
 */
#ifndef ATP_FOREIGN_TIME_H
#define ATP_FOREIGN_TIME_H

#include "postgres.h"

#include "datatype/timestamp.h"

/* Is the time within the limits?  If not, a field of a record is NULL, since the time is a mere claim of its author. */
extern bool atp_is_foreign_time(int64 micros);

/*
 * The time, or the nearest limit: for times that are compared.  A label with the expiry date 9999-12-31 never expires, and
 * the status of an account with a time in the year 0 is older than all other statuses.
 */
extern TimestampTz atp_foreign_time(int64 micros);

#endif							/* ATP_FOREIGN_TIME_H */
