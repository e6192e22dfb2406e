/*
 * sweep_passed.h
 *		The time that a stream has passed (atproto.cursor.passed_at), written while a sweep runs.
 */
#ifndef ATP_SWEEP_PASSED_H
#define ATP_SWEEP_PASSED_H

#include "tables/base/sink.h"

/* Take the times of the events that this transaction applies.  True: *passed_at is later than what this process has written. */
extern bool atp_sweep_passed(const AtpApply *a, TimestampTz *passed_at);

#endif							/* ATP_SWEEP_PASSED_H */
