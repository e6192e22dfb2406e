/*
 * host_port.h
 *		A server's name, with or without a port: of a URL, of a DID document (W-14), of a
 *		list of hosts.  Names are compared by their bytes, in the spelling of atp_host_spell().
 */
#ifndef ATP_HOST_PORT_H
#define ATP_HOST_PORT_H

#include "core/atp.h"

#define ATP_HOST_MAX	253		/* bytes of the name */

/*
 * V-44: the one spelling of a host's name: lower case, without the dot that may end it.  An address, also in
 * brackets, stays what it is.  out has n bytes, and may be s; returns its length.  Names that are
 * not ASCII have to be written as IDNA says (xn--) before.
 */
extern size_t atp_host_spell(const char *s, size_t n, char *out);

/*
 * host[:port]; the name goes into out (ATP_HOST_MAX bytes) in that spelling.  *port
 * stays as it is where there is none.  False for anything else, addresses too.
 */
extern bool atp_host_port_parse(const char *s, size_t n, char *out, size_t *len, uint16_t *port);

#endif							/* ATP_HOST_PORT_H */
