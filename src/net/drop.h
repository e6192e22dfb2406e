/*
 * drop.h
 *		Why a connection ended: the closed list that statistics count, and a text for
 *		people.  Needs no PostgreSQL header.
 */
#ifndef ATP_DROP_H
#define ATP_DROP_H

#include <stdbool.h>

typedef enum AtpDrop
{
	ATP_DROP_NONE,
	ATP_DROP_CONNECT,			/* name, TCP or TLS failed */
	ATP_DROP_HTTP,				/* the answer was no upgrade: see atp_conn_answer() */
	ATP_DROP_CLOSED,			/* the peer closed: close_code, or 0 */
	/* violation of the WebSocket protocol, or a text or binary message where the format has none (E-10) */
	ATP_DROP_WEBSOCKET,
	ATP_DROP_TOO_LARGE,			/* message over the limit (E-11) */
	ATP_DROP_IDLE,				/* nothing came in time */
	ATP_DROP_MEMORY,			/* a message could not be stored */
	ATP_DROP_COMPRESSION,		/* a compressed message is broken, or was compressed with another dictionary */
	/* raised by the consumer, not by the connection */
	ATP_DROP_FRAME,				/* E-24: invalid framing or DAG-CBOR */
	ATP_DROP_SEQ,				/* E-40, E-41 */
	ATP_DROP_ERROR_FRAME,		/* E-28 */
	ATP_DROP_CLOCK,				/* F-03: this machine's clock is behind */
	ATP_DROP_LIMIT,				/* a limit of the whole database is reached: disk, or requests of an hour */
	ATP_DROP_COUNT
} AtpDrop;

extern const char *atp_drop_name(AtpDrop drop);

/*
 * Is a new connection at the same cursor likely to fail for the same reason (E-48)?  Close codes by which the
 * server says that either side broke the protocol count, too (E-51).
 */
extern bool atp_drop_is_about_contents(AtpDrop drop, int close_code);

/* How one connection ended.  All zeros: the connection has not ended. */
typedef struct AtpEnd
{
	AtpDrop		drop;
	int			close_code;		/* the peer's close code; 0: none */
	char		reason[32];		/* the begin of the peer's close reason; "": none */
	char		why[512];		/* printable ASCII, whatever a peer wrote */
} AtpEnd;

/* Record the end of a connection; the first recorded reason stays. */
extern void atp_end(AtpEnd *end, AtpDrop drop, const char *fmt, ...)
			__attribute__((format(printf, 3, 4)));

#endif							/* ATP_DROP_H */
