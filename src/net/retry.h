/*
 * retry.h
 *		After a connection has ended: whether to try again, and when.
 */
#ifndef ATP_RETRY_H
#define ATP_RETRY_H

#include "postgres.h"

#include "net/connection.h"

/* Settings, changeable by a reload. */
extern int	atp_reconnect_delay_ms;
extern int	atp_reconnect_max_delay_ms;

/* From _PG_init(): the settings. */
extern void atp_retry_init(void);

/*
 * Milliseconds to wait after so many failures in a row (E-48).  Full jitter:
 * anything between nothing and a limit that each failure doubles.
 */
extern int	atp_retry_delay(int failures);

/* What an HTTP status asks for (E-04): the shortest delay, in milliseconds; -1: stop. */
extern int	atp_http_delay(const AtpHttpHead *answer);

/*
 * Will a new connection probably meet the same at the same place (E-48)?  The
 * close codes by which the server says that one of us broke the protocol count
 * too (E-51).
 */
extern bool atp_drop_is_about_contents(AtpDrop drop, int close_code);

#endif							/* ATP_RETRY_H */
