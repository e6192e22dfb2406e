/*
 * wait.h
 *		The one place where the background workers wait.
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
 * Wait for the process latch, a ready socket, the postmaster's death (then the process exits), or timeout_ms
 * (-1: no limit).  Resets the latch, serves interrupts and reloads the configuration.  Must be called outside
 * any transaction.
 */
extern void atp_wait(const AtpSocketWait *sockets, int nsockets, long timeout_ms);

/* Serve interrupts and reload the configuration without waiting, for busy loops. */
extern void atp_serve_interrupts(void);

#endif							/* ATP_WAIT_H */
