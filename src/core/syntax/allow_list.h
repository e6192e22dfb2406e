/*
 * allow_list.h
 *		What may be asked beyond https, port 443 and public addresses: the list of
 *		atproto.fetch_allow (rule W-50).
 *
 * Words with commas between, and blanks around them: scheme://host[:port], and
 * networks such as 10.0.0.0/8.  Scheme and host of a word are compared without
 * regard to case; a port that it lacks is the scheme's.
 */
#ifndef ATP_ALLOW_LIST_H
#define ATP_ALLOW_LIST_H

#include "core/syntax/address.h"

/* Is it such a list?  The empty one is. */
extern AtpErr atp_allow_check(const char *s, size_t n, size_t *at);

/* Of a list that is one: does it name this host?  IPv6 addresses have brackets. */
extern bool atp_allow_host(const char *s, size_t n, AtpSpan scheme, AtpSpan host, unsigned port);

/* Is an address in one of its networks? */
extern bool atp_allow_address(const char *s, size_t n, const AtpAddress *address);

#endif							/* ATP_ALLOW_LIST_H */
