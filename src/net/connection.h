/*
 * connection.h
 *		One connection to an event stream, non-blocking: a stream of bytes (dial.h), the
 *		handshake over it (handshake.h), then WebSocket (websocket.h), or the lines of a page (lines.h).
 *
 * No function here waits or raises an ERROR: the owner calls atp_conn_step(), looks at the state, and
 * waits for the sockets from atp_conn_sockets().  Reconnecting, and the meaning of messages, belong to
 * the owner.
 */
#ifndef ATP_CONNECTION_H
#define ATP_CONNECTION_H

#include "postgres.h"

#include "core/wire/http_head.h"
#include "net/drop.h"
#include "net/endpoint.h"
#include "net/wait.h"
#include "net/websocket.h"

typedef enum AtpConnState
{
	ATP_CONN_CONNECTING,		/* name, TCP, TLS */
	ATP_CONN_UPGRADING,			/* request sent, answer awaited */
	ATP_CONN_OPEN,				/* messages flow */
	ATP_CONN_PAGE_READ,			/* a page was read to its end, see atp_conn_next_page() */
	ATP_CONN_CLOSED				/* see atp_conn_drop() */
} AtpConnState;

typedef struct AtpConnOptions
{
	const char *target;			/* path and query of the request */
	const char *headers;		/* more header lines, each with its line end; may be "" */
	const char *ca_file;		/* NULL: the system's authorities */
	const char *proxy;			/* NULL: from the environment; "": no proxy */
	/* WebSocket subprotocol to offer; not copied, must outlive the connection; NULL: no subprotocol */
	const char *protocol;
	bool		page;			/* M-12: an ordinary request, and each line of the answer's body is a message */
	const char *hello;			/* text message to send as soon as the WebSocket is open; NULL: no message */
} AtpConnOptions;

typedef struct AtpConn AtpConn;

/* Begin to connect.  Everything but options->protocol is copied.  Returns NULL when out of memory. */
extern AtpConn *atp_conn_start(const AtpEndpoint *ep, const AtpConnOptions *options,
							   const AtpReceiver *receiver);

/* Do all work possible without waiting. */
extern AtpConnState atp_conn_step(AtpConn *conn);

extern AtpConnState atp_conn_state(const AtpConn *conn);

/*
 * Of a connection for pages, in state OPEN or PAGE_READ: ask for another page, by its path and query.  The answers come in
 * the order of the requests, and the next one is read after atp_conn_next_page(), which may be called in state PAGE_READ.
 */
extern void atp_conn_ask_page(AtpConn *conn, const char *target);
extern void atp_conn_next_page(AtpConn *conn);

/* May another page be asked for on this connection, by the head of the present page? */
extern bool atp_conn_persists(const AtpConn *conn);

/* The sockets to wait for next, and the longest time to wait (milliseconds, -1: no limit). */
extern int	atp_conn_sockets(AtpConn *conn, AtpSocketWait *sockets, long *timeout_ms);

/* Has reading stopped because the peer does not read our answers to its pings? */
extern bool atp_conn_choked(const AtpConn *conn);

/* Send a ping. */
extern void atp_conn_ping(AtpConn *conn);

/* Say goodbye with a close code, without waiting for the answer. */
extern void atp_conn_close(AtpConn *conn, uint16_t code);

/* Frees everything; NULL is allowed. */
extern void atp_conn_free(AtpConn *conn);

/* After ATP_CONN_CLOSED. */
extern AtpDrop atp_conn_drop(const AtpConn *conn);
extern const char *atp_conn_error(const AtpConn *conn); /* for people; never NULL */
extern int	atp_conn_close_code(const AtpConn *conn);	/* the peer's close code; 0: the peer sent no close frame */
extern const char *atp_conn_close_reason(const AtpConn *conn);	/* the peer's close reason, which may be cut; or "" */
extern bool atp_conn_is_stale(const AtpConn *conn); /* the server has closed between two pages, which is no fault */
extern const AtpHttpHead *atp_conn_answer(const AtpConn *conn);
extern const char *atp_conn_http_error(const AtpConn *conn);	/* the error name in an XRPC error answer, or "" */
extern uint64 atp_conn_bytes(const AtpConn *conn);	/* received, after TLS */

#endif							/* ATP_CONNECTION_H */
