/*
 * connection.c
 *		One connection to an event stream: moves bytes between the socket (dial.c) and
 *		the layers that interpret them (handshake.c, websocket.c).
 */
#include "postgres.h"

#include "net/connection.h"
#include "net/dial.h"
#include "net/handshake.h"
#include "net/lines.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#define RECV_BUFFER			ATP_DIAL_READ_MAX
#define PATH_SHOWN			200
/* bytes read in one step before control returns to the owner; a frame can have 2 MB */
#define STEP_BUDGET			(4 * 1024 * 1024)

struct AtpConn
{
	MemoryContext cxt;
	AtpConnState state;
	AtpReceiver receiver;
	AtpEnd		end;
	AtpDial    *dial;
	AtpHandshake handshake;
	AtpWebSocket *ws;			/* NULL: not open, or a page */

	/* pages */
	bool		is_page;
	AtpLines	lines;
	char	   *page_headers;	/* of each request, with the empty line */
	int			pages;			/* how many were read */
	bool		persists;
	bool		stale;

	bool		more;			/* the last step ended although there was more to read */

	char	   *request;
	size_t		request_len;
	size_t		request_sent;
	char	   *hello;

	/*
	 * Bytes received, but not yet taken by the handshake or the WebSocket.  They are in the connection's own
	 * buffer or, within a step, in the receiver's memory.
	 */
	uint8_t    *buffer;
	uint8_t    *in;
	size_t		in_pos;
	size_t		in_len;
	bool		eof;
	uint64		bytes;
};

/* The connection's state: closed, if an end has been recorded. */
static AtpConnState
state_after(AtpConn *conn)
{
	if (conn->end.drop != ATP_DROP_NONE)
		conn->state = ATP_CONN_CLOSED;
	return conn->state;
}

/* Read from the socket, appending to the bytes received before.  False at the end of the stream. */
static bool
receive_bytes(AtpConn *conn, size_t room)
{
	ssize_t		got;

	if (conn->eof)
		return false;
	if (room == 0)
		return true;
	got = atp_dial_read(conn->dial, conn->in + conn->in_len, room);
	if (got < 0)
	{
		conn->eof = true;
		return false;
	}
	conn->in_len += got;
	conn->bytes += got;
	return true;
}

/* Read more of the HTTP answer.  The bytes before are kept until the answer is complete. */
static bool
receive_answer(AtpConn *conn)
{
	return receive_bytes(conn, RECV_BUFFER - conn->in_len);
}

/*
 * Read bytes of messages.  All earlier bytes have been taken; the receiver may lend the memory in which the
 * next bytes are to stay.
 */
static bool
receive_more(AtpConn *conn)
{
	size_t		room = RECV_BUFFER;

	conn->in = conn->receiver.room(conn->receiver.arg, &room);
	if (conn->in == NULL)
		conn->in = conn->buffer;
	conn->in_pos = conn->in_len = 0;
	return receive_bytes(conn, room);
}

/*
 * Move untaken bytes from the receiver's memory to our buffer.  The receiver may free or reuse its memory,
 * with the messages in it, before the next step.
 */
static void
keep_rest(AtpConn *conn)
{
	if (conn->in == conn->buffer)
		return;
	conn->in_len -= conn->in_pos;
	memcpy(conn->buffer, conn->in + conn->in_pos, conn->in_len);
	conn->in = conn->buffer;
	conn->in_pos = 0;
}

/* ------------------------------------------------------------------------
 * WebSocket
 * ------------------------------------------------------------------------
 */

/*
 * Send pending output until the socket takes no more.  False when the connection can take no output any more.
 */
static bool
send_pending(AtpConn *conn)
{
	const uint8_t *data;
	size_t		len;

	while (data = atp_websocket_output(conn->ws, &len), len > 0)
	{
		ssize_t		sent = atp_dial_write(conn->dial, data, len);

		if (sent <= 0)
			return sent == 0;
		atp_websocket_sent(conn->ws, sent);
	}
	return true;
}

/*
 * Give received bytes to the WebSocket, until the budget is used up or the WebSocket takes no more.  True
 * when the loop stopped before the socket was read empty.
 */
