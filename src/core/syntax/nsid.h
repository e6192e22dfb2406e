/*
 * nsid.h
 *		Namespaced identifiers (rules I-01 to I-07): the only validator, parts,
 *		normal form, and the patterns of collection filters.  NSIDs are stored
 *		as text.
 */
#ifndef ATP_NSID_H
#define ATP_NSID_H

#include "core/atp.h"

#define ATP_NSID_MAX	317

extern AtpErr atp_nsid_check(const char *s, size_t n, size_t *at);

/* The functions below expect a text that atp_nsid_check() accepts. */
extern AtpSpan atp_nsid_name(const char *s, size_t n);	/* the last segment */
extern AtpSpan atp_nsid_domain(const char *s, size_t n);	/* all but the last segment, as written */

/* I-04: lower-cases the domain; out holds n bytes, and may be s itself. */
extern void atp_nsid_normalize(const char *s, size_t n, char *out);

/* I-06: "*", an NSID, or segments followed by ".*". */
extern AtpErr atp_nsid_pattern_check(const char *s, size_t n, size_t *at);
extern bool atp_nsid_matches(const char *s, size_t n, const char *pattern, size_t pn);

#endif							/* ATP_NSID_H */
