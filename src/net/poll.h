/*
 * poll.h
 *		Many sockets behind one descriptor.
 *
 * A WaitEventSet cannot remove a socket, and atp_wait() builds a new set for each wait.  So the
 * fetcher's sockets, of libcurl and of c-ares, are in one epoll set.  The set's descriptor is readable
 * when any of the sockets is ready, and a process waits for this descriptor only.
 */
#ifndef ATP_POLL_H
#define ATP_POLL_H

#include "postgres.h"

/* Called by atp_poll_serve(); events are WL_SOCKET_READABLE and WL_SOCKET_WRITEABLE. */
typedef void (*AtpPollReady) (pgsocket fd, uint32 events, void *arg);

/* Call once in a process.  Raises an ERROR when no descriptor is available. */
extern void atp_poll_begin(void);

/* The descriptor to wait for, until it is readable. */
extern pgsocket atp_poll_descriptor(void);

/* Watch a socket for these events from now on. 0 events: stop watching; required before the socket is closed. */
extern void atp_poll_set(pgsocket fd, uint32 events, AtpPollReady ready, void *arg);

/* Call the callbacks of all ready sockets; does not wait. */
extern void atp_poll_serve(void);

#endif							/* ATP_POLL_H */