static bool
feed_websocket(AtpConn *conn, size_t budget)
{
	for (size_t taken = 0; taken < budget && atp_websocket_ready(conn->ws);)
	{
		size_t		n;

		if (conn->in_pos == conn->in_len && !receive_more(conn))
		{
			atp_end(&conn->end, ATP_DROP_CLOSED, "the connection was cut");
			return false;
		}
		if (conn->in_pos == conn->in_len)
			return false;
		n = atp_websocket_take(conn->ws, conn->in + conn->in_pos, conn->in_len - conn->in_pos);
		conn->in_pos += n;
		taken += n;
	}
	return true;
}

static AtpConnState
step_open(AtpConn *conn)
{
	/* the budget keeps a fast sender from occupying the process without end */
	bool		more = feed_websocket(conn, STEP_BUDGET);

	keep_rest(conn);
	if (!send_pending(conn))
		atp_end(&conn->end, ATP_DROP_CLOSED, "the connection was cut");
	/*
	 * a choked WebSocket reads again only after the peer has read our pongs, so do not ask to be called at
	 * once
	 */
	conn->more = more && !atp_websocket_choked(conn->ws);
	return state_after(conn);
}

/* ------------------------------------------------------------------------
 * Pages
 * ------------------------------------------------------------------------
 */

/* Send what the socket takes of the request; false when the connection can take no output any more. */
static bool
send_request(AtpConn *conn)
{
	while (conn->request_sent < conn->request_len)
	{
		ssize_t		n = atp_dial_write(conn->dial, conn->request + conn->request_sent, conn->request_len - conn->request_sent);

		if (n <= 0)
			return n == 0;
		conn->request_sent += n;
	}
	return true;
}

void
atp_conn_ask_page(AtpConn *conn, const char *target)
{
	MemoryContext old = MemoryContextSwitchTo(conn->cxt);
	char	   *request = psprintf("%sGET %s HTTP/1.1\r\n%s", conn->request + conn->request_sent, target, conn->page_headers);

	pfree(conn->request);
	conn->request = request;
	conn->request_len = strlen(request);
	conn->request_sent = 0;
	MemoryContextSwitchTo(old);
}

static AtpConnState
step_page(AtpConn *conn)
{
	size_t		budget = STEP_BUDGET;

	/* a server that closes behind the present page takes no request for another page: the next answer will not come */
	if (!send_request(conn))
		conn->request_sent = conn->request_len;
	for (;;)
	{
		const uint8_t *in = conn->in + conn->in_pos;
		size_t		n = conn->in_len - conn->in_pos;

		atp_lines_take(&conn->lines, &in, &n, &budget);
		conn->in_pos = in - conn->in;
		conn->more = atp_lines_pending(&conn->lines) || n > 0;
		if (conn->end.drop != ATP_DROP_NONE || conn->more || conn->lines.whole)
			break;
		/* all bytes were taken, so that the buffer may be used again */
		conn->in_pos = conn->in_len = 0;
		if (!receive_bytes(conn, RECV_BUFFER))
			atp_lines_closed(&conn->lines);
		conn->more = conn->in_len > 0;
		if (conn->in_len == 0 || (budget -= Min(budget, conn->in_len)) == 0)
			break;
	}
	if (conn->end.drop == ATP_DROP_NONE && conn->lines.read)
	{
		conn->pages++;
		conn->state = ATP_CONN_PAGE_READ;
	}
	return state_after(conn);
}

/* The owner may ask for the next page now, before this one is read. */
static AtpConnState
begin_page(AtpConn *conn)
{
	conn->in_pos = conn->handshake.answer.len;
	atp_lines_begin(&conn->lines, &conn->handshake.answer, &conn->receiver, &conn->end);
	conn->persists = !conn->lines.until_close && atp_http_persists(&conn->handshake.answer);
	conn->state = ATP_CONN_OPEN;
	conn->more = true;
	return state_after(conn);
}

void
atp_conn_next_page(AtpConn *conn)
{
	conn->in_len -= conn->in_pos;
	memmove(conn->buffer, conn->in + conn->in_pos, conn->in_len);
	conn->in = conn->buffer;
	conn->in_pos = 0;
	atp_handshake_next(&conn->handshake);
	conn->state = ATP_CONN_UPGRADING;
	conn->more = true;
}

