/*
 * endpoint.h
 *		The URL of an event stream, split into parts (rule E-01); and the check of a
 *		proxy's URL.
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
	char	   *path;			/* /xrpc/NSID, or a path that ends with /subscribe */
	char	   *query;			/* without '?' and without cursor; may be "" */
	char	   *stream;			/* the kind of stream: its NSID, or "/subscribe" */
	char	   *scope;			/* scheme://host:port/path with the host as the user wrote it: the scope of a cursor (E-47) */
} AtpEndpoint;

/*
 * Parse url, palloc'ing in the current context.  Raises an ERROR with a hint unless url is a ws:// or wss://
 * URL.  A URL without a path means /xrpc/com.atproto.sync.subscribeRepos.
 */
extern AtpEndpoint *atp_endpoint_parse(const char *url);

/*
 * NULL if the proxy's URL is usable, else a sentence on the fault.  The sentence does not quote the URL,
 * which may have a password.
 */
extern const char *atp_proxy_fault(const char *proxy);

/* Raise an ERROR unless proxy is a usable URL over the network, or "" for no proxy. */
extern void atp_proxy_check(const char *proxy);

#endif							/* ATP_ENDPOINT_H */
