/*
 * quotable.h
 *		How much of a faulty value a message quotes: a URI may have 8 kB, a text 1 GB.
 */
#ifndef ATP_QUOTABLE_H
#define ATP_QUOTABLE_H

#include "postgres.h"

/* The beginning of a text of this server's encoding, cut between characters; palloc'd. */
extern char *atp_quotable_span(const char *s, size_t n);
extern char *atp_quotable(const char *s);

#endif							/* ATP_QUOTABLE_H */