static AtpConnState
begin_open(AtpConn *conn)
{
	conn->in_pos = conn->handshake.answer.len;
	conn->ws = atp_websocket_start(&conn->receiver, pg_strong_random, &conn->end);
	if (conn->ws == NULL)
	{
		atp_end(&conn->end, ATP_DROP_MEMORY, "out of memory");
		return state_after(conn);
	}
	/* E-08: the only message that a client sends, and only to servers that take filters this way */
	if (conn->hello != NULL)
		atp_websocket_text(conn->ws, conn->hello, strlen(conn->hello));
	conn->state = ATP_CONN_OPEN;
	return step_open(conn);
}

/* ------------------------------------------------------------------------
 * The handshake
 * ------------------------------------------------------------------------
 */
/* E-07: an Authorization header is sent only if the owner has entered the header in atproto.request_header. */
static void
build_request(AtpConn *conn, const AtpEndpoint *ep, const AtpConnOptions *options)
{
	uint8		nonce[16];
	char		none[1];
	char	   *headers = psprintf("User-Agent: atproto-postgresql/" ATP_EXTVERSION "\r\n%s", options->headers);

	if (!pg_strong_random(nonce, sizeof(nonce)))
		memset(nonce, 0x5a, sizeof(nonce)); /* a constant does if random numbers fail: Sec-WebSocket-Key is no secret */
	atp_handshake_start(&conn->handshake, nonce, options->protocol);
	conn->is_page = options->page;
	if (conn->is_page)
	{
		conn->page_headers = psprintf("Host: %s\r\n%sAccept: application/jsonlines, */*\r\nAccept-Encoding: gzip\r\n\r\n", ep->authority, headers);
		conn->request = pstrdup("");
		atp_conn_ask_page(conn, options->target);
		return;
	}
	conn->request_len = atp_handshake_request(&conn->handshake, ep->authority, options->target, headers,
											  none, sizeof(none));
	conn->request = palloc(conn->request_len + 1);
	(void) atp_handshake_request(&conn->handshake, ep->authority, options->target, headers,
								 conn->request, conn->request_len + 1);
}

/* Some servers answer nothing to an upgrade at a path that they do not know. */
static AtpConnState
cut_early(AtpConn *conn)
{
	const char *path = conn->request + strlen("GET ");

	conn->stale = conn->pages > 0 && conn->in_len == 0;
	if (conn->pages > 0)
		atp_end(&conn->end, ATP_DROP_CLOSED, "the connection was cut between two pages");
	atp_end(&conn->end, ATP_DROP_CONNECT, "the connection was cut before the upgrade; is \"%.*s\" the path of an event stream of this server?",
			Min((int) strcspn(path, " ?"), PATH_SHOWN), path);
	return state_after(conn);
}

static AtpConnState
step_upgrade(AtpConn *conn)
{
	AtpHandshakeState answer;
	size_t		before;
	bool		more;

	conn->more = false;
	if (!send_request(conn))
		return cut_early(conn);
	if (conn->request_sent < conn->request_len)
		return conn->state;
	do
	{
		before = conn->in_len;
		more = receive_answer(conn);
		answer = atp_handshake_answer(&conn->handshake, (char *) conn->in, conn->in_len);
	} while (answer == ATP_HANDSHAKE_MORE && conn->in_len > before);
	switch (answer)
	{
		case ATP_HANDSHAKE_DONE:
			return begin_open(conn);
		case ATP_HANDSHAKE_MORE:
			return more ? conn->state : cut_early(conn);
		case ATP_HANDSHAKE_REFUSED:
			if (conn->is_page && conn->handshake.answer.status == 200)
				return begin_page(conn);
			/*
			 * The answer's body may still be in transit: wait for a body that comes with the head or right
			 * after.
			 */
			if (receive_answer(conn) && atp_handshake_has_more(&conn->handshake, (char *) conn->in, conn->in_len))
				return conn->state;
			break;
		case ATP_HANDSHAKE_BROKEN:
			break;
	}
	atp_handshake_end(&conn->handshake, (char *) conn->in, conn->in_len, &conn->end);
	return state_after(conn);
}

/* ------------------------------------------------------------------------
 * All of it
 * ------------------------------------------------------------------------
 */
