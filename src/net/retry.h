/*
 * retry.h
 *		After a connection has ended: whether to reconnect, and how long to wait before.
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
 * A random delay in milliseconds after this many failures in a row (E-48).  Full jitter: uniformly between
 * zero and a limit which doubles with each failure.
 */
extern int	atp_retry_delay(int failures);

/* The shortest delay that an HTTP status asks for (E-04), in milliseconds; -1: do not reconnect. */
extern int	atp_http_delay(const AtpHttpHead *answer);

#endif							/* ATP_RETRY_H */
