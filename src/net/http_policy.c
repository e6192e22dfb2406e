/*
 * http_policy.c
 *		Which URLs and addresses may be requested.
 *
 * libcurl's parser splits a URL into parts, and the request goes to the URL that libcurl assembles
 * from the checked parts.  So the policy and libcurl cannot read a URL in two different ways.
 */
#include "postgres.h"

#include <curl/curl.h>
#include <netinet/in.h>

#include "core/syntax/allow_list.h"
#include "core/syntax/handle.h"
#include "core/syntax/host_port.h"
#include "net/ca_file.h"
#include "net/endpoint.h"
#include "net/http.h"
#include "net/http_policy.h"
#include "utils/guc.h"

#define URL_MAX		8192		/* a request for 100 blocks (core/repo/get_blocks.h) has nearly 8,000 bytes */

char	   *atp_fetch_proxy;
char	   *atp_fetch_ca_file;
char	   *atp_fetch_contact;
static char *fetch_allow;
static bool fetch_any_port;

/* A part of the URL, palloc'd; NULL when the part is absent. */
static char *
get_part(CURLU *u, CURLUPart what, unsigned int flags)
{
	char	   *value = NULL;
	char	   *copy;

	if (curl_url_get(u, what, &value, flags) != CURLUE_OK)
		return NULL;
	copy = pstrdup(value);
	curl_free(value);
	return copy;
}

/*
 * Check a URL whose host is not in fetch_allow: https, port 443, and a full public domain name; no IP address
 * and no local name.
 */
static const char *
check_public(const char *scheme, const char *host, const char *port)
{
	size_t		at;

	if (strcmp(scheme, "https") != 0)
		return "the scheme is not https";
	if (atp_handle_check(host, strlen(host), &at) != ATP_OK)
		return "the host is not the full name of one";
	if (!atp_handle_tld_allowed(host, strlen(host)))
		return "the host is not on the public Internet";
	if (strcmp(port, "443") != 0 && !fetch_any_port)
		return "the port is not 443";
	return NULL;
}

const char *
atp_http_advise(const AtpHttpUrl *url, const char *why)
{
	return psprintf("%s; if the server is yours, add \"%s://%s\" to atproto.fetch_allow", why, url->tls ? "https" : "http", url->host);
}

static const char *
take_parts(CURLU *u, AtpHttpUrl *url)
{
	char	   *scheme = get_part(u, CURLUPART_SCHEME, 0);
	char	   *host = get_part(u, CURLUPART_HOST, 0);
	char	   *port = get_part(u, CURLUPART_PORT, CURLU_DEFAULT_PORT);
	const char *default_port;
	const char *why;

	if (scheme == NULL || host == NULL || port == NULL || host[0] == '\0')
		return "the URL cannot be parsed";
	if (strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)
		return "the scheme is not https";
	host[atp_host_spell(host, strlen(host), host)] = '\0';
	url->tls = strcmp(scheme, "https") == 0;
	default_port = url->tls ? "443" : "80";
	url->host = strcmp(port, default_port) == 0 ? host : psprintf("%s:%s", host, port);
	url->named = atp_allow_host(fetch_allow, strlen(fetch_allow), (AtpSpan) {scheme, strlen(scheme)},
								(AtpSpan) {host, strlen(host)}, (int) strtol(port, NULL, 10));
	if (curl_url_set(u, CURLUPART_HOST, host, 0) != CURLUE_OK ||
		curl_url_set(u, CURLUPART_FRAGMENT, NULL, 0) != CURLUE_OK ||
		(url->url = get_part(u, CURLUPART_URL, 0)) == NULL)
		return "the URL cannot be parsed";
	if (url->named || (why = check_public(scheme, host, port)) == NULL)
		return NULL;
	return atp_http_advise(url, why);
}

