/*
 * connection.c
 *		One WebSocket connection, non-blocking.
 *
 * libcurl resolves, connects, speaks to proxies and does TLS
 * (CURLOPT_CONNECT_ONLY); from then on its socket is ours to read and write
 * through curl_easy_recv() and curl_easy_send().  wslay, which has no socket
 * of its own, does the framing.
 *
 * libcurl resolves names in a thread.  A signal handler of the server must
 * never run there, so all signals are blocked while libcurl may start one; and
 * nobody waits for that thread's end, since name servers may not answer for
 * minutes.  While signals are blocked nothing may wait, nor work for long.
 */
#include "postgres.h"

#include <curl/curl.h>
#include <openssl/evp.h>
#include <signal.h>
#include <time.h>
#include <wslay/wslay.h>

#include "common/base64.h"
#include "core/frame.h"
#include "core/printable.h"
#include "net/ca_file.h"
#include "net/connection.h"
#include "port/pg_bswap.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define RECV_BUFFER			(256 * 1024)
#define STEP_BUDGET			(4 * 1024 * 1024)	/* bytes read before the owner has his turn; a frame can have 2 */
#define CONNECT_TIMEOUT_S	30L
#define CONNECT_STEP_MAX	(CLOCKS_PER_SEC / 2)	/* processor time: a handshake takes a hundredth of that */
#define ERROR_BODY_MAX		1024	/* bytes of an error answer that are shown */
#define CLOSE_TOO_LARGE		1009
#define REPLIES_MAX			64	/* pongs that wait to be sent before more is read */
#define WEBSOCKET_GUID		"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

struct AtpConn
{
	MemoryContext cxt;
	AtpConnState state;
	AtpConnOwner owner;
	CURLM	   *multi;
	CURL	   *easy;
	char		curl_error[CURL_ERROR_SIZE];
	clock_t		step_began;		/* by the process's time */
	curl_socket_t fd;
	bool		want_write;		/* a send came back with "again" */
	bool		more;			/* a step ended although there was more to read */
	size_t		budget;			/* bytes that the present step may still take */
	bool		eof;
	wslay_event_context_ptr ws;

	/* the upgrade */
	char	   *request;
	size_t		request_len;
	size_t		request_sent;
	char		accept[32];		/* the Sec-WebSocket-Accept that must come */
	AtpHttpHead	answer;

	/* the WebSocket message that is being received */
	uint8_t    *msg;
	size_t		msg_len;
	size_t		msg_cap;
	bool		in_data_frame;	/* and no ping or close frame in between */

	/* received, not yet taken by wslay or the upgrade */
	uint8_t    *in;
	size_t		in_pos;
	size_t		in_len;

	/* how it ended */
	AtpDrop		drop;
	int			close_code;
	char		error[512];
	uint64		bytes;
};

static const char *const drop_names[ATP_DROP_COUNT] = {
	[ATP_DROP_NONE] = "none",
	[ATP_DROP_CONNECT] = "connect",
	[ATP_DROP_HTTP] = "http",
	[ATP_DROP_CLOSED] = "closed",
	[ATP_DROP_WEBSOCKET] = "websocket",
	[ATP_DROP_TOO_LARGE] = "too large",
	[ATP_DROP_IDLE] = "idle",
	[ATP_DROP_MEMORY] = "memory",
	[ATP_DROP_FRAME] = "frame",
	[ATP_DROP_SEQ] = "seq",
	[ATP_DROP_ERROR_FRAME] = "error frame",
	[ATP_DROP_CLOCK] = "clock",
};

const char *
atp_drop_name(AtpDrop drop)
{
	return drop_names[drop];
}

static AtpConnState fail(AtpConn *conn, AtpDrop drop, const char *fmt,...) pg_attribute_printf(3, 4);

/* The connection is over; the first reason stays. */
static AtpConnState
fail(AtpConn *conn, AtpDrop drop, const char *fmt,...)
{
	if (conn->state != ATP_CONN_CLOSED)
	{
		va_list		args;

		va_start(args, fmt);
		vsnprintf(conn->error, sizeof(conn->error), fmt, args);
		va_end(args);
		/* what a peer wrote may be anything: keep log lines and UTF-8 intact */
		atp_make_printable(conn->error, strlen(conn->error));
		conn->drop = drop;
		conn->state = ATP_CONN_CLOSED;
	}
	return conn->state;
}

/* ------------------------------------------------------------------------
 * Bytes in and out, through libcurl
 * ------------------------------------------------------------------------
 */

