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
extern int	atp_batch_delay_ms; /* how long an event may wait for more events before a batch is applied */
extern int	atp_ping_interval_ms;	/* silence after which to ping; 0: no pings */
extern int	atp_idle_timeout_ms;	/* silence after which to disconnect; 0: no limit */

/* From _PG_init(): the settings. */
extern void atp_consumer_init(void);

/*
 * Start a consumer.  Under a manager the postmaster does not restart the process, and notifies the manager
 * when the process ends.  Without a manager the process lives until the server stops.  If wait_for is valid,
 * the new process first waits for the end of this transaction.  False: no worker slot is free.
 */
extern bool atp_consumer_start(const AtpSubscription *sub, bool managed, TransactionId wait_for,
							   BackgroundWorkerHandle **handle);

/* From _PG_init(): the settings of consumer_history.c, and of consumer_seam.c. */
extern void atp_consumer_history_init(void);
extern void atp_consumer_seam_init(void);

extern PGDLLEXPORT void atp_consumer_main(Datum arg);

#endif							/* ATP_CONSUMER_H */
