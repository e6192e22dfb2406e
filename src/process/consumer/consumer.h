/*
 * consumer.h
 *		The consumer process, and how to start one.
 */
#ifndef ATP_CONSUMER_H
#define ATP_CONSUMER_H

#include "postgres.h"

#include "config/subscription.h"
#include "postmaster/bgworker.h"

/* Settings, all changeable by a reload; times in the unit of the name. */
extern int	atp_batch_delay_ms; /* how long an event may wait for others */
extern int	atp_ping_interval_ms;	/* 0: no pings */
extern int	atp_idle_timeout_ms;	/* 0: none */

/* From _PG_init(): the settings. */
extern void atp_consumer_init(void);

/*
 * Start a consumer.  Under a manager it is not restarted by the postmaster,
 * and notify_pid is told when it ends; without one it lives until the server
 * stops.  If wait_for is valid, the process waits for that transaction first.
 * False: no worker slot is free.
 */
extern bool atp_consumer_start(const AtpSubscription *sub, bool managed, TransactionId wait_for,
							   BackgroundWorkerHandle **handle);

extern PGDLLEXPORT void atp_consumer_main(Datum arg);

#endif							/* ATP_CONSUMER_H */
