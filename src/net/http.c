/*
 * http.c
 *		One request, from its start over redirects to its answer.  Bytes, sockets and
 *		libcurl's callbacks are in other files: see http_private.h.
 */
#include "postgres.h"

#include "core/syntax/markup.h"
#include "core/syntax/printable.h"
#include "net/hour.h"
#include "net/http_private.h"
#include "utils/memutils.h"

#define WHOLE_MS		10000
#define BODY_MAX		65536
#define URL_SHOWN		500
#define BODY_SHOWN		200		/* W-58 */
#define PAGE_READ		8192	/* the text of a page is looked for in so many bytes */

static AtpHttpRedirect may_redirect = NULL;

static const char *const outcome_names[] = {
	[ATP_HTTP_OK] = "ok",
	[ATP_HTTP_POLICY] = "policy",
	[ATP_HTTP_ADDRESS] = "address",
	[ATP_HTTP_DNS] = "dns",
	[ATP_HTTP_CONNECT] = "connect",
	[ATP_HTTP_TLS] = "tls",
	[ATP_HTTP_TIMEOUT] = "timeout",
	[ATP_HTTP_SLOW] = "slow",
	[ATP_HTTP_TOO_LARGE] = "too_large",
	[ATP_HTTP_REDIRECT] = "redirect",
	[ATP_HTTP_BUSY] = "busy",
	[ATP_HTTP_SETTINGS] = "settings",
	[ATP_HTTP_BROKEN] = "broken",
};

const char *
atp_http_outcome_name(int outcome)
{
	return outcome_names[outcome];
}

void
atp_http_init(void)
{
	atp_http_policy_init();
	atp_hour_init();
}

void
atp_http_on_redirect(AtpHttpRedirect redirect)
{
	may_redirect = redirect;
}

/* At most n characters of a stranger's text, all made printable; in the current context. */
static char *
shown_text(const char *text, size_t n)
{
	size_t		len = strlen(text);
	char	   *copy = len > n ? psprintf("%.*s...", (int) n, text) : pstrdup(text);

	atp_make_printable(copy, strlen(copy));
	return copy;
}

/* The beginning of an error's body, without markup if the body is a page of HTML. */
static char *
shown_body(const char *body)
{
	char	   *copy = pnstrdup(body, PAGE_READ);

	copy[atp_strip_markup(copy, strlen(copy))] = '\0';
	return shown_text(copy, BODY_SHOWN);
}

/* Fill in the answer from the data received so far. */
static void
fill_answer(AtpHttp *http, AtpHttpOutcome outcome, const char *why)
{
	AtpHttpAnswer *a = &http->answer;
	MemoryContext old = MemoryContextSwitchTo(http->cxt);
	const char *url = shown_text(http->url.url, URL_SHOWN);

	a->outcome = outcome;
	a->status = http->status;
	a->url = http->url.url;
	a->host = http->url.host;
	a->content_type = http->content_type[0] != '\0' ? http->content_type : NULL;
	a->body = http->body.stream ? NULL : http->body.kept != NULL ? http->body.kept : "";
	a->body_len = http->body.len;
	a->error = NULL;
	if (outcome != ATP_HTTP_OK)
		a->error = psprintf("%s: %s", url, shown_text(why, 2 * BODY_SHOWN));
	else if (http->status < 200 || http->status > 299)
	{
		const char *body = shown_body(a->body != NULL ? a->body : "");

		a->error = psprintf("%s: HTTP status %d%s%s", url, http->status, body[0] != '\0' ? ": " : "", body);
	}
	MemoryContextSwitchTo(old);
}

void
atp_http_end(AtpHttp *http, AtpHttpOutcome outcome, const char *why)
{
	fill_answer(http, outcome, why);
	atp_multi_ended(http);
}

/* Send the request to http->url. */
static void
send_request(AtpHttp *http)
{
	http->curl_error[0] = '\0';
	atp_hour_request();
	if (!atp_http_prepare(http) || !atp_multi_add(http))
		atp_http_end(http, ATP_HTTP_BROKEN, "out of memory");
}

