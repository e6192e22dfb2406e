/*
 * allow_list.h
 *		Parser of the setting atproto.fetch_allow: hosts and networks that may
 *		be asked although requests are otherwise limited to https, port 443 and
 *		public addresses (rule W-50).
 *
 * The entries are separated by commas, with blanks around them:
 * scheme://host[:port], or a network such as 10.0.0.0/8.  Scheme and host are
 * compared without regard to case.  An entry without a port means the scheme's
 * default port.
 */
#ifndef ATP_ALLOW_LIST_H
#define ATP_ALLOW_LIST_H

#include "core/syntax/address.h"

/* Is the text a well-formed list?  The empty list is. */
extern AtpErr atp_allow_check(const char *s, size_t n, size_t *at);

/* Does a well-formed list name this host?  IPv6 addresses have brackets. */
extern bool atp_allow_host(const char *s, size_t n, AtpSpan scheme, AtpSpan host, unsigned port);

/* Does the address lie in one of the networks of a well-formed list? */
extern bool atp_allow_address(const char *s, size_t n, const AtpAddress *address);

#endif							/* ATP_ALLOW_LIST_H */
