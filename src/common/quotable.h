/*
 * quotable.h
 *		The quoted part of a faulty value in a message: at most 64 bytes, because a URI
 *		may have 8 kB and a text 1 GB.
 */
#ifndef ATP_QUOTABLE_H
#define ATP_QUOTABLE_H

#include "postgres.h"

/* The beginning of a text in the server encoding, cut at a character boundary; palloc'd. */
extern char *atp_quotable_span(const char *s, size_t n);
extern char *atp_quotable(const char *s);

#endif							/* ATP_QUOTABLE_H */