AtpHttp *
atp_http_start(const AtpHttpRequest *request)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto request", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AtpHttp    *http = palloc0(sizeof(AtpHttp));
	const char *why;

	http->cxt = cxt;
	http->request = *request;
	http->request.url = pstrdup(request->url);
	http->request.accept = request->accept != NULL ? pstrdup(request->accept) : NULL;
	http->request.post = request->post != NULL ? pstrdup(request->post) : NULL;
	http->request.headers = request->headers != NULL ? pstrdup(request->headers) : NULL;
	http->request.ca_file = request->ca_file != NULL ? pstrdup(request->ca_file) : NULL;
	http->request.proxy = request->proxy != NULL ? pstrdup(request->proxy) : NULL;
	if (http->request.whole_ms <= 0)
		http->request.whole_ms = WHOLE_MS;
	http->body.max = request->body_max > 0 ? request->body_max : BODY_MAX;
	http->body.raw_max = request->ahead_max > 0 ? request->ahead_max : ATP_HTTP_RAW_MAX;
	http->answer.retry_after_s = http->answer.limit = http->answer.remaining = http->answer.reset_s = -1;
	http->answer.length = http->answer.range_from = http->answer.range_total = -1;
	http->started = atp_now();
	why = atp_http_url(http->request.url, &http->url);
	/* H-01: the server is an operator's choice, as the stream's is; the URL was taken apart all the same */
	if (http->request.named && http->url.url != NULL)
		why = NULL;
	if (http->url.url == NULL)
		http->url.url = pstrdup(http->request.url);
	if (http->url.host == NULL)
		http->url.host = "";
	if (why != NULL)
		atp_http_end(http, ATP_HTTP_POLICY, why);
	else if ((why = atp_http_read_ca(atp_http_ca_of(request))) != NULL)
		atp_http_end(http, ATP_HTTP_SETTINGS, why);
	else
		send_request(http);
	MemoryContextSwitchTo(old);
	return http;
}

/* The limit that has passed: libcurl has a single error code for all time limits. */
static AtpHttpOutcome
which_timeout(AtpHttp *http)
{
	curl_off_t	connected = 0;
	curl_off_t	secured = 0;

	if (atp_remaining(atp_now(), http->started, http->request.whole_ms) == 0)
		return ATP_HTTP_TIMEOUT;
	(void) curl_easy_getinfo(http->easy, CURLINFO_CONNECT_TIME_T, &connected);
	(void) curl_easy_getinfo(http->easy, CURLINFO_PRETRANSFER_TIME_T, &secured);
	return http->looking_up != 0 ? ATP_HTTP_DNS : connected == 0 ? ATP_HTTP_CONNECT :
		secured == 0 ? ATP_HTTP_TLS : ATP_HTTP_SLOW;
}

static AtpHttpOutcome
classify_outcome(AtpHttp *http, CURLcode rc)
{
	switch (rc)
	{
		case CURLE_COULDNT_RESOLVE_HOST:
			return ATP_HTTP_DNS;
		case CURLE_COULDNT_RESOLVE_PROXY:
		case CURLE_COULDNT_CONNECT:
		case CURLE_PROXY:
			/*
			 * a callback refused one address of several, and connecting to the remaining ones failed: report
			 * the refusal
			 */
			return http->why != ATP_HTTP_OK ? http->why : ATP_HTTP_CONNECT;
		case CURLE_SSL_CONNECT_ERROR:
		case CURLE_PEER_FAILED_VERIFICATION:
		case CURLE_SSL_CERTPROBLEM:
		case CURLE_SSL_CIPHER:
		case CURLE_SSL_ISSUER_ERROR:
		case CURLE_SSL_INVALIDCERTSTATUS:
		case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
			return ATP_HTTP_TLS;
		case CURLE_SSL_CACERT_BADFILE:
			return ATP_HTTP_SETTINGS;
		case CURLE_OPERATION_TIMEDOUT:
			return which_timeout(http);
		case CURLE_WRITE_ERROR:
			return http->why != ATP_HTTP_OK ? http->why : ATP_HTTP_BROKEN;
		default:
			return ATP_HTTP_BROKEN;
	}
}

