/*
 * endpoint.c
 *		The URL of an event stream, split into parts by libcurl's URL parser.
 */
#include "postgres.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>

#include "core/syntax/host_port.h"
#include "core/syntax/nsid.h"
#include "lib/stringinfo.h"
#include "net/endpoint.h"
#include "port/pg_bswap.h"
#include "common/quotable.h"

#define DEFAULT_PATH	"/xrpc/com.atproto.sync.subscribeRepos"
#define XRPC			"/xrpc/"
#define EXPORT			"/export/stream"	/* the path of a did:plc directory's stream */
#define SUBSCRIBE		"/subscribe"	/* Jetstream's path, from before Jetstream had an NSID */

/*
 * Have libcurl convert the host to ASCII by IDNA (punycode), where its version can.  With an older libcurl a
 * non-ASCII host is refused.
 */
#if LIBCURL_VERSION_NUM >= 0x075800
#define AS_ASCII	CURLU_PUNYCODE
#else
#define AS_ASCII	0
#endif

/* A part of the URL, palloc'd; NULL when the part is absent. */
static char *
url_part_as(CURLU *url, CURLUPart part, unsigned int flags)
{
	char	   *value = NULL;
	char	   *copy;

	if (curl_url_get(url, part, &value, flags) != CURLUE_OK)
		return NULL;
	copy = pstrdup(value);
	curl_free(value);
	return copy;
}

static char *
url_part(CURLU *url, CURLUPart part)
{
	return url_part_as(url, part, 0);
}

/* V-44: the host in the one spelling of atp_host_spell(); NULL: no host, or a non-ASCII host. */
static char *
url_host(CURLU *url)
{
	char	   *host = url_part_as(url, CURLUPART_HOST, AS_ASCII);

	if (host == NULL)
		return NULL;
	host[atp_host_spell(host, strlen(host), host)] = '\0';
	for (const char *p = host; *p; p++)
		if (IS_HIGHBIT_SET(*p))
			return NULL;
	return host;
}

/* E-03: the query without any "cursor" parameter: the consumer sets the cursor. */
static char *
without_cursor(char *query)
{
	StringInfoData out;
	char	   *save = NULL;

	initStringInfo(&out);
	for (char *p = query ? strtok_r(query, "&", &save) : NULL; p; p = strtok_r(NULL, "&", &save))
	{
		if (strncmp(p, "cursor=", 7) == 0)
			continue;
		if (out.len > 0)
			appendStringInfoChar(&out, '&');
		appendStringInfoString(&out, p);
	}
	return out.data;
}

/*
 * Is the host this machine?  A name like 127.example.org is no loopback address, so addresses are parsed and
 * not compared by prefix.
 */
static bool
is_loopback(const char *host)
{
	struct in_addr v4;
	struct in6_addr v6;

	if (inet_pton(AF_INET, host, &v4) == 1)
		return (pg_ntoh32(v4.s_addr) >> 24) == 127;
	if (inet_pton(AF_INET6, host, &v6) == 1)
		return IN6_IS_ADDR_LOOPBACK(&v6);
	return pg_strcasecmp(host, "localhost") == 0;
}

/* The stream named by a path; NULL: the path names no stream. */
static char *
stream_of(char *path)
{
	size_t		len = strlen(path);
	size_t		at;

	if (strncmp(path, XRPC, strlen(XRPC)) == 0)
		return atp_nsid_check(path + strlen(XRPC), len - strlen(XRPC), &at) == ATP_OK ? path + strlen(XRPC) : NULL;
	/* any prefix is allowed, since a reverse proxy can serve these below another path */
	if (len >= strlen(SUBSCRIBE) && strcmp(path + len - strlen(SUBSCRIBE), SUBSCRIBE) == 0)
		return path + len - strlen(SUBSCRIBE);
	if (len >= strlen(EXPORT) && strcmp(path + len - strlen(EXPORT), EXPORT) == 0)
		return path + len - strlen(EXPORT);
	return NULL;
}

