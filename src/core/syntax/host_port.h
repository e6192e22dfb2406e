/*
 * host_port.h
 *		A server's name, with or without a port, as in a URL, a DID document (W-14) or a list of hosts.
 *		All code compares host names by their bytes, in the spelling of atp_host_spell().
 */
#ifndef ATP_HOST_PORT_H
#define ATP_HOST_PORT_H

#include "core/atp.h"

#define ATP_HOST_MAX	253		/* bytes of the name, without the port */

/*
 * V-44: the one spelling of a host's name: lower case, without a final dot.  Different spellings of one IPv6
 * address stay different. out has n bytes, and may be s; returns the length.  Names that are not ASCII must
 * be converted by IDNA (xn--) before.
 */
extern size_t atp_host_spell(const char *s, size_t n, char *out);

/*
 * Parses host[:port]; out (ATP_HOST_MAX bytes) is the name in the spelling of atp_host_spell().  Without a
 * port, *port is left unchanged.  False for all other text, also for addresses.
 */
extern bool atp_host_port_parse(const char *s, size_t n, char *out, size_t *len, uint16_t *port);

#endif							/* ATP_HOST_PORT_H */
