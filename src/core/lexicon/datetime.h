/*
 * datetime.h
 *		Lexicon datetimes (RFC 3339, as the messages' "time" field has them).
 */
#ifndef ATP_DATETIME_H
#define ATP_DATETIME_H

#include "core/atp.h"

#define ATP_DATETIME_MAX	64

/*
 * Microseconds since the Unix epoch; digits beyond the sixth are dropped.
 * The syntax of the interoperability suite's datetime files: capital T, a
 * zone that is Z or +hh:mm but not -00:00, seconds always, years 0000 to 9999.
 */
extern AtpErr atp_datetime_parse(const char *s, size_t n, int64_t *micros, size_t *at);

#endif							/* ATP_DATETIME_H */
