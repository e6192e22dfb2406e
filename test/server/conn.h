/*
 * conn.h
 *		One connection: request, WebSocket stream, end.
 */
#ifndef SRV_CONN_H
#define SRV_CONN_H

#include "log.h"
#include "player.h"
#include "transport.h"

#include <wslay/wslay.h>

typedef enum ConnState
{
	CONN_REQUEST,				/* reading the HTTP request */
	CONN_SILENT,				/* --no-upgrade-reply */
	CONN_STREAM,				/* replaying */
	CONN_CLOSING,				/* close frame sent: its answer is awaited */
	CONN_LAST_BYTES,			/* what is buffered goes out, then no more */
	CONN_DRAIN,					/* output ended: waiting for the peer to end too */
	CONN_DONE
} ConnState;

typedef struct Conn
{
	int64_t	   *counter;		/* of the server: streams that were asked for */
	int64_t		number;			/* from 1, once it has asked for a stream */
	const Options *options;
	ConnState	state;
	Transport	transport;
	Buffer		in;
	Buffer		out;
	wslay_frame_context_ptr sender; /* our frames */
	wslay_event_context_ptr receiver;	/* the client's, and pongs to them */
	Player		player;
	bool		compressed;		/* messages are zstd */
	bool		waits;			/* for the client's first message (requireHello) */
	bool		idle;			/* the player has nothing for now */
	bool		broken;			/* end as a broken line does */
	bool		reset;			/* end with an RST */
	int64_t		start;			/* of the stream, or of its part that has a rate; microseconds */
	int64_t		unpaced;		/* messages before that part */
	int64_t		wake;			/* next time to act; INT64_MAX: never */
	int64_t		next_write;		/* --trickle */
	bool		paused;			/* until then */
	Tally		tally;
	char		how[64];		/* how it ended */
} Conn;

extern Conn *conn_new(int fd, SSL_CTX *ctx, const Options *o, int64_t *counter);

/* What to poll for. */
extern short conn_events(const Conn *c);

/* Does all that can be done now (microseconds); held as in player_next(). */
extern void conn_run(Conn *c, short revents, int64_t now, int64_t held);

extern void conn_free(Conn *c);

#endif							/* SRV_CONN_H */
