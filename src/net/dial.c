/*
 * dial.c
 *		From the name of a server to a stream of bytes, through libcurl
 *		(CURLOPT_CONNECT_ONLY): after connecting, the caller reads from and writes to
 *		libcurl's socket.
 *
 * libcurl resolves names in a thread.  A signal handler of the server must never run in this thread,
 * so all signals are blocked while libcurl may start one.  No call joins the thread, because name
 * servers may not answer for minutes (CURLOPT_QUICK_EXIT).  While signals are blocked, no code may
 * wait or work for long.
 */
#include "postgres.h"

#include <curl/curl.h>
#include <signal.h>
#include <time.h>

#include "net/ca_file.h"
#include "net/dial.h"
#include "storage/latch.h"

#define CONNECT_TIMEOUT_S	30L
#define CONNECT_STEP_MAX	(CLOCKS_PER_SEC / 2)	/* processor time; a handshake takes a hundredth of this */

struct AtpDial
{
	AtpDialState state;
	CURLM	   *multi;
	CURL	   *easy;
	curl_socket_t fd;
	clock_t		step_began;		/* in processor time of the process, see clock() */
	char		curl_error[CURL_ERROR_SIZE];
	char		error[512];
};

void
atp_dial_init(void)
{
	sigset_t	all,
				before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		ereport(ERROR, (errcode(ERRCODE_SYSTEM_ERROR), errmsg("could not initialize libcurl")));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static AtpDialState
fail_dial(AtpDial *dial, const char *why)
{
	strlcpy(dial->error, why, sizeof(dial->error));
	return dial->state = ATP_DIAL_FAILED;
}

/*
 * libcurl's progress callback: abort when a step has used too much processor time, so that a proxy which
 * sends without end cannot keep libcurl busy.
 */
static int
too_busy(void *arg, curl_off_t dltotal, curl_off_t dlnow, curl_off_t ultotal, curl_off_t ulnow)
{
	return clock() - ((AtpDial *) arg)->step_began > CONNECT_STEP_MAX;
}

static void
set_ca(AtpDial *dial, const char *path)
{
	struct curl_blob blob = {.flags = CURL_BLOB_COPY};
	const char *why;
	CURLcode	rc;

	blob.data = atp_ca_file_read(path, &blob.len, &why);
	if (blob.data == NULL)
	{
		(void) fail_dial(dial, why);
		return;
	}
	rc = curl_easy_setopt(dial->easy, CURLOPT_CAINFO_BLOB, &blob);
	/* only our file counts, not the directory of the system's authorities */
	if (rc == CURLE_OK)
		rc = curl_easy_setopt(dial->easy, CURLOPT_CAPATH, NULL);
	if (rc != CURLE_OK)
		(void) fail_dial(dial, curl_easy_strerror(rc));
	pfree(blob.data);
}

AtpDial *
atp_dial_start(const char *origin, const char *ca_file, const char *proxy)
{
	AtpDial    *dial = palloc0(sizeof(AtpDial));

	dial->fd = CURL_SOCKET_BAD;
	dial->multi = curl_multi_init();
	dial->easy = curl_easy_init();
	if (dial->multi == NULL || dial->easy == NULL)
	{
		atp_dial_free(dial);
		return NULL;
	}
	curl_easy_setopt(dial->easy, CURLOPT_URL, origin);
	curl_easy_setopt(dial->easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(dial->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(dial->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	curl_easy_setopt(dial->easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(dial->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
	curl_easy_setopt(dial->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	/*
	 * without this, curl_easy_recv() reads at most 16 kB at a time from the socket, however large the
	 * caller's buffer is
	 */
	curl_easy_setopt(dial->easy, CURLOPT_BUFFERSIZE, (long) ATP_DIAL_READ_MAX);
	curl_easy_setopt(dial->easy, CURLOPT_ERRORBUFFER, dial->curl_error);
#if LIBCURL_VERSION_NUM >= 0x075700
	curl_easy_setopt(dial->easy, CURLOPT_QUICK_EXIT, 1L);
#endif
#if LIBCURL_VERSION_NUM >= 0x081400
	curl_multi_setopt(dial->multi, CURLMOPT_QUICK_EXIT, 1L);
#endif
	curl_easy_setopt(dial->easy, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(dial->easy, CURLOPT_XFERINFOFUNCTION, too_busy);
	curl_easy_setopt(dial->easy, CURLOPT_XFERINFODATA, dial);
	/* basic authentication only: with Kerberos, libcurl blocks on the SOCKS proxy */
	curl_easy_setopt(dial->easy, CURLOPT_SOCKS5_AUTH, (long) CURLAUTH_BASIC);
	if (ca_file != NULL)
		set_ca(dial, ca_file);
	if (proxy != NULL)
	{
		/*
		 * an explicitly configured proxy is used for all hosts, whatever no_proxy in the environment excepts
		 */
		curl_easy_setopt(dial->easy, CURLOPT_PROXY, proxy);
		curl_easy_setopt(dial->easy, CURLOPT_NOPROXY, "");
	}
	if (curl_multi_add_handle(dial->multi, dial->easy) != CURLM_OK)
	{
		atp_dial_free(dial);
		return NULL;
	}
	return dial;
}

AtpDialState
atp_dial_step(AtpDial *dial)
{
	int			running = 0;
	int			left = 0;
	CURLMsg    *msg;
	sigset_t	all,
				before;

	if (dial->state != ATP_DIAL_CONNECTING)
		return dial->state;
	dial->step_began = clock();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	(void) curl_multi_perform(dial->multi, &running);
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	while ((msg = curl_multi_info_read(dial->multi, &left)) != NULL)
	{
		if (msg->msg != CURLMSG_DONE)
			continue;
		if (msg->data.result == CURLE_ABORTED_BY_CALLBACK)
			return fail_dial(dial, "the proxy sends too much before the connection stands");
		if (msg->data.result != CURLE_OK)
			return fail_dial(dial, dial->curl_error[0] ? dial->curl_error : curl_easy_strerror(msg->data.result));
		if (curl_easy_getinfo(dial->easy, CURLINFO_ACTIVESOCKET, &dial->fd) != CURLE_OK ||
			dial->fd == CURL_SOCKET_BAD)
			return fail_dial(dial, "the connection was cut at once");
		dial->state = ATP_DIAL_UP;
	}
	return dial->state;
}

/*
 * libcurl reports its sockets as fd_sets, which cannot hold a descriptor of FD_SETSIZE (1024) or more.  With
 * PostgreSQL's default of max_files_per_process, 1000, a process has no such descriptor.
 */
int
atp_dial_sockets(AtpDial *dial, AtpSocketWait *sockets, long *timeout_ms)
{
	fd_set		rd,
				wr,
				ex;
	int			max = -1;
	int			n = 0;

	FD_ZERO(&rd);
	FD_ZERO(&wr);
	FD_ZERO(&ex);
	(void) curl_multi_fdset(dial->multi, &rd, &wr, &ex, &max);
	(void) curl_multi_timeout(dial->multi, timeout_ms);
	for (int fd = 0; fd <= max && n < ATP_WAIT_SOCKETS; fd++)
	{
		uint32		events = (FD_ISSET(fd, &rd) ? WL_SOCKET_READABLE : 0) |
			(FD_ISSET(fd, &wr) ? WL_SOCKET_WRITEABLE : 0);

		if (events != 0)
			sockets[n++] = (AtpSocketWait) {fd, events};
	}
	/*
	 * While libcurl's resolver thread has no socket, only calling libcurl again shows whether the thread has
	 * finished.
	 */
	if (n == 0 && (*timeout_ms < 0 || *timeout_ms > 100))
		*timeout_ms = 100;
	return n;
}

const char *
atp_dial_error(const AtpDial *dial)
{
	return dial->error;
}

pgsocket
atp_dial_socket(const AtpDial *dial)
{
	return dial->fd;
}

ssize_t
atp_dial_read(AtpDial *dial, void *buf, size_t len)
{
	size_t		got = 0;
	CURLcode	rc = curl_easy_recv(dial->easy, buf, len, &got);

	if (rc == CURLE_AGAIN)
		return 0;
	return rc == CURLE_OK && got > 0 ? (ssize_t) got : -1;
}

ssize_t
atp_dial_write(AtpDial *dial, const void *data, size_t len)
{
	size_t		sent = 0;
	CURLcode	rc = curl_easy_send(dial->easy, data, len, &sent);

	if (rc == CURLE_AGAIN)
		return 0;
	return rc == CURLE_OK ? (ssize_t) sent : -1;
}

void
atp_dial_free(AtpDial *dial)
{
	if (dial == NULL)
		return;
	if (dial->easy != NULL && dial->multi != NULL)
		(void) curl_multi_remove_handle(dial->multi, dial->easy);
	if (dial->easy != NULL)
		curl_easy_cleanup(dial->easy);
	if (dial->multi != NULL)
		(void) curl_multi_cleanup(dial->multi);
	pfree(dial);
}
