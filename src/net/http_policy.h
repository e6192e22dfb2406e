/*
 * http_policy.h
 *		Which URLs and addresses may be requested (rules W-50 to W-52), and the settings
 *		for this.  Limits of time and size are elsewhere (http_curl.c, http_body.c).
 */
#ifndef ATP_HTTP_POLICY_H
#define ATP_HTTP_POLICY_H

#include "postgres.h"

#include <sys/socket.h>

/* Settings, changeable by a reload. */
extern char *atp_fetch_proxy;	/* "": no proxy */
extern char *atp_fetch_ca_file; /* "": the system's authorities */
extern char *atp_fetch_contact; /* "": no contact in User-Agent */

/* A URL that passed the policy; palloc'd. */
typedef struct AtpHttpUrl
{
	char	   *url;			/* in libcurl's spelling, without a fragment */
	char	   *host;			/* see atp_http_host_of() */
	bool		tls;
	bool		named;			/* fetch_allow names the host: its addresses are not checked */
} AtpHttpUrl;

/* Parse text into *url; NULL if the URL may be requested, else the reason why not. */
extern const char *atp_http_url(const char *text, AtpHttpUrl *url);

/* Append to a reason what a user adds to fetch_allow if the refused server is their own; palloc'd. */
extern const char *atp_http_advise(const AtpHttpUrl *url, const char *why);

/* Is a connection to this address allowed?  Allocates no memory, since libcurl calls from a callback. */
extern bool atp_http_address_allowed(const struct sockaddr *address);

/* From _PG_init(), by atp_http_init(): the settings. */
extern void atp_http_policy_init(void);

#endif							/* ATP_HTTP_POLICY_H */