static bool
is_redirect(int status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* W-53: follow a redirect.  The new URL has to pass the same checks as a URL from a task. */
static void
follow_redirect(AtpHttp *http)
{
	char	   *location = NULL;
	AtpHttpUrl	to;
	const char *why;

	if (http->redirected++ == http->request.redirects)
	{
		atp_http_end(http, ATP_HTTP_REDIRECT, "there are too many redirects");
		return;
	}
	(void) curl_easy_getinfo(http->easy, CURLINFO_REDIRECT_URL, &location);
	if (location == NULL)
	{
		atp_http_end(http, ATP_HTTP_REDIRECT, "it redirects to nowhere");
		return;
	}
	why = atp_http_url(location, &to);
	if (why == NULL && http->url.tls && !to.tls)
		why = "from https to http";
	if (why != NULL)
	{
		atp_http_end(http, ATP_HTTP_REDIRECT, psprintf("it redirects to %s: %s", shown_text(location, BODY_SHOWN), why));
		return;
	}
	if (may_redirect != NULL && strcmp(http->url.host, to.host) != 0 && !may_redirect(http, http->url.host, to.host))
	{
		atp_http_end(http, ATP_HTTP_BUSY, psprintf("it redirects to %s, which has to rest", to.host));
		return;
	}
	atp_multi_remove(http);
	atp_body_reset(&http->body);
	http->url = to;
	http->status = 0;
	http->why = ATP_HTTP_OK;
	http->has_head = http->cut = http->in_chunks = false;
	http->body.stream = false;
	http->body.max = http->request.body_max > 0 ? http->request.body_max : BODY_MAX;
	send_request(http);
}

void
atp_http_done(AtpHttp *http, CURLcode rc)
{
	MemoryContext old = MemoryContextSwitchTo(http->cxt);

	if (rc != CURLE_OK && !(rc == CURLE_WRITE_ERROR && http->cut))
	{
		AtpHttpOutcome outcome = classify_outcome(http, rc);
		const char *why = outcome == http->why && http->why_text != NULL ? http->why_text :
			outcome == ATP_HTTP_TIMEOUT ? "it took too long" :
			http->curl_error[0] != '\0' ? http->curl_error : curl_easy_strerror(rc);

		/* with a proxy, the address was the proxy's */
		if (outcome == ATP_HTTP_ADDRESS && atp_fetch_proxy[0] == '\0')
			why = atp_http_advise(&http->url, why);
		atp_http_end(http, outcome, why);
	}
	else if (is_redirect(http->status) && http->request.redirects > 0)
	{
		/* libcurl tells the redirect's target only when the transfer is complete */
		if (http->cut)
			atp_http_end(http, ATP_HTTP_TOO_LARGE, "the redirect has too large a body");
		else
			follow_redirect(http);
	}
	else if (!http->has_head)
		atp_http_end(http, ATP_HTTP_BROKEN, "there is no answer");
	else if (!http->cut && ((http->chunked.around > 0 && !atp_chunked_is_whole(&http->chunked)) ||
							(!http->body.stream && !atp_body_is_whole(&http->body))))
		atp_http_end(http, ATP_HTTP_BROKEN, "the answer's encoding is wrong");
	else
		atp_http_end(http, ATP_HTTP_OK, NULL);
	MemoryContextSwitchTo(old);
}

const AtpHttpAnswer *
atp_http_answer(const AtpHttp *http)
{
	return http->running ? NULL : &http->answer;
}

bool
atp_http_is_later(const AtpHttpAnswer *answer)
{
	return answer->outcome == ATP_HTTP_BUSY || answer->outcome == ATP_HTTP_SETTINGS || answer->status == 429 || answer->status == 503;
}

int
atp_http_status(const AtpHttp *http)
{
	return !http->has_head || (is_redirect(http->status) && http->request.redirects > 0) ? 0 : http->status;
}

const AtpHttpAnswer *
atp_http_head(const AtpHttp *http)
{
	return atp_http_status(http) != 0 ? &http->answer : NULL;
}

size_t
atp_http_read(AtpHttp *http, void *buf, size_t size)
{
	AtpHttpBodyResult result = ATP_BODY_TAKEN;
	size_t		got = 0;

	if (http->body.stream)
		got = atp_body_read(&http->body, buf, size, &result);
	if (result == ATP_BODY_TAKEN && http->body.stream && got == 0 && !http->running &&
		http->answer.outcome == ATP_HTTP_OK && !atp_body_is_whole(&http->body))
		result = ATP_BODY_BROKEN;
	if (result != ATP_BODY_TAKEN)
	{
		AtpHttpOutcome outcome;
		const char *why = atp_body_fault(result, &outcome);

		if (http->running)
			atp_http_end(http, outcome, why);
		else
			fill_answer(http, outcome, why);
	}
	else if (http->paused && atp_body_has_room(&http->body))
		atp_multi_resume(http);
	http->answer.body_len = http->body.len;
	return got;
}

void *
atp_http_arg(const AtpHttp *http)
{
	return http->request.arg;
}

void *
atp_http_place(const AtpHttp *http)
{
	return http->request.place;
}

const char *
atp_http_host(const AtpHttp *http)
{
	return http->url.host;
}