const char *
atp_http_url(const char *text, AtpHttpUrl *url)
{
	CURLU	   *u;
	const char *why;

	memset(url, 0, sizeof(*url));
	if (strlen(text) > URL_MAX)
		return "the URL is too long";
	for (const char *p = text; *p; p++)
		if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
			return "the URL has a character that must be escaped";
	u = curl_url();
	if (u == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	switch (curl_url_set(u, CURLUPART_URL, text, CURLU_DISALLOW_USER))
	{
		case CURLUE_OK:
			why = take_parts(u, url);
			break;
		case CURLUE_USER_NOT_ALLOWED:
			why = "the URL has a user name or password";
			break;
		case CURLUE_UNSUPPORTED_SCHEME:
			why = "the scheme is not https";
			break;
		default:
			why = "the URL cannot be parsed";
	}
	curl_url_cleanup(u);
	return why;
}

const char *
atp_http_refused(const char *url)
{
	AtpHttpUrl	parsed;

	return atp_http_url(url, &parsed);
}

char *
atp_http_host_of(const char *url)
{
	AtpHttpUrl	parsed;

	(void) atp_http_url(url, &parsed);
	return parsed.host;
}

bool
atp_http_address_allowed(const struct sockaddr *address)
{
	AtpAddress	a;

	if (address->sa_family == AF_INET)
		a = atp_address_of((const uint8_t *) &((const struct sockaddr_in *) address)->sin_addr, 4);
	else if (address->sa_family == AF_INET6)
		a = atp_address_of((const uint8_t *) &((const struct sockaddr_in6 *) address)->sin6_addr, 16);
	else
		return false;
	return atp_address_is_public(&a) || atp_allow_address(fetch_allow, strlen(fetch_allow), &a);
}

static bool
check_allow(char **value, void **extra, GucSource source)
{
	size_t		at = 0;
	AtpErr		err = *value == NULL ? ATP_OK : atp_allow_check(*value, strlen(*value), &at);

	if (err != ATP_OK)
	{
		GUC_check_errdetail("%s It is at byte %zu.", atp_err_text(err), at + 1);
		GUC_check_errhint("It looks like \"http://localhost:2583, https://pds.example.com, 10.0.0.0/8\".");
	}
	return err == ATP_OK;
}

static bool
check_proxy(char **value, void **extra, GucSource source)
{
	const char *fault = *value == NULL ? NULL : atp_proxy_fault(*value);

	/* the message does not quote the URL, which may have a password */
	if (fault != NULL)
		GUC_check_errdetail("%s", fault);
	return fault == NULL;
}

/* The contact becomes part of a header: a control character could add headers. */
static bool
check_contact(char **value, void **extra, GucSource source)
{
	for (const char *p = *value == NULL ? "" : *value; *p; p++)
		if (*p < ' ' || *p > '~')
		{
			GUC_check_errdetail("It may have printable ASCII characters only.");
			return false;
		}
	return true;
}

void
atp_http_policy_init(void)
{
	DefineCustomStringVariable("atproto.fetch_allow",
							   "Hosts and networks that the fetcher may ask although they are not on the public Internet.",
							   "A comma-separated list of scheme://host:port and of networks such as 10.0.0.0/8.",
							   &fetch_allow, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_allow, NULL, NULL);
	DefineCustomStringVariable("atproto.fetch_proxy",
							   "Proxy through which the fetcher makes its requests.",
							   "Empty: none; the environment is not looked at.",
							   &atp_fetch_proxy, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_proxy, NULL, NULL);
	DefineCustomBoolVariable("atproto.fetch_any_port",
							 "Whether the fetcher may ask hosts at other ports than 443.",
							 NULL, &fetch_any_port, false, PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	DefineCustomStringVariable("atproto.fetch_ca_file",
							   "File with the certificate authorities that the fetcher trusts.",
							   "Empty: those of the system.",
							   &atp_fetch_ca_file, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	DefineCustomStringVariable("atproto.fetch_contact",
							   "What the fetcher tells other hosts about who asks.",
							   "A URL or a mail address, which becomes part of User-Agent.",
							   &atp_fetch_contact, "", PGC_SIGHUP, 0, check_contact, NULL, NULL);
}