static AtpConnState
step_connect(AtpConn *conn)
{
	switch (atp_dial_step(conn->dial))
	{
		case ATP_DIAL_CONNECTING:
			break;
		case ATP_DIAL_UP:
			conn->state = ATP_CONN_UPGRADING;
			return step_upgrade(conn);
		case ATP_DIAL_FAILED:
			atp_end(&conn->end, ATP_DROP_CONNECT, "%s", atp_dial_error(conn->dial));
			break;
	}
	return state_after(conn);
}

AtpConn *
atp_conn_start(const AtpEndpoint *ep, const AtpConnOptions *options, const AtpReceiver *receiver)
{
	MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto connection",
											  ALLOCSET_DEFAULT_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	AtpConn    *conn = palloc0(sizeof(AtpConn));

	conn->cxt = cxt;
	conn->receiver = *receiver;
	conn->in = conn->buffer = palloc(RECV_BUFFER);
	build_request(conn, ep, options);
	conn->hello = options->hello != NULL ? pstrdup(options->hello) : NULL;
	conn->dial = atp_dial_start(ep->origin, ep->tls ? options->ca_file : NULL, options->proxy);
	MemoryContextSwitchTo(old);
	if (conn->dial == NULL)
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
			return conn->is_page ? step_page(conn) : step_open(conn);
		case ATP_CONN_PAGE_READ:
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
	return conn->ws != NULL && conn->state == ATP_CONN_OPEN && atp_websocket_choked(conn->ws);
}

/* Is there output which the socket has not taken yet? */
static bool
wants_write(AtpConn *conn)
{
	size_t		len = conn->request_len - conn->request_sent;

	if (conn->ws != NULL && conn->state == ATP_CONN_OPEN)
		(void) atp_websocket_output(conn->ws, &len);
	return len > 0;
}

int
atp_conn_sockets(AtpConn *conn, AtpSocketWait *sockets, long *timeout_ms)
{
	*timeout_ms = -1;
	if (conn->state == ATP_CONN_CLOSED || conn->state == ATP_CONN_PAGE_READ)
		return 0;
	if (conn->state == ATP_CONN_CONNECTING)
		return atp_dial_sockets(conn->dial, sockets, timeout_ms);
	if (conn->more)
		*timeout_ms = 0;
	sockets[0] = (AtpSocketWait) {
		atp_dial_socket(conn->dial),
		(atp_conn_choked(conn) ? 0 : WL_SOCKET_READABLE) | (wants_write(conn) ? WL_SOCKET_WRITEABLE : 0)
	};
	return 1;
}

void
atp_conn_ping(AtpConn *conn)
{
	if (conn->ws == NULL || conn->state != ATP_CONN_OPEN)
		return;
	atp_websocket_ping(conn->ws);
	(void) send_pending(conn);
}

void
atp_conn_close(AtpConn *conn, uint16_t code)
{
	if (conn->ws != NULL && conn->state == ATP_CONN_OPEN)
	{
		atp_websocket_close(conn->ws, code);
		(void) send_pending(conn);
	}
	conn->state = ATP_CONN_CLOSED;
}

void
atp_conn_free(AtpConn *conn)
{
	if (conn == NULL)
		return;
	atp_websocket_free(conn->ws);
	atp_lines_free(&conn->lines);
	atp_dial_free(conn->dial);
	MemoryContextDelete(conn->cxt);
}

AtpDrop
atp_conn_drop(const AtpConn *conn)
{
	return conn->end.drop;
}

const char *
atp_conn_error(const AtpConn *conn)
{
	return conn->end.why;
}

int
atp_conn_close_code(const AtpConn *conn)
{
	return conn->end.close_code;
}

const char *
atp_conn_close_reason(const AtpConn *conn)
{
	return conn->end.reason;
}

bool
atp_conn_is_stale(const AtpConn *conn)
{
	return conn->stale;
}

bool
atp_conn_persists(const AtpConn *conn)
{
	return conn->persists;
}

const AtpHttpHead *
atp_conn_answer(const AtpConn *conn)
{
	return &conn->handshake.answer;
}

const char *
atp_conn_http_error(const AtpConn *conn)
{
	return conn->handshake.error;
}

uint64
atp_conn_bytes(const AtpConn *conn)
{
	return conn->bytes;
}
