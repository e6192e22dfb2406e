/*
 * integer.h
 *		Integers of jsonb, where all numbers are numeric.
 */
#ifndef ATP_LEXICON_INTEGER_H
#define ATP_LEXICON_INTEGER_H

#include "postgres.h"

#include "utils/numeric.h"

/* B-21: 1.0 is an integer, too.  False when the number is no integer, or needs more than 64 bits. */
static inline bool
atp_integer(Numeric number, int64 *value)
{
	char	   *s = numeric_normalize(number);
	char	   *end;
	bool		is_integer;

	errno = 0;
	*value = strtoll(s, &end, 10);
	is_integer = end > s && *end == '\0' && errno == 0;
	/* A number of ten bytes may have 131072 digits, and an array may repeat it: free the text. */
	pfree(s);
	return is_integer;
}

#endif							/* ATP_LEXICON_INTEGER_H */
