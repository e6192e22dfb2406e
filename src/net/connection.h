/*
 * connection.h
 *		One connection to an event stream, non-blocking: a stream of bytes
 *		(dial.h), the handshake over it (handshake.h), WebSocket from then on
 *		(websocket.h).
 *
 * Nothing here waits or raises an ERROR: the owner calls atp_conn_step(), looks
 * at the state, and waits on what atp_conn_sockets() names.
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
	ATP_CONN_CLOSED				/* see atp_conn_drop() */
} AtpConnState;

typedef struct AtpConnOptions
{
	const char *target;			/* path and query of the request */
	const char *headers;		/* more header lines, each with its line end; may be "" */
	const char *ca_file;		/* NULL: the system's authorities */
	const char *proxy;			/* NULL: from the environment; "": none */
	const char *protocol;		/* a subprotocol to be offered, which stays as it is; NULL: none */
	const char *hello;			/* a text to be sent as soon as it is open; NULL: none */
} AtpConnOptions;

typedef struct AtpConn AtpConn;

/* Begin to connect.  Everything is copied.  Returns NULL when out of memory. */
extern AtpConn *atp_conn_start(const AtpEndpoint *ep, const AtpConnOptions *options,
							   const AtpReceiver *receiver);

/* Do all that can be done without waiting. */
extern AtpConnState atp_conn_step(AtpConn *conn);

extern AtpConnState atp_conn_state(const AtpConn *conn);

/* What to wait for next, and for how long at most (milliseconds, -1: no limit). */
extern int	atp_conn_sockets(AtpConn *conn, AtpSocketWait *sockets, long *timeout_ms);

/* Is nothing read because the peer does not read our answers to its pings? */
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
extern int	atp_conn_close_code(const AtpConn *conn);	/* the peer's; 0: none */
extern const AtpHttpHead *atp_conn_answer(const AtpConn *conn);
extern const char *atp_conn_http_error(const AtpConn *conn);	/* the name of an XRPC error in it, or "" */
extern uint64 atp_conn_bytes(const AtpConn *conn);	/* received, after TLS */

#endif							/* ATP_CONNECTION_H */
