/*
 * http_curl.c
 *		Sets the options of a request on libcurl's handle: protocols, TLS, proxy,
 *		headers and time limits.
 */
#include "postgres.h"

#include <sys/stat.h>

#include "net/ca_file.h"
#include "net/http_private.h"
#include "utils/memutils.h"

#define CONNECT_MS	5000L		/* for name, TCP and TLS together (W-55) */

/* The file of certificate authorities as read last; mtime and size tell whether the file has changed since. */
static struct
{
	char	   *path;			/* "": the system's authorities */
	time_t		mtime;
	off_t		size;
	struct curl_blob blob;
}			ca;

const char *
atp_http_ca_of(const AtpHttpRequest *request)
{
	const char *path = request->named ? request->ca_file : atp_fetch_ca_file;

	return path != NULL ? path : "";
}

const char *
atp_http_read_ca(const char *path)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	struct stat st = {0};
	const char *why = NULL;

	if (path[0] != '\0')
		(void) stat(path, &st);
	if (ca.path == NULL || strcmp(ca.path, path) != 0 || ca.mtime != st.st_mtime || ca.size != st.st_size)
	{
		if (ca.path != NULL)
			pfree(ca.path);
		if (ca.blob.data != NULL)
			pfree(ca.blob.data);
		ca.path = NULL;
		ca.blob.data = NULL;
		if (path[0] != '\0')
			ca.blob.data = atp_ca_file_read(path, &ca.blob.len, &why);
		if (why == NULL)
		{
			ca.path = pstrdup(path);
			ca.mtime = st.st_mtime;
			ca.size = st.st_size;
		}
	}
	MemoryContextSwitchTo(old);
	return why;
}

static struct curl_slist *
append_header(struct curl_slist *list, const char *header)
{
	struct curl_slist *more = list == NULL ? NULL : curl_slist_append(list, header);

	if (more == NULL)
		curl_slist_free_all(list);
	return more;
}

/* Append lines that end with CR and LF. */
static struct curl_slist *
append_lines(struct curl_slist *list, const char *lines)
{
	const char *end;

	for (; lines != NULL && (end = strstr(lines, "\r\n")) != NULL; lines = end + 2)
	{
		char	   *line = pnstrdup(lines, end - lines);

		list = append_header(list, line);
		pfree(line);
	}
	return list;
}

static void
set_protocol(CURL *e, const AtpHttp *http)
{
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	curl_easy_setopt(e, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	curl_easy_setopt(e, CURLOPT_HTTP_VERSION,
					 http->request.http2 ? (long) CURL_HTTP_VERSION_2TLS : (long) CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(e, CURLOPT_PIPEWAIT, http->request.http2 ? 1L : 0L);
	curl_easy_setopt(e, CURLOPT_HTTP09_ALLOWED, 0L);
	/* http.c follows redirects, where each new URL is checked */
	curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(e, CURLOPT_SSLVERSION, (long) CURL_SSLVERSION_TLSv1_2);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
	curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
	if (ca.blob.data != NULL)
	{
		ca.blob.flags = CURL_BLOB_COPY;
		curl_easy_setopt(e, CURLOPT_CAINFO_BLOB, &ca.blob);
		/* only our file counts, not the directory of the system's authorities */
		curl_easy_setopt(e, CURLOPT_CAPATH, NULL);
	}
}

/*
 * W-56: say who asks.  W-54: use nothing from the environment (.netrc, proxies) and no state between requests (cookies, HSTS).
 * libcurl has most of these off by default.
 */
static void
set_manners(CURL *e, const AtpHttpRequest *request)
{
	const char *proxy = request->named ? request->proxy : atp_fetch_proxy;

	char		agent[600];

	snprintf(agent, sizeof(agent), "pg_atproto/%s%s%.500s", ATP_EXTVERSION,
			 atp_fetch_contact[0] != '\0' ? " " : "", atp_fetch_contact);
	curl_easy_setopt(e, CURLOPT_USERAGENT, agent);
	curl_easy_setopt(e, CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
	/* of an operator's server as dial.c does: the environment's proxy, unless the subscription names one */
	if (proxy != NULL)
	{
		curl_easy_setopt(e, CURLOPT_PROXY, proxy);
		curl_easy_setopt(e, CURLOPT_NOPROXY, "");
	}
	/* basic authentication only: with Kerberos, libcurl blocks on the SOCKS proxy */
	curl_easy_setopt(e, CURLOPT_SOCKS5_AUTH, (long) CURLAUTH_BASIC);
	curl_easy_setopt(e, CURLOPT_HTTPPROXYTUNNEL, 1L);
	curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
	curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1L);
#endif
}

static void
set_limits(CURL *e, const AtpHttp *http)
{
	long		left = atp_remaining(atp_now(), http->started, http->request.whole_ms);

	curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, Max(left, 1L));
	curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
	if (http->request.slow_s > 0)
	{
		curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, (long) http->request.slow_bytes);
		curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long) http->request.slow_s);
	}
}

bool
atp_http_prepare(AtpHttp *http)
{
	const AtpHttpRequest *r = &http->request;
	CURL	   *e = http->easy;

	if (e == NULL)
	{
		char		accept[256];

		if ((http->easy = e = curl_easy_init()) == NULL)
			return false;
		/* libcurl must not decode bodies: see http_body.c */
		http->headers = curl_slist_append(NULL, r->gzip ? "Accept-Encoding: gzip" : "Accept-Encoding: identity");
		snprintf(accept, sizeof(accept), "Accept:%s%s", r->accept != NULL ? " " : "", r->accept != NULL ? r->accept : "");
		http->headers = append_header(http->headers, accept);
		http->headers = append_lines(http->headers, r->headers);
		if (r->post != NULL)
		{
			http->headers = append_header(append_header(http->headers, "Content-Type: application/json"), "Expect:");
			if (curl_easy_setopt(e, CURLOPT_COPYPOSTFIELDS, r->post) != CURLE_OK)
				return false;
		}
		if (http->headers == NULL)
			return false;
		curl_easy_setopt(e, CURLOPT_HTTPHEADER, http->headers);
		curl_easy_setopt(e, CURLOPT_HTTP_CONTENT_DECODING, 0L);
		curl_easy_setopt(e, CURLOPT_HTTP_TRANSFER_DECODING, 0L);
		set_protocol(e, http);
		set_manners(e, r);
		atp_http_listen(http);
	}
	set_limits(e, http);
	return curl_easy_setopt(e, CURLOPT_URL, http->url.url) == CURLE_OK;
}
