/*
 * integer.h
 *		Integers of jsonb.
 */
#ifndef ATP_LEXICON_INTEGER_H
#define ATP_LEXICON_INTEGER_H

#include "postgres.h"

#include "utils/numeric.h"

/* B-21: 1.0 is one, too.  False when it is none, or has more than 64 bits. */
static inline bool
atp_integer(Numeric number, int64 *value)
{
	char	   *s = numeric_normalize(number);
	char	   *end;

	errno = 0;
	*value = strtoll(s, &end, 10);
	return end > s && *end == '\0' && errno == 0;
}

#endif							/* ATP_LEXICON_INTEGER_H */