/* Fill the buffer with what the socket has.  False at the end of the stream. */
static bool
fill(AtpConn *conn)
{
	size_t		got = 0;
	CURLcode	rc;

	if (conn->eof)
		return false;
	if (conn->in_pos == conn->in_len)
		conn->in_pos = conn->in_len = 0;
	if (conn->in_len == RECV_BUFFER)
		return true;
	rc = curl_easy_recv(conn->easy, conn->in + conn->in_len, RECV_BUFFER - conn->in_len, &got);
	if (rc == CURLE_AGAIN)
		return true;
	if (rc != CURLE_OK || got == 0)
	{
		conn->eof = true;
		return false;
	}
	conn->in_len += got;
	conn->bytes += got;
	return true;
}

/* Returns the number of bytes taken, 0 for "again", -1 for an error. */
static ssize_t
send_some(AtpConn *conn, const void *data, size_t len)
{
	size_t		sent = 0;
	CURLcode	rc = curl_easy_send(conn->easy, data, len, &sent);

	conn->want_write = rc == CURLE_AGAIN;
	if (rc == CURLE_AGAIN)
		return 0;
	return rc == CURLE_OK ? (ssize_t) sent : -1;
}

/* ------------------------------------------------------------------------
 * WebSocket, through wslay
 * ------------------------------------------------------------------------
 */
