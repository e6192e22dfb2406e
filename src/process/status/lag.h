/*
 * lag.h
 *		The rate at which a stream is processed, and the estimated time of catching up.
 *
 * Plain C.  All times are microseconds of one epoch.  The times in events come from servers and may
 * have any value: they are used for arithmetic only.  All zeros means: nothing is known.
 */
#ifndef ATP_LAG_H
#define ATP_LAG_H

#include <stdbool.h>
#include <stdint.h>

#define ATP_LAG_WINDOW		INT64_C(60000000)	/* length of the window for rates */
#define ATP_LAG_STEP		INT64_C(5000000)	/* time between two samples */
#define ATP_LAG_SAMPLES	13
#define ATP_LAG_BEHIND		INT64_C(60000000)	/* an event at least this late means: the stream is behind ... */
#define ATP_LAG_LIVE		INT64_C(10000000)	/* ... until an event is at most this late */

typedef struct AtpLagSample
{
	int64_t		at;
	int64_t		time;			/* time in the last event by then */
	int64_t		events;			/* number of events by then */
} AtpLagSample;

typedef struct AtpLag
{
	AtpLagSample samples[ATP_LAG_SAMPLES];	/* the newest at (n - 1) % ATP_LAG_SAMPLES */
	int64_t		n;
	AtpLagSample last;
	bool		behind;			/* the stream is behind: its events are late */
} AtpLag;

/*
 * Count processed events; time is the time in the last event (0: none).  True: with these events, the stream
 * has caught up.
 */
extern bool atp_lag_note(AtpLag *lag, int64_t now, int64_t time, int64_t events);

/* Events a second in the window; -1: not known yet. */
extern double atp_lag_rate(const AtpLag *lag, int64_t now);

/* Estimated time until the stream has caught up; -1: unknown, never at this rate, or caught up already. */
extern int64_t atp_lag_left(const AtpLag *lag, int64_t now);

#endif							/* ATP_LAG_H */
