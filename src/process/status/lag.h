/*
 * lag.h
 *		How fast a stream is followed, and when it will have been caught up with.
 *
 * Plain C.  Times are microseconds, all of one epoch; what a server says of its events' times is
 * only counted with.  All zeros: nothing is known.
 */
#ifndef ATP_LAG_H
#define ATP_LAG_H

#include <stdbool.h>
#include <stdint.h>

#define ATP_PACE_WINDOW		INT64_C(60000000)	/* "lately" */
#define ATP_PACE_STEP		INT64_C(5000000)	/* between two samples */
#define ATP_PACE_SAMPLES	13
#define ATP_PACE_BEHIND		INT64_C(60000000)	/* an event that comes so late is one of the past ... */
#define ATP_PACE_LIVE		INT64_C(10000000)	/* ... until one comes no later than this */

typedef struct AtpPaceSample
{
	int64_t		at;
	int64_t		time;			/* of the last event by then */
	int64_t		events;			/* so many by then */
} AtpPaceSample;

typedef struct AtpPace
{
	AtpPaceSample samples[ATP_PACE_SAMPLES];	/* the newest at (n - 1) % ATP_PACE_SAMPLES */
	int64_t		n;
	AtpPaceSample last;
	bool		behind;			/* events of the past come */
} AtpPace;

/* So many events came, the last of which carries this time (0: none).  True: with it the stream has been caught up with. */
extern bool atp_pace_note(AtpPace *pace, int64_t now, int64_t time, int64_t events);

/* Events a second, lately; -1: not known yet. */
extern double atp_pace_rate(const AtpPace *pace, int64_t now);

/* How long until it will have been caught up with, if all goes on as lately; -1: not known, never, or it is. */
extern int64_t atp_pace_left(const AtpPace *pace, int64_t now);

#endif							/* ATP_LAG_H */