static ssize_t
ws_recv(wslay_event_context_ptr ws, uint8_t *buf, size_t len, int flags, void *arg)
{
	AtpConn    *conn = arg;
	size_t		n;

	if (conn->state == ATP_CONN_CLOSED)
	{
		wslay_event_set_error(ws, WSLAY_ERR_CALLBACK_FAILURE);
		return -1;
	}
	/*
	 * Back-pressure; nobody may keep us in here, with whatever he sends, nor fill
	 * our memory with answers that he does not read.
	 */
	if (conn->budget == 0 || !conn->owner.want(conn->owner.arg) || atp_conn_choked(conn))
	{
		conn->more = true;
		wslay_event_set_error(ws, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	if (conn->in_pos == conn->in_len && !fill(conn))
	{
		wslay_event_set_error(ws, WSLAY_ERR_CALLBACK_FAILURE);
		return -1;
	}
	n = Min(Min(len, conn->budget), conn->in_len - conn->in_pos);
	if (n == 0)
	{
		wslay_event_set_error(ws, WSLAY_ERR_WOULDBLOCK);
		return -1;
	}
	memcpy(buf, conn->in + conn->in_pos, n);
	conn->in_pos += n;
	conn->budget -= n;
	return n;
}

static ssize_t
ws_send(wslay_event_context_ptr ws, const uint8_t *data, size_t len, int flags, void *arg)
{
	ssize_t		sent = send_some(arg, data, len);

	if (sent > 0)
		return sent;
	wslay_event_set_error(ws, sent == 0 ? WSLAY_ERR_WOULDBLOCK : WSLAY_ERR_CALLBACK_FAILURE);
	return -1;
}

static int
ws_genmask(wslay_event_context_ptr ws, uint8_t *buf, size_t len, void *arg)
{
	return pg_strong_random(buf, len) ? 0 : -1;
}

/*
 * Messages are put together here, not by wslay, whose memory for a message
 * grows with the number of its fragments: a peer could send them byte by byte.
 */
static bool
make_room(AtpConn *conn, size_t more)
{
	size_t		cap = Max(conn->msg_cap, 16384);
	uint8_t    *bigger;

	if (conn->msg_len + more <= conn->msg_cap)
		return true;
	while (cap < conn->msg_len + more)
		cap *= 2;
	bigger = MemoryContextAllocExtended(conn->cxt, cap, MCXT_ALLOC_NO_OOM);
	if (bigger == NULL)
		return false;
	if (conn->msg != NULL)
	{
		memcpy(bigger, conn->msg, conn->msg_len);
		pfree(conn->msg);
	}
	conn->msg = bigger;
	conn->msg_cap = cap;
	return true;
}

static void
ws_frame_start(wslay_event_context_ptr ws, const struct wslay_event_on_frame_recv_start_arg *frame, void *arg)
{
	AtpConn    *conn = arg;

	conn->in_data_frame = !wslay_is_ctrl_frame(frame->opcode);
	/* wslay has checked the frame's own length */
	if (conn->in_data_frame && conn->msg_len + frame->payload_length > ATP_FRAME_MAX)
		fail(conn, ATP_DROP_TOO_LARGE, "a message is longer than %d bytes", ATP_FRAME_MAX);
}

static void
ws_frame_chunk(wslay_event_context_ptr ws, const struct wslay_event_on_frame_recv_chunk_arg *chunk, void *arg)
{
	AtpConn    *conn = arg;

	if (!conn->in_data_frame || chunk->data_length == 0 || conn->state == ATP_CONN_CLOSED)
		return;
	if (!make_room(conn, chunk->data_length))
	{
		fail(conn, ATP_DROP_MEMORY, "no memory for a message of more than %zu bytes", conn->msg_len);
		return;
	}
	memcpy(conn->msg + conn->msg_len, chunk->data, chunk->data_length);
	conn->msg_len += chunk->data_length;
}

static void
take_message(AtpConn *conn)
{
	if (conn->state == ATP_CONN_OPEN && !conn->owner.message(conn->owner.arg, conn->msg, conn->msg_len))
		fail(conn, ATP_DROP_MEMORY, "no memory for a message of %zu bytes", conn->msg_len);
	conn->msg_len = 0;
	/* one large message is no reason to keep its memory */
	if (conn->msg_cap > RECV_BUFFER)
	{
		pfree(conn->msg);
		conn->msg = NULL;
		conn->msg_cap = 0;
	}
}

static void
ws_message(wslay_event_context_ptr ws, const struct wslay_event_on_msg_recv_arg *msg, void *arg)
{
	AtpConn    *conn = arg;

	if (msg->opcode == WSLAY_BINARY_FRAME)
		take_message(conn);
	else if (msg->opcode == WSLAY_TEXT_FRAME)
		fail(conn, ATP_DROP_WEBSOCKET, "the server sent a text message");
	else if (msg->opcode == WSLAY_CONNECTION_CLOSE)
	{
		conn->close_code = msg->status_code;
		fail(conn, ATP_DROP_CLOSED, "the server closed the stream with code %d%s%.*s",
			 msg->status_code, msg->msg_length > 2 ? ": " : "",
			 (int) (msg->msg_length > 2 ? msg->msg_length - 2 : 0),
			 msg->msg_length > 2 ? (const char *) msg->msg + 2 : "");
	}
}

static AtpConnState
step_open(AtpConn *conn)
{
	int			rc;

	conn->more = false;
	conn->budget = STEP_BUDGET;
	rc = wslay_event_recv(conn->ws);
	if (conn->state == ATP_CONN_CLOSED)
		return conn->state;
	if (rc == WSLAY_ERR_CALLBACK_FAILURE && conn->eof)
		return fail(conn, ATP_DROP_CLOSED, "the connection was cut");
	if (rc != 0)
		return fail(conn, ATP_DROP_WEBSOCKET, "WebSocket error %d", rc);
	/* wslay answers what it cannot accept by queueing a close frame */
	if (wslay_event_get_read_enabled(conn->ws) == 0 || wslay_event_get_close_sent(conn->ws))
	{
		int			code;

		/* only what has been sent has a code */
		(void) wslay_event_send(conn->ws);
		code = wslay_event_get_status_code_sent(conn->ws);
		if (code == CLOSE_TOO_LARGE)
			return fail(conn, ATP_DROP_TOO_LARGE, "a message is longer than %d bytes", ATP_FRAME_MAX);
		return fail(conn, ATP_DROP_WEBSOCKET, "the server broke the WebSocket protocol (code %d)", code);
	}
	if (wslay_event_want_write(conn->ws) && wslay_event_send(conn->ws) != 0)
		return fail(conn, ATP_DROP_CLOSED, "the connection was cut");
	/* then only the peer can help */
	if (atp_conn_choked(conn))
		conn->more = false;
	return conn->state;
}

static AtpConnState
begin_open(AtpConn *conn)
{
	struct wslay_event_callbacks callbacks = {
		.recv_callback = ws_recv,
		.send_callback = ws_send,
		.genmask_callback = ws_genmask,
		.on_frame_recv_start_callback = ws_frame_start,
		.on_frame_recv_chunk_callback = ws_frame_chunk,
		.on_msg_recv_callback = ws_message,
	};

	if (wslay_event_context_client_init(&conn->ws, &callbacks, conn) != 0)
		return fail(conn, ATP_DROP_MEMORY, "out of memory");
	wslay_event_config_set_no_buffering(conn->ws, 1);
	wslay_event_config_set_max_recv_msg_length(conn->ws, ATP_FRAME_MAX);
	conn->state = ATP_CONN_OPEN;
	return step_open(conn);
}

/* ------------------------------------------------------------------------
 * The upgrade
 * ------------------------------------------------------------------------
 */
static void
build_request(AtpConn *conn, const AtpEndpoint *ep, const AtpConnOptions *options)
{
	uint8		nonce[16];
	char		key[32];
	char		proof[32 + sizeof(WEBSOCKET_GUID)];
	uint8		sha1[20];
	int			n;

	if (!pg_strong_random(nonce, sizeof(nonce)))
		memset(nonce, 0x5a, sizeof(nonce)); /* the key is no secret */
	n = pg_b64_encode((const void *) nonce, sizeof(nonce), key, sizeof(key) - 1);
	key[n] = '\0';
	snprintf(proof, sizeof(proof), "%s%s", key, WEBSOCKET_GUID);
	(void) EVP_Digest(proof, strlen(proof), sha1, NULL, EVP_sha1(), NULL);
	n = pg_b64_encode((const void *) sha1, sizeof(sha1), conn->accept, sizeof(conn->accept) - 1);
	conn->accept[n] = '\0';
	conn->request = psprintf("GET %s HTTP/1.1\r\n"
							 "Host: %s\r\n"
							 "Upgrade: websocket\r\n"
							 "Connection: Upgrade\r\n"
							 "Sec-WebSocket-Key: %s\r\n"
							 "Sec-WebSocket-Version: 13\r\n"
							 "User-Agent: atproto-postgresql/" ATP_EXTVERSION "\r\n"
							 "%s\r\n",
							 options->target, ep->authority, key, options->headers);
	conn->request_len = strlen(conn->request);
}

/* The answer was no upgrade: show as much of its body as has come (E-05). */
static AtpConnState
refused(AtpConn *conn)
{
	size_t		body = Min(conn->in_len - conn->answer.len, (size_t) ERROR_BODY_MAX);

	return fail(conn, ATP_DROP_HTTP, "HTTP status %d %.*s%s%.*s", conn->answer.status,
				(int) Min(conn->answer.reason.len, 60), conn->answer.reason.ptr, body > 0 ? ": " : "",
				(int) body, (char *) conn->in + conn->answer.len);
}

static AtpConnState
step_upgrade(AtpConn *conn)
{
	size_t		at;
	size_t		before;
	AtpErr		err;
	bool		more;

	while (conn->request_sent < conn->request_len)
	{
		ssize_t		n = send_some(conn, conn->request + conn->request_sent,
								  conn->request_len - conn->request_sent);

		if (n < 0)
			return fail(conn, ATP_DROP_CONNECT, "the connection was cut before the upgrade");
		if (n == 0)
			return conn->state;
		conn->request_sent += n;
	}
	/* until it says "again": what the TLS library has read already makes no socket readable */
	do
	{
		before = conn->in_len;
		more = fill(conn);
		err = atp_http_head_parse((char *) conn->in, conn->in_len, &conn->answer, &at);
	} while (err == ATP_E_HTTP_MORE && conn->in_len > before);
	if (err == ATP_E_HTTP_MORE)
		return more ? conn->state
			: fail(conn, ATP_DROP_CONNECT, "the connection was cut before the upgrade");
	if (err != ATP_OK)
		return fail(conn, ATP_DROP_WEBSOCKET, "%s", atp_err_text(err));
	if (conn->answer.status != 101)
	{
		/* its body may still be under way: take what comes with the head or right after */
		(void) fill(conn);
		return refused(conn);
	}
	if (!atp_http_is_websocket(&conn->answer, conn->accept))
		return fail(conn, ATP_DROP_WEBSOCKET, "the server's answer is no WebSocket upgrade");
	conn->in_pos = conn->answer.len;
	return begin_open(conn);
}

/* ------------------------------------------------------------------------
 * Name, TCP, TLS
 * ------------------------------------------------------------------------
 */

/* libcurl asks whether to go on: a proxy must not keep it busy for ever. */
static int
too_busy(void *arg, curl_off_t dltotal, curl_off_t dlnow, curl_off_t ultotal, curl_off_t ulnow)
{
	return clock() - ((AtpConn *) arg)->step_began > CONNECT_STEP_MAX;
}

static AtpConnState
step_connect(AtpConn *conn)
{
	int			running = 0;
	int			left = 0;
	CURLMsg    *msg;
	sigset_t	all,
				before;

	conn->step_began = clock();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	(void) curl_multi_perform(conn->multi, &running);
	pthread_sigmask(SIG_SETMASK, &before, NULL);

	while ((msg = curl_multi_info_read(conn->multi, &left)) != NULL)
	{
		if (msg->msg != CURLMSG_DONE)
			continue;
		if (msg->data.result == CURLE_ABORTED_BY_CALLBACK)
			return fail(conn, ATP_DROP_CONNECT, "the proxy sends too much before the connection stands");
		if (msg->data.result != CURLE_OK)
			return fail(conn, ATP_DROP_CONNECT, "%s",
						conn->curl_error[0] ? conn->curl_error : curl_easy_strerror(msg->data.result));
		if (curl_easy_getinfo(conn->easy, CURLINFO_ACTIVESOCKET, &conn->fd) != CURLE_OK ||
			conn->fd == CURL_SOCKET_BAD)
			return fail(conn, ATP_DROP_CONNECT, "the connection was cut at once");
		conn->state = ATP_CONN_UPGRADING;
		return step_upgrade(conn);
	}
	return conn->state;
}

static void
set_ca(AtpConn *conn, const char *path)
{
	struct curl_blob blob = {.flags = CURL_BLOB_COPY};
	const char *why;
	CURLcode	rc;

	blob.data = atp_ca_file_read(path, &blob.len, &why);
	if (blob.data == NULL)
	{
		fail(conn, ATP_DROP_CONNECT, "%s", why);
		return;
	}
	rc = curl_easy_setopt(conn->easy, CURLOPT_CAINFO_BLOB, &blob);
	/* instead of the system's, wherever libcurl looks for those */
	if (rc == CURLE_OK)
		rc = curl_easy_setopt(conn->easy, CURLOPT_CAPATH, NULL);
	if (rc != CURLE_OK)
		fail(conn, ATP_DROP_CONNECT, "%s", curl_easy_strerror(rc));
	pfree(blob.data);
}

AtpConn *
atp_conn_start(const AtpEndpoint *ep, const AtpConnOptions *options, const AtpConnOwner *owner)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto connection",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AtpConn    *conn = palloc0(sizeof(AtpConn));

	conn->cxt = cxt;
	conn->owner = *owner;
	conn->fd = CURL_SOCKET_BAD;
	conn->in = palloc(RECV_BUFFER);
	build_request(conn, ep, options);
	MemoryContextSwitchTo(old);

	conn->multi = curl_multi_init();
	conn->easy = curl_easy_init();
	if (conn->multi == NULL || conn->easy == NULL)
	{
		atp_conn_free(conn);
		return NULL;
	}
	curl_easy_setopt(conn->easy, CURLOPT_URL, ep->origin);
	curl_easy_setopt(conn->easy, CURLOPT_CONNECT_ONLY, 1L);
	curl_easy_setopt(conn->easy, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(conn->easy, CURLOPT_CONNECTTIMEOUT, CONNECT_TIMEOUT_S);
	curl_easy_setopt(conn->easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(conn->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
	curl_easy_setopt(conn->easy, CURLOPT_TCP_KEEPALIVE, 1L);
	curl_easy_setopt(conn->easy, CURLOPT_ERRORBUFFER, conn->curl_error);
#if LIBCURL_VERSION_NUM >= 0x075700
	curl_easy_setopt(conn->easy, CURLOPT_QUICK_EXIT, 1L);
#endif
#if LIBCURL_VERSION_NUM >= 0x081400
	curl_multi_setopt(conn->multi, CURLMOPT_QUICK_EXIT, 1L);
#endif
	curl_easy_setopt(conn->easy, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(conn->easy, CURLOPT_XFERINFOFUNCTION, too_busy);
	curl_easy_setopt(conn->easy, CURLOPT_XFERINFODATA, conn);
	/* with Kerberos, libcurl waits for a SOCKS proxy */
	curl_easy_setopt(conn->easy, CURLOPT_SOCKS5_AUTH, (long) CURLAUTH_BASIC);
	if (ep->tls && options->ca_file != NULL)
		set_ca(conn, options->ca_file);
	if (options->proxy != NULL)
	{
		/* a proxy that was asked for is used, whatever the environment excepts */
		curl_easy_setopt(conn->easy, CURLOPT_PROXY, options->proxy);
		curl_easy_setopt(conn->easy, CURLOPT_NOPROXY, "");
	}
	if (curl_multi_add_handle(conn->multi, conn->easy) != CURLM_OK)
	{
		atp_conn_free(conn);
		return NULL;
	}
	return conn;
}

AtpConnState
atp_conn_step(AtpConn *conn)
{
	switch (conn->state)
	{
		case ATP_CONN_CONNECTING:
			return step_connect(conn);
		case ATP_CONN_UPGRADING:
			return step_upgrade(conn);
		case ATP_CONN_OPEN:
			return step_open(conn);
		case ATP_CONN_CLOSED:
			break;
	}
	return conn->state;
}

AtpConnState
atp_conn_state(const AtpConn *conn)
{
	return conn->state;
}

bool
atp_conn_choked(const AtpConn *conn)
{
	return conn->state == ATP_CONN_OPEN && wslay_event_get_queued_msg_count(conn->ws) > REPLIES_MAX;
}

/* libcurl names its sockets as fd_sets; below FD_SETSIZE, as ours are. */
static int
connecting_sockets(AtpConn *conn, AtpSocketWait *sockets, long *timeout_ms)
{
	fd_set		rd,
				wr,
				ex;
	int			max = -1;
	int			n = 0;

	FD_ZERO(&rd);
	FD_ZERO(&wr);
	FD_ZERO(&ex);
	(void) curl_multi_fdset(conn->multi, &rd, &wr, &ex, &max);
	(void) curl_multi_timeout(conn->multi, timeout_ms);
	for (int fd = 0; fd <= max && n < ATP_WAIT_SOCKETS; fd++)
	{
		uint32		events = (FD_ISSET(fd, &rd) ? WL_SOCKET_READABLE : 0) |
			(FD_ISSET(fd, &wr) ? WL_SOCKET_WRITEABLE : 0);

		if (events != 0)
			sockets[n++] = (AtpSocketWait) {fd, events};
	}
	/* the resolver's thread may have no socket yet: libcurl asks for a look now and then */
	if (n == 0 && (*timeout_ms < 0 || *timeout_ms > 100))
		*timeout_ms = 100;
	return n;
}

/* Is something left that the socket did not take? */
static bool
wants_write(AtpConn *conn)
{
	return conn->state == ATP_CONN_OPEN ? wslay_event_want_write(conn->ws) : conn->want_write;
}

int
atp_conn_sockets(AtpConn *conn, AtpSocketWait *sockets, long *timeout_ms)
{
	*timeout_ms = -1;
	if (conn->state == ATP_CONN_CLOSED)
		return 0;
	if (conn->state == ATP_CONN_CONNECTING)
		return connecting_sockets(conn, sockets, timeout_ms);
	if (conn->more)
		*timeout_ms = 0;
	sockets[0] = (AtpSocketWait) {
		conn->fd,
		(atp_conn_choked(conn) ? 0 : WL_SOCKET_READABLE) | (wants_write(conn) ? WL_SOCKET_WRITEABLE : 0)
	};
	return 1;
}

void
atp_conn_ping(AtpConn *conn)
{
	struct wslay_event_msg ping = {.opcode = WSLAY_PING};

	/* one that has not been sent yet is enough */
	if (conn->state != ATP_CONN_OPEN || wslay_event_want_write(conn->ws))
		return;
	if (wslay_event_queue_msg(conn->ws, &ping) == 0)
		(void) wslay_event_send(conn->ws);
}

void
atp_conn_close(AtpConn *conn, uint16_t code)
{
	if (conn->state == ATP_CONN_OPEN && wslay_event_queue_close(conn->ws, code, NULL, 0) == 0)
		(void) wslay_event_send(conn->ws);
	conn->state = ATP_CONN_CLOSED;
}

void
atp_conn_free(AtpConn *conn)
{
	if (conn == NULL)
		return;
	if (conn->ws != NULL)
		wslay_event_context_free(conn->ws);
	if (conn->easy != NULL && conn->multi != NULL)
		(void) curl_multi_remove_handle(conn->multi, conn->easy);
	if (conn->easy != NULL)
		curl_easy_cleanup(conn->easy);
	if (conn->multi != NULL)
		(void) curl_multi_cleanup(conn->multi);
	MemoryContextDelete(conn->cxt);
}

AtpDrop
atp_conn_drop(const AtpConn *conn)
{
	return conn->drop;
}

const char *
atp_conn_error(const AtpConn *conn)
{
	return conn->error;
}

int
atp_conn_close_code(const AtpConn *conn)
{
	return conn->close_code;
}

const AtpHttpHead *
atp_conn_answer(const AtpConn *conn)
{
	return &conn->answer;
}

uint64
atp_conn_bytes(const AtpConn *conn)
{
	return conn->bytes;
}
