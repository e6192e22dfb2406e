/*
 * http_multi.c
 *		All requests: libcurl's multi handle. poll.c watches libcurl's sockets; this
 *		file keeps libcurl's timer and the lists of running and of ended requests.
 *
 * libcurl resolves names in threads.  A signal handler of the server must never run in these threads,
 * so all signals are blocked while libcurl works; libcurl never waits there.  No call joins a thread,
 * because name servers may not answer for minutes.
 */
#include "postgres.h"

#include <unistd.h>

#include "net/dial.h"
#include "net/hour.h"
#include "net/http_private.h"
#include "net/poll.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define CONNECTIONS_KEPT	64L

static CURLM *multi;
static AtpTime timer = -1;		/* the time at which libcurl wants to be called; -1: never */
static dlist_head running = DLIST_STATIC_INIT(running);
static dlist_head ended = DLIST_STATIC_INIT(ended);
static int	nrunning = 0;
static bool news = false;

static void
act_on_socket(curl_socket_t fd, int what)
{
	AtpSignals	before = atp_block_signals();
	int			n;

	(void) curl_multi_socket_action(multi, fd, what, &n);
	atp_unblock_signals(before);
}

static void
on_ready(pgsocket fd, uint32 events, void *arg)
{
	news = true;
	act_on_socket(fd, (events & WL_SOCKET_READABLE ? CURL_CSELECT_IN : 0) |
				  (events & WL_SOCKET_WRITEABLE ? CURL_CSELECT_OUT : 0));
}

static int
on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	uint32		events = 0;

	if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
		events |= WL_SOCKET_READABLE;
	if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
		events |= WL_SOCKET_WRITEABLE;
	atp_poll_set(fd, events, on_ready, NULL);
	return 0;
}

static int
on_timer(CURLM *handle, long timeout_ms, void *arg)
{
	timer = timeout_ms < 0 ? -1 : atp_now() + timeout_ms * INT64CONST(1000);
	return 0;
}

void
atp_http_begin(void)
{
	atp_dial_init();
	/* for glibc's resolver: a look-up at silent name servers, and its thread, ends soon */
	(void) setenv("RES_OPTIONS", "timeout:2 attempts:2", 0);
	if ((multi = curl_multi_init()) == NULL)
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("could not initialize libcurl")));
	curl_multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	curl_multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
	curl_multi_setopt(multi, CURLMOPT_MAXCONNECTS, CONNECTIONS_KEPT);
#if LIBCURL_VERSION_NUM >= 0x081400
	curl_multi_setopt(multi, CURLMOPT_QUICK_EXIT, 1L);
#endif
}

bool
atp_multi_add(AtpHttp *http)
{
	AtpSignals	before = atp_block_signals();

	http->added = curl_multi_add_handle(multi, http->easy) == CURLM_OK;
	atp_unblock_signals(before);
	if (http->added && !http->running)
	{
		http->running = true;
		dlist_push_tail(&running, &http->node);
		nrunning++;
	}
	return http->added;
}

void
atp_multi_remove(AtpHttp *http)
{
	AtpSignals	before = atp_block_signals();

	if (http->added)
		(void) curl_multi_remove_handle(multi, http->easy);
	http->added = http->paused = false;
	http->looking_up = 0;
	atp_unblock_signals(before);
}

/* Destroy the libcurl handle. libcurl keeps the connection in its pool if it can be used again. */
static void
close_handle(AtpHttp *http)
{
	AtpSignals	before;

	atp_multi_remove(http);
	before = atp_block_signals();
	curl_easy_cleanup(http->easy);
	curl_slist_free_all(http->headers);
	http->easy = NULL;
	http->headers = NULL;
	atp_unblock_signals(before);
	if (http->running)
	{
		http->running = false;
		dlist_delete(&http->node);
		nrunning--;
	}
}

void
atp_multi_ended(AtpHttp *http)
{
	close_handle(http);
	dlist_push_tail(&ended, &http->node);
	http->ended = true;
	news = true;
}

void
atp_multi_resume(AtpHttp *http)
{
	AtpSignals	before;

	http->paused = false;
	before = atp_block_signals();
	(void) curl_easy_pause(http->easy, CURLPAUSE_CONT);
	atp_unblock_signals(before);
}

/* End requests whose name look-up has reached its limit.  Returns the earliest limit still to come, or -1. */
static AtpTime
look_at_names(AtpTime now)
{
	AtpTime		next = -1;
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &running)
	{
		AtpHttp    *http = dlist_container(AtpHttp, node, it.cur);
		AtpTime		until = http->looking_up + ATP_HTTP_DNS_MS * INT64CONST(1000);

		if (http->looking_up == 0)
			continue;
		if (now >= until)
			atp_http_end(http, ATP_HTTP_DNS, "the name servers did not answer in time");
		else if (next < 0 || until < next)
			next = until;
	}
	return next;
}

void
atp_http_pump(void)
{
	CURLMsg    *msg;
	int			left;

	atp_poll_serve();
	/* before libcurl runs: libcurl's limit for name, TCP and TLS together would report the wrong reason */
	(void) look_at_names(atp_now());
	if (timer >= 0 && atp_now() >= timer)
	{
		timer = -1;
		act_on_socket(CURL_SOCKET_TIMEOUT, 0);
	}
	while ((msg = curl_multi_info_read(multi, &left)) != NULL)
	{
		char	   *http = NULL;

		if (msg->msg == CURLMSG_DONE &&
			curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &http) == CURLE_OK)
			atp_http_done((AtpHttp *) http, msg->data.result);
	}
	atp_hour_write();
}

long
atp_http_timeout(AtpTime now)
{
	AtpTime		next = look_at_names(now);

	if (timer >= 0 && (next < 0 || timer < next))
		next = timer;
	return news ? 0 : next < 0 ? -1 : atp_remaining(now, next, 0);
}

bool
atp_http_news(void)
{
	bool		result = news;

	news = false;
	return result;
}

AtpHttp *
atp_http_next(const void *owner)
{
	dlist_mutable_iter it;

	dlist_foreach_modify(it, &ended)
	{
		AtpHttp    *http = dlist_container(AtpHttp, node, it.cur);

		if (http->request.owner != owner)
			continue;
		dlist_delete(&http->node);
		http->ended = false;
		return http;
	}
	return NULL;
}

bool
atp_http_is_taken(const AtpHttp *http)
{
	return !http->running && !http->ended;
}

int
atp_http_running(void)
{
	return nrunning;
}

void
atp_http_free(AtpHttp *http)
{
	if (http == NULL)
		return;
	if (http->ended)
		dlist_delete(&http->node);
	else
		close_handle(http);
	http->body.stream = false;
	atp_body_reset(&http->body);
	MemoryContextDelete(http->cxt);
}