static void
bad_url(const char *url, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid event stream URL: \"%s\"", atp_quotable(url)),
			 errdetail_internal("%s", detail),
			 errhint("The URL of a relay or a PDS looks like wss://host, of a Jetstream like wss://host/subscribe, of a labeler like wss://host/xrpc/com.atproto.label.subscribeLabels.")));
}

/* The message does not quote the URL, since the URL has a password. */
static void
has_user(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid event stream URL: it has a user name or a password"),
			 errhint("Take them out of the URL. If the server asks for them, use headers => '{\"Authorization\": \"Bearer ...\"}', or for a user and a password headers => '{\"Authorization\": \"Basic <base64 of user:password>\"}'.")));
}

/* The length of the scheme with its "://", if the URL has one of those that are written before a host; otherwise 0. */
static size_t
scheme_length(const char *url, const char *const *schemes)
{
	for (; *schemes != NULL; schemes++)
		if (pg_strncasecmp(url, *schemes, strlen(*schemes)) == 0)
			return strlen(*schemes);
	return 0;
}

/* What can be said of a URL that libcurl cannot parse, or would parse as the URL of a host "http". */
static void
check_scheme(const char *url, bool is_parsed)
{
	static const char *const streams[] = {"wss://", "ws://", NULL};
	static const char *const secure[] = {"https://", "wss://", NULL};
	static const char *const plain[] = {"http://", "ws://", NULL};
	size_t		len = scheme_length(url, streams);
	const char *rest = url + len;
	size_t		by_tls = scheme_length(rest, secure);
	size_t		by_tcp = scheme_length(rest, plain);

	if (len == 0 && !is_parsed)
		bad_url(url, "It does not begin with wss:// or ws://.");
	if (len == 0 || by_tls + by_tcp == 0)
		return;
	/* libcurl would take user and password for a part of the path */
	if (strchr(rest, '@') != NULL)
		has_user();
	bad_url(url, psprintf("It has two schemes: write %s%s.", by_tls > 0 ? "wss://" : "ws://", atp_quotable(rest + by_tls + by_tcp)));
}

/* The path names no stream. */
static void
bad_path(const char *url, const char *path)
{
	if (strncmp(path, XRPC, strlen(XRPC)) != 0)
		bad_url(url, "The path must be /xrpc/ and an NSID, or end with /subscribe or /export/stream.");
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid event stream URL: \"%s\"", atp_quotable(url)),
			 errdetail("After /xrpc/ an NSID must stand, and \"%s\" is none.", atp_quotable(path + strlen(XRPC))),
			 errhint("Leave the path out for a relay or a PDS. The URL of a Jetstream looks like wss://host/subscribe.")));
}

/* People who want to follow an account give the account's DID or AT URI as URL of the server. */
static void
refuse_account(const char *url)
{
	static const char *const schemes[] = {"wss://", "ws://", "https://", "http://", "at://", NULL};
	const char *rest = url;
	const char *did;
	size_t		len;

	while ((len = scheme_length(rest, schemes)) > 0)
		rest += len;
	if (strncmp(rest, "did:", 4) != 0)
		return;
	did = atp_quotable(pnstrdup(rest, strcspn(rest, "/?#")));
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid event stream URL: \"%s\"", atp_quotable(url)),
			 errdetail("This is an account, not a server."),
			 errhint("Follow the account at its own server: CALL atproto.await('%s'), then SELECT atproto.subscribe('name', 'wss://' || pds, dids => ARRAY[did], backfill => 'repair') FROM atproto.resolve('%s') WHERE pds IS NOT NULL.",
					 did, did)));
}

