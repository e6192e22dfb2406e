/*
 * time_of.c
 *		Reads times and durations.
 */
#include "time_of.h"

#include "util.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND	UINT64_C(1000000)
#define DAY		(86400 * SECOND)

static const struct
{
	const char *name;
	uint64_t	micros;
}			units[] = {
	{"s", SECOND}, {"min", 60 * SECOND}, {"h", 3600 * SECOND}, {"d", DAY}, {"y", 365 * DAY}
};

#define DURATION_MAX	(100.0 * 365 * (double) DAY)

bool
duration_of(const char *text, uint64_t *micros)
{
	char	   *end;
	double		n = strtod(text, &end);

	if (end == text || !(n >= 0))
		return false;
	for (size_t i = 0; i < COUNT(units); i++)
	{
		if (strcmp(end, units[i].name) != 0)
			continue;
		n *= (double) units[i].micros;
		if (n > DURATION_MAX)
			return false;
		*micros = (uint64_t) n;
		return true;
	}
	return false;
}

static uint64_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t) ts.tv_sec * SECOND + (uint64_t) ts.tv_nsec / 1000;
}

static bool
reads_as(const char *text, const char *format, struct tm *tm)
{
	const char *end;

	memset(tm, 0, sizeof *tm);
	end = strptime(text, format, tm);
	return end != NULL && *end == '\0';
}

bool
time_of(const char *text, uint64_t *micros)
{
	struct tm	tm;
	uint64_t	ago = 0;
	time_t		seconds;

	if (strcmp(text, "now") == 0 || (*text == '-' && duration_of(text + 1, &ago)))
		*micros = now() - ago;
	else if (reads_as(text, "%Y-%m-%d", &tm) || reads_as(text, "%Y-%m-%dT%H:%M:%SZ", &tm))
		*micros = (uint64_t) timegm(&tm) * SECOND;
	else
		return false;
	seconds = (time_t) (*micros / SECOND);
	gmtime_r(&seconds, &tm);
	return tm.tm_year >= 2010 - 1900 && tm.tm_year <= 2200 - 1900;
}
