/*
 * host_port.h
 *		A server's name, with or without a port: of a DID document (W-14), of a list
 *		of hosts.
 */
#ifndef ATP_HOST_PORT_H
#define ATP_HOST_PORT_H

#include "atp.h"

#define ATP_HOST_MAX	253		/* bytes of the name */

/*
 * host[:port]; the name goes into out (ATP_HOST_MAX bytes) in lower case.  *port
 * stays as it is where there is none.  False for anything else, addresses too.
 */
extern bool atp_host_port_parse(const char *s, size_t n, char *out, size_t *len, uint16_t *port);

#endif							/* ATP_HOST_PORT_H */