/* E-01; whether ws:// is allowed, subscription_check.c decides. */
AtpEndpoint *
atp_endpoint_parse(const char *url)
{
	AtpEndpoint *ep = palloc0(sizeof(AtpEndpoint));
	CURLU	   *u;
	char	   *scheme,
			   *port,
			   *host,
			   *written,
			   *user;

	refuse_account(url);
	/* libcurl would take wss:/host, too */
	if (strstr(url, "://") == NULL)
		bad_url(url, "It does not begin with wss:// or ws://.");
	check_scheme(url, true);
	u = curl_url();
	if (u == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	if (curl_url_set(u, CURLUPART_URL, url, CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK)
	{
		curl_url_cleanup(u);
		check_scheme(url, false);
		bad_url(url, "It cannot be parsed.");
	}
	scheme = url_part(u, CURLUPART_SCHEME);
	host = url_host(u);
	written = url_part(u, CURLUPART_HOST);
	port = url_part(u, CURLUPART_PORT);
	user = url_part(u, CURLUPART_USER);
	ep->path = url_part(u, CURLUPART_PATH);
	ep->query = without_cursor(url_part(u, CURLUPART_QUERY));
	curl_url_cleanup(u);

	if (user != NULL)
		has_user();
	if (scheme == NULL || (strcmp(scheme, "wss") != 0 && strcmp(scheme, "ws") != 0))
		bad_url(url, "It does not begin with wss:// or ws://.");
	if (written == NULL || written[0] == '\0')
		bad_url(url, "There is no host.");
	if (host == NULL)
		bad_url(url, "The host must be written in ASCII, as IDNA says (xn--).");
	if (ep->path == NULL || strcmp(ep->path, "/") == 0 || ep->path[0] == '\0')
		ep->path = pstrdup(DEFAULT_PATH);
	for (const char *p = ep->path; *p; p++)
		if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
			bad_url(url, "The path has a character that must be escaped.");
	for (const char *p = ep->query; *p; p++)
		if ((unsigned char) *p <= ' ' || (unsigned char) *p >= 0x7f)
			bad_url(url, "The query has a character that must be escaped.");
	ep->stream = stream_of(ep->path);
	if (ep->stream == NULL)
		bad_path(url, ep->path);

	ep->tls = strcmp(scheme, "wss") == 0;
	if (port == NULL)
		port = pstrdup(ep->tls ? "443" : "80");
	ep->host = pstrdup(host);
	if (host[0] == '[')
	{
		ep->host = pstrdup(host + 1);
		ep->host[strcspn(ep->host, "]")] = '\0';
	}
	ep->loopback = is_loopback(ep->host);
	ep->authority = strcmp(port, ep->tls ? "443" : "80") == 0
		? host : psprintf("%s:%s", host, port);
	ep->origin = psprintf("%s://%s:%s", ep->tls ? "https" : "http", host, port);
	ep->scope = psprintf("%s://%s:%s%s", scheme, written, port, ep->path);
	return ep;
}

const char *
atp_proxy_fault(const char *proxy)
{
	static const char *const schemes[] = {"http", "https", "socks4", "socks4a", "socks5", "socks5h"};
	CURLU	   *u;
	char	   *scheme,
			   *path;
	bool		known = false;

	if (proxy[0] == '\0')
		return NULL;
	u = curl_url();
	if (u == NULL)
		return "There is no memory left.";
	/* parse as libcurl will parse the URL when connecting */
	if (curl_url_set(u, CURLUPART_URL, proxy, CURLU_NON_SUPPORT_SCHEME | CURLU_GUESS_SCHEME) != CURLUE_OK)
		scheme = path = NULL;
	else
	{
		scheme = url_part(u, CURLUPART_SCHEME);
		path = url_part(u, CURLUPART_PATH);
	}
	curl_url_cleanup(u);
	for (int i = 0; i < lengthof(schemes) && scheme != NULL; i++)
		known |= strcmp(scheme, schemes[i]) == 0;
	if (!known)
		return "It must look like http://host:port; other schemes are https, socks4, socks4a, socks5 and socks5h.";
	/* libcurl reads socks5://localhost/path as the path of a Unix-domain socket */
	if (path != NULL && path[0] != '\0' && strcmp(path, "/") != 0)
		return "It must not have a path.";
	return NULL;
}

void
atp_proxy_check(const char *proxy)
{
	const char *fault = atp_proxy_fault(proxy);

	/* the message does not quote the URL, which may have a password */
	if (fault != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid URL of a proxy"),
				 errdetail_internal("%s", fault),
				 errhint("NULL takes the proxy from the server's environment, and '' connects without a proxy.")));
}
