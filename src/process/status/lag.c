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
seconds_between(int64_t from, int64_t to)
{
	return ((double) to - (double) from) / SECOND;
}

bool
atp_lag_note(AtpLag *lag, int64_t now, int64_t time, int64_t events)
{
	bool		was_behind = lag->behind;

	/* the clock was set back: the earlier samples are useless */
	if (now < lag->last.at)
		lag->n = 0;
	lag->last.at = now;
	lag->last.events += events;
	if (time != 0)
	{
		lag->last.time = time;
		if (seconds_between(time, now) * SECOND >= ATP_LAG_BEHIND)
			lag->behind = true;
		else if (seconds_between(time, now) * SECOND <= ATP_LAG_LIVE)
			lag->behind = false;
	}
	if (lag->n == 0 || now - lag->samples[(lag->n - 1) % ATP_LAG_SAMPLES].at >= ATP_LAG_STEP)
		lag->samples[lag->n++ % ATP_LAG_SAMPLES] = lag->last;
	return was_behind && !lag->behind;
}

/* The oldest sample in the window; NULL: no sample, or none older than a second. */
static const AtpLagSample *
oldest_sample(const AtpLag *lag, int64_t now)
{
	const AtpLagSample *found = NULL;

	for (int64_t i = lag->n - 1; i >= 0 && i >= lag->n - ATP_LAG_SAMPLES; i--)
	{
		const AtpLagSample *sample = &lag->samples[i % ATP_LAG_SAMPLES];

		if (now - sample->at > ATP_LAG_WINDOW)
			break;
		found = sample;
	}
	return found != NULL && now - found->at >= SECOND ? found : NULL;
}

double
atp_lag_rate(const AtpLag *lag, int64_t now)
{
	const AtpLagSample *from = oldest_sample(lag, now);

	if (from != NULL)
		return (lag->last.events - from->events) / seconds_between(from->at, now);
	return lag->n > 0 && now - lag->last.at > ATP_LAG_WINDOW ? 0 : -1;
}

int64_t
atp_lag_left(const AtpLag *lag, int64_t now)
{
	const AtpLagSample *from = oldest_sample(lag, now);
	double		closing;
	double		left;

	if (!lag->behind || from == NULL || from->time == 0)
		return -1;
	/* stream seconds processed in a second, minus the second which passes meanwhile */
	closing = seconds_between(from->time, lag->last.time) / seconds_between(from->at, now) - 1;
	if (closing <= 0)
		return -1;
	left = seconds_between(lag->last.time, now) / closing * SECOND;
	return left >= 0 && left <= LEFT_MAX ? (int64_t) left : -1;
}
