/*
 * wait.h
 *		The one place where the consumer's processes wait.
 */
#ifndef ATP_WAIT_H
#define ATP_WAIT_H

#include "postgres.h"

/* A socket to wait for; events are WL_SOCKET_READABLE and WL_SOCKET_WRITEABLE. */
typedef struct AtpSocketWait
{
	pgsocket	fd;
	uint32		events;
} AtpSocketWait;

#define ATP_WAIT_SOCKETS	8

/*
 * Wait for the process latch, any of the sockets, postmaster death (which
 * exits), or timeout_ms (-1: none).  Resets the latch, serves interrupts and
 * reloads the configuration.  Must be called outside any transaction.
 */
extern void atp_wait(const AtpSocketWait *sockets, int nsockets, long timeout_ms);

/* The part of atp_wait() that does not wait, for busy loops. */
extern void atp_serve_interrupts(void);

#endif							/* ATP_WAIT_H */
