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
	bool		is_integer;

	errno = 0;
	*value = strtoll(s, &end, 10);
	is_integer = end > s && *end == '\0' && errno == 0;
	/* a number of ten bytes may have 131072 digits, and be one of many */
	pfree(s);
	return is_integer;
}

#endif							/* ATP_LEXICON_INTEGER_H */
