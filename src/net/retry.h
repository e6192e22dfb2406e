/*
 * retry.h
 *		After a connection has ended: whether to try again, and when.
 */
#ifndef ATP_RETRY_H
#define ATP_RETRY_H

#include "postgres.h"

#include "core/wire/http_head.h"

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

#endif							/* ATP_RETRY_H */
