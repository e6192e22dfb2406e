/*
 * http_policy.h
 *		Which URLs and addresses are asked (rules W-50 to W-52), and the settings
 *		that say so.
 */
#ifndef ATP_HTTP_POLICY_H
#define ATP_HTTP_POLICY_H

#include "postgres.h"

#include <sys/socket.h>

/* Settings, changeable by a reload. */
extern char *atp_fetch_proxy;	/* "": none */
extern char *atp_fetch_ca_file; /* "": the system's */
extern char *atp_fetch_contact; /* "": none */

/* A URL that may be asked; palloc'd. */
typedef struct AtpHttpUrl
{
	char	   *url;			/* as libcurl writes it, without a fragment */
	char	   *host;			/* see atp_http_host_of() */
	bool		tls;
	bool		named;			/* by fetch_allow: its addresses are not judged */
} AtpHttpUrl;

/* NULL, or why it is not asked. */
extern const char *atp_http_url(const char *text, AtpHttpUrl *url);

/* May there be a connection to this address?  Allocates nothing. */
extern bool atp_http_address_allowed(const struct sockaddr *address);

/* From _PG_init(), by atp_http_init(): the settings. */
extern void atp_http_policy_init(void);

#endif							/* ATP_HTTP_POLICY_H */
