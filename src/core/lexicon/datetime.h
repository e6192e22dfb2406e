/*
 * datetime.h
 *		Parser of Lexicon datetimes (RFC 3339, restricted), as in the messages'
 *		field "time".
 */
#ifndef ATP_DATETIME_H
#define ATP_DATETIME_H

#include "core/atp.h"

#define ATP_DATETIME_MAX	64

/*
 * Microseconds since the Unix epoch; digits beyond the sixth are dropped.  The
 * syntax is the interoperability suite's: a capital T, seconds always present,
 * a zone that is Z or +hh:mm but not -00:00, years 0000 to 9999.
 */
extern AtpErr atp_datetime_parse(const char *s, size_t n, int64_t *micros, size_t *at);

#endif							/* ATP_DATETIME_H */
