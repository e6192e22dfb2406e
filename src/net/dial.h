/*
 * dial.h
 *		From the name of a server to a stream of bytes, non-blocking: libcurl looks
 *		it up, connects, speaks to proxies and does TLS.  What is spoken over the
 *		stream is the caller's.
 *
 * Nothing here waits, nor raises an ERROR unless it says so.
 */
#ifndef ATP_DIAL_H
#define ATP_DIAL_H

#include "postgres.h"

#include "net/wait.h"

#define ATP_DIAL_READ_MAX	(256 * 1024)	/* bytes that one read brings, at most */

typedef enum AtpDialState
{
	ATP_DIAL_CONNECTING,		/* name, TCP, proxy, TLS */
	ATP_DIAL_UP,				/* bytes flow */
	ATP_DIAL_FAILED				/* see atp_dial_error() */
} AtpDialState;

typedef struct AtpDial AtpDial;

/* Once in a process, before everything else.  Raises an ERROR when libcurl cannot be used. */
extern void atp_dial_init(void);

/*
 * Begin to connect to origin, which is http://host:port or https://host:port.
 * ca_file: NULL means the system's authorities.  proxy: NULL means the one of the
 * environment, "" none.  Everything is copied.  Returns NULL when out of memory.
 */
extern AtpDial *atp_dial_start(const char *origin, const char *ca_file, const char *proxy);

/* While it connects: do all that can be done without waiting. */
extern AtpDialState atp_dial_step(AtpDial *dial);

/* While it connects: what to wait for, and for how long at most (milliseconds, -1: no limit). */
extern int	atp_dial_sockets(AtpDial *dial, AtpSocketWait *sockets, long *timeout_ms);

/* For people; never NULL. */
extern const char *atp_dial_error(const AtpDial *dial);

/* When it is up. */
extern pgsocket atp_dial_socket(const AtpDial *dial);

/*
 * When it is up: returns the number of bytes, 0 for "again", -1 when there will
 * be no more.  Whoever waits for the socket must have read until "again": what
 * the TLS library has read already makes no socket readable.
 */
extern ssize_t atp_dial_read(AtpDial *dial, void *buf, size_t len);
extern ssize_t atp_dial_write(AtpDial *dial, const void *data, size_t len);

/* Frees everything; NULL is allowed. */
extern void atp_dial_free(AtpDial *dial);

#endif							/* ATP_DIAL_H */
