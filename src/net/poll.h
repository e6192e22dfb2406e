/*
 * poll.h
 *		Many sockets behind one descriptor.
 *
 * A WaitEventSet cannot drop a socket, and atp_wait() makes one anew each time.
 * So the fetcher's sockets, of libcurl and of the resolver of TXT records, are in
 * one set of the kernel's, whose descriptor is readable when any of them is ready.
 */
#ifndef ATP_POLL_H
#define ATP_POLL_H

#include "postgres.h"

/* Called by atp_poll_serve(); events are WL_SOCKET_READABLE and WL_SOCKET_WRITEABLE. */
typedef void (*AtpPollReady) (pgsocket fd, uint32 events, void *arg);

/* Once in a process.  Raises an ERROR when the kernel has no such thing left. */
extern void atp_poll_begin(void);

/* To be waited for, to be readable. */
extern pgsocket atp_poll_descriptor(void);

/* From now on: these events of this socket; none: forget it, before it is closed. */
extern void atp_poll_set(pgsocket fd, uint32 events, AtpPollReady ready, void *arg);

/* Call those whose sockets are ready; does not wait. */
extern void atp_poll_serve(void);

#endif							/* ATP_POLL_H */
