/*
 * lag.c
 *		The rate at which a stream is processed, and the estimated time of catching up.
 */
#include "process/status/lag.h"

#include <stddef.h>

#define SECOND		INT64_C(1000000)
#define LEFT_MAX	(INT64_C(3650) * 86400 * SECOND)	/* more is never */

/* The difference of two times in seconds; in floating point, since unchecked times could overflow an integer. */
static double
seconds(int64_t from, int64_t to)
{
	return ((double) to - (double) from) / SECOND;
}

bool
atp_pace_note(AtpPace *pace, int64_t now, int64_t time, int64_t events)
{
	bool		was_behind = pace->behind;

	/* the clock was set back: the earlier samples are useless */
	if (now < pace->last.at)
		pace->n = 0;
	pace->last.at = now;
	pace->last.events += events;
	if (time != 0)
	{
		pace->last.time = time;
		if (seconds(time, now) * SECOND >= ATP_PACE_BEHIND)
			pace->behind = true;
		else if (seconds(time, now) * SECOND <= ATP_PACE_LIVE)
			pace->behind = false;
	}
	if (pace->n == 0 || now - pace->samples[(pace->n - 1) % ATP_PACE_SAMPLES].at >= ATP_PACE_STEP)
		pace->samples[pace->n++ % ATP_PACE_SAMPLES] = pace->last;
	return was_behind && !pace->behind;
}

/* The oldest sample in the window; NULL: no sample, or none older than a second. */
static const AtpPaceSample *
oldest(const AtpPace *pace, int64_t now)
{
	const AtpPaceSample *found = NULL;

	for (int64_t i = pace->n - 1; i >= 0 && i >= pace->n - ATP_PACE_SAMPLES; i--)
	{
		const AtpPaceSample *sample = &pace->samples[i % ATP_PACE_SAMPLES];

		if (now - sample->at > ATP_PACE_WINDOW)
			break;
		found = sample;
	}
	return found != NULL && now - found->at >= SECOND ? found : NULL;
}

double
atp_pace_rate(const AtpPace *pace, int64_t now)
{
	const AtpPaceSample *from = oldest(pace, now);

	if (from != NULL)
		return (pace->last.events - from->events) / seconds(from->at, now);
	return pace->n > 0 && now - pace->last.at > ATP_PACE_WINDOW ? 0 : -1;
}

int64_t
atp_pace_left(const AtpPace *pace, int64_t now)
{
	const AtpPaceSample *from = oldest(pace, now);
	double		closing;
	double		left;

	if (!pace->behind || from == NULL || from->time == 0)
		return -1;
	/* stream seconds processed in a second, minus the second which passes meanwhile */
	closing = seconds(from->time, pace->last.time) / seconds(from->at, now) - 1;
	if (closing <= 0)
		return -1;
	left = seconds(pace->last.time, now) / closing * SECOND;
	return left >= 0 && left <= LEFT_MAX ? (int64_t) left : -1;
}
