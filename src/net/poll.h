/*
 * poll.h
 *		The sockets of libcurl and of c-ares, for which the fetcher waits.
 *
 * A WaitEventSet cannot remove a socket, and atp_wait() builds a new set for each wait.  So on Linux
 * the sockets are in one epoll set.  The set's descriptor is readable when any of the sockets is
 * ready, and the fetcher waits for this descriptor only.  Other systems have no epoll: there the
 * fetcher waits for each of the sockets, and poll() tells afterwards which of them are ready.  The
 * cost of a wait grows with the number of sockets then.  "make WAIT=poll" builds so on Linux, too.
 */
#ifndef ATP_POLL_H
#define ATP_POLL_H

#include "postgres.h"

#include "net/wait.h"

/* Called by atp_poll_serve(); events are WL_SOCKET_READABLE and WL_SOCKET_WRITEABLE. */
typedef void (*AtpPollReady) (pgsocket fd, uint32 events, void *arg);

/* Call once in a process.  Raises an ERROR when epoll has no descriptor. */
extern void atp_poll_begin(void);

/* The sockets to wait for with atp_wait(): *n of them, allocated in the current memory context. */
extern AtpSocketWait *atp_poll_sockets(int *n);

/* Watch a socket for these events from now on. 0 events: stop watching; required before the socket is closed. */
extern void atp_poll_set(pgsocket fd, uint32 events, AtpPollReady ready, void *arg);

/* Call the callbacks of all ready sockets; does not wait. */
extern void atp_poll_serve(void);

#endif							/* ATP_POLL_H */
