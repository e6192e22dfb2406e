/*
 * endpoint.h
 *		The URL of an event stream, taken apart (rule E-01).
 */
#ifndef ATP_ENDPOINT_H
#define ATP_ENDPOINT_H

#include "postgres.h"

typedef struct AtpEndpoint
{
	bool		tls;			/* wss:// */
	bool		loopback;		/* the host is this machine, by name or address */
	char	   *host;			/* in the spelling of atp_host_spell(), without the brackets of an IPv6 address */
	char	   *authority;		/* host[:port], without the scheme's own port: for the Host header, and compared with a PDS */
	char	   *origin;			/* http(s)://host:port, for libcurl */
	char	   *path;			/* /xrpc/NSID, or one that ends with /subscribe */
	char	   *query;			/* without '?' and without cursor; may be "" */
	char	   *stream;			/* what it is: its NSID, or "/subscribe" */
	char	   *scope;			/* scheme://host:port/path, the host as it was written: what a cursor belongs to (E-47) */
} AtpEndpoint;

/*
 * Parse url, palloc'ing in the current context.  Raises an ERROR with a hint
 * when it is no ws:// or wss:// URL.  A URL without a path means
 * /xrpc/com.atproto.sync.subscribeRepos.
 */
extern AtpEndpoint *atp_endpoint_parse(const char *url);

/* NULL, or a sentence on what is wrong with the URL of a proxy, which it does not show. */
extern const char *atp_proxy_fault(const char *proxy);

/* Raise an ERROR unless proxy is the URL of one that can be reached over the network; "" is none. */
extern void atp_proxy_check(const char *proxy);

#endif							/* ATP_ENDPOINT_H */
