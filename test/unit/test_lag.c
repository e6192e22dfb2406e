/*
 * test_lag.c
 *		How fast a stream is followed, and when it will have been caught up with.
 */
#include "process/status/lag.h"
#include "unit.h"

#define S	INT64_C(1000000)
#define NOW	(INT64_C(800000000) * S)

/* Events whose times begin an hour ago and advance by speed seconds in each second. */
static AtpLag
follow(int seconds, int speed, int events)
{
	AtpLag		lag = {0};

	for (int i = 0; i <= seconds; i++)
		atp_lag_note(&lag, NOW + i * S, NOW - 3600 * S + (int64_t) i * speed * S, events);
	return lag;
}

static bool
near(double value, double expected)
{
	return value > expected * 0.99 && value < expected * 1.01;
}

int
main(void)
{
	AtpLag		lag = {0};
	int64_t		n = 0;

	ok(atp_lag_rate(&lag, NOW) < 0 && atp_lag_left(&lag, NOW) < 0, "of nothing nothing is known");
	ok(!atp_lag_note(&lag, NOW, NOW - 3600 * S, 100), "old events are no catching up");
	ok(atp_lag_rate(&lag, NOW) < 0 && atp_lag_left(&lag, NOW) < 0, "of one moment there is no rate");

	lag = follow(10, 11, 500);
	ok(near(atp_lag_rate(&lag, NOW + 10 * S), 500), "so many events in ten seconds");
	/* 3,600 - 110 + 10 seconds are left, and become ten fewer with each second */
	ok(near(atp_lag_left(&lag, NOW + 10 * S), 350.0 * S), "and how long it will take");

	lag = follow(300, 11, 500);
	ok(near(atp_lag_rate(&lag, NOW + 300 * S), 500), "of long ago nothing counts, also where samples have been replaced");
	ok(near(atp_lag_left(&lag, NOW + 300 * S), 60.0 * S), "nor for the end");
	ok(atp_lag_rate(&lag, NOW + 330 * S) < 300 && atp_lag_rate(&lag, NOW + 330 * S) > 0, "when nothing comes any more, it falls");
	ok(atp_lag_rate(&lag, NOW + 400 * S) == 0 && atp_lag_left(&lag, NOW + 400 * S) < 0, "to nothing, and no end is known");

	lag = follow(30, 1, 500);
	ok(near(atp_lag_rate(&lag, NOW + 30 * S), 500) && atp_lag_left(&lag, NOW + 30 * S) < 0, "as fast as they are made: never");
	lag = follow(30, 0, 500);
	ok(atp_lag_left(&lag, NOW + 30 * S) < 0, "slower: never");
	lag = follow(30, -5, 500);
	ok(atp_lag_left(&lag, NOW + 30 * S) < 0, "backwards: never");

	lag = follow(30, 11, 500);
	ok(!atp_lag_note(&lag, NOW + 31 * S, NOW + 31 * S - ATP_LAG_LIVE - 1, 1), "nearly there");
	ok(!atp_lag_note(&lag, NOW + 31 * S, 0, 1), "an event without a time says nothing");
	ok(atp_lag_note(&lag, NOW + 32 * S, NOW + 31 * S, 1), "there");
	ok(atp_lag_left(&lag, NOW + 32 * S) < 0 && atp_lag_rate(&lag, NOW + 32 * S) > 0, "then there is no end to wait for");
	ok(!atp_lag_note(&lag, NOW + 33 * S, NOW + 33 * S, 1), "which is said once");
	ok(!atp_lag_note(&lag, NOW + 60 * S, NOW + 20 * S, 1) && !lag.behind, "a little late is not behind");
	ok(!atp_lag_note(&lag, NOW + 61 * S, NOW - 20 * S, 1) && lag.behind, "a minute is");

	/* extreme values from servers must not overflow */
	lag = (AtpLag) {0};
	for (int i = 0; i < 40; i++)
	{
		n += atp_lag_note(&lag, NOW + i * S, i % 2 ? INT64_MAX : INT64_MIN, INT64_MAX / 100);
		n += atp_lag_left(&lag, NOW + i * S) < -1;
	}
	ok(n == 20, "times that are none do no harm");
	lag = (AtpLag) {0};
	atp_lag_note(&lag, NOW, NOW - 3600 * S, 1);
	atp_lag_note(&lag, NOW + 30 * S, NOW - 3600 * S + 30 * S + 1, 1);
	ok(atp_lag_left(&lag, NOW + 30 * S) < 0, "an end in a thousand years is none");
	ok(atp_lag_rate(&lag, NOW - 30 * S) < 0, "nor does a clock that was put back");

	/* a clock that is put back by half a minute, or an hour */
	for (int back = 30; back <= 3600; back *= 120)
	{
		double		most = 0;

		lag = follow(300, 11, 500);
		for (int i = 0; i <= 3700; i++)
		{
			int64_t		now = NOW + (300 - back + i) * S;

			atp_lag_note(&lag, now, NOW - 3600 * S + (int64_t) (300 + i) * 11 * S, 500);
			if (atp_lag_rate(&lag, now) > most)
				most = atp_lag_rate(&lag, now);
			if (i == 10)
				ok(near(atp_lag_rate(&lag, now), 500), "%d s back: the rate is known ten seconds later", back);
		}
		ok(near(most, 500), "%d s back: what came before the clock was put back is not counted with what came after it", back);
	}
	return done_testing();
}
