/*
 * dial.h
 *		From the name of a server to a stream of bytes, non-blocking: libcurl resolves
 *		the name, connects, speaks to proxies and does TLS.  The protocol over the
 *		stream is the caller's.
 *
 * No function here waits, and only atp_dial_init() raises an ERROR.
 */
#ifndef ATP_DIAL_H
#define ATP_DIAL_H

#include "postgres.h"

#include "net/wait.h"

#define ATP_DIAL_READ_MAX	(256 * 1024)	/* a read returns at most this many bytes */

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
 * Begin to connect to origin, which is http://host:port or https://host:port. ca_file: NULL means the
 * system's authorities. proxy: NULL means the environment's proxy, "" no proxy.  Everything is copied.
 * Returns NULL when out of memory.
 */
extern AtpDial *atp_dial_start(const char *origin, const char *ca_file, const char *proxy);

/* In state CONNECTING: do all work possible without waiting. */
extern AtpDialState atp_dial_step(AtpDial *dial);

/* In state CONNECTING: the sockets to wait for, and the longest time to wait (milliseconds, -1: no limit). */
extern int	atp_dial_sockets(AtpDial *dial, AtpSocketWait *sockets, long *timeout_ms);

/* For people; never NULL. */
extern const char *atp_dial_error(const AtpDial *dial);

/* In state UP: the connected socket. */
extern pgsocket atp_dial_socket(const AtpDial *dial);

/*
 * In state UP.  Both return the number of bytes, 0 for "again", -1 when the stream has ended.  Before waiting
 * for the socket, a caller must read until "again": the TLS library may hold decrypted bytes, and for these
 * the socket does not become readable.
 */
extern ssize_t atp_dial_read(AtpDial *dial, void *buf, size_t len);
extern ssize_t atp_dial_write(AtpDial *dial, const void *data, size_t len);

/* Frees everything; NULL is allowed. */
extern void atp_dial_free(AtpDial *dial);

#endif							/* ATP_DIAL_H */
