/*
 * test_host_limit.c
 *		How many requests one host gets, and when: rules.
 */
#include "fetch/engine/host_limit.h"
#include "unit.h"

#define SECOND	INT64_C(1000000)
#define MINUTE	(60 * SECOND)

static const AtpHostLimits pds = {4, 10, 10};

/* How many may begin now. */
static int
begin(AtpHostLimiter *m, int64_t now)
{
	long		wait;
	int			n = 0;

	while (n < 1000 && atp_host_limit_ask(m, &pds, now, &wait))
		n++;
	return n;
}

static long
wait_of(AtpHostLimiter *m, int64_t now)
{
	long		wait = -2;

	ok(!atp_host_limit_ask(m, &pds, now, &wait), "nothing may begin");
	return wait;
}

static void
told(AtpHostLimiter *m, AtpHostOutcome what, int n, int64_t wait_s, int64_t now)
{
	while (n-- > 0)
		(void) atp_host_limit_told(m, what, wait_s, now);
}

/* A host that has answered before, with as many requests running as the limiter allows. */
static int64_t
known(AtpHostLimiter *m)
{
	int64_t		now = 1000 * SECOND;

	*m = (AtpHostLimiter) {0};
	(void) begin(m, now);
	told(m, ATP_HOST_ANSWERED, 1, -1, now);
	now += 10 * SECOND;
	(void) begin(m, now);
	return now;
}

int
main(void)
{
	AtpHostLimiter m = {0};
	int64_t		now = 1000 * SECOND;
	int64_t		expected = MINUTE;
	int			n;

	ok(begin(&m, now) == 1 && wait_of(&m, now) == -1, "R-20: one at a time until the first answer");
	told(&m, ATP_HOST_FAILED, 1, -1, now);
	ok(begin(&m, now) == 1, "R-20: a failure is none");
	told(&m, ATP_HOST_ANSWERED, 1, -1, now);
	ok(begin(&m, now) == 4 && wait_of(&m, now) == -1, "R-20: then four");

	/* 10 at once, and 10 a second */
	n = 6;
	for (int i = 0; i < 50; i++)
	{
		told(&m, ATP_HOST_ANSWERED, m.running, -1, now);
		n += begin(&m, now);
	}
	ok(n == 10, "R-20: a burst of %d", n);
	ok(wait_of(&m, now) == 101, "R-20: the next in a tenth of a second");
	n = 0;
	for (int i = 0; i < 1000; i++)
	{
		now += SECOND / 100;
		told(&m, ATP_HOST_ANSWERED, m.running, -1, now);
		n += begin(&m, now);
	}
	ok(n >= 99 && n <= 100, "R-20: %d in ten seconds", n);

	/* refusals */
	now = known(&m);
	ok(m.running == 4, "four run");
	ok(atp_host_limit_told(&m, ATP_HOST_REFUSED, 7, now), "R-21: it rests");
	told(&m, ATP_HOST_NOTHING, 3, -1, now);
	ok(wait_of(&m, now) == 7000, "R-21: for as long as it says");
	ok(begin(&m, now + 7 * SECOND) == 4, "R-21: and then not");
	now = known(&m);
	told(&m, ATP_HOST_REFUSED, 4, -1, now);
	ok(wait_of(&m, now) == 60000, "R-21: four at a time are one refusal");
	for (int i = 0; i < 4; i++)
	{
		static const int seconds[] = {60, 120, 240, 330, 330};

		now += seconds[i] * SECOND;
		ok(begin(&m, now) > 0, "it is asked again");
		told(&m, ATP_HOST_REFUSED, m.running, -1, now);
		ok(wait_of(&m, now) == seconds[i + 1] * 1000L, "R-21: then %d seconds", seconds[i + 1]);
	}
	now = known(&m);
	told(&m, ATP_HOST_REFUSED, 4, 1000000, now);
	ok(wait_of(&m, now) == 3600000, "R-21: an hour at most");
	now = known(&m);
	told(&m, ATP_HOST_REFUSED, 4, 0, now);
	ok(wait_of(&m, now) == 1000 && m.failures == 0, "R-21: who says \"at once\" rests for a second; a refusal is no failure");
	for (int i = 2; i < 2000; i *= 2)
	{
		now += 330 * SECOND;
		ok(begin(&m, now) > 0, "it is asked again");
		told(&m, ATP_HOST_REFUSED, m.running, 0, now);
		ok(wait_of(&m, now) == (i < 330 ? i : 330) * 1000L, "R-21: and for longer each time that it does: %d", i);
	}
	now += 330 * SECOND;
	(void) begin(&m, now);
	told(&m, ATP_HOST_REFUSED, m.running, 500, now);
	ok(wait_of(&m, now) == 500000, "R-21: or for as long as it says");

	/* few are left */
	now = known(&m);
	told(&m, ATP_HOST_ANSWERED, 4, -1, now);
	atp_host_limit_remaining(&m, 5, 100, 30, now);
	ok(m.sparing_until == 0, "R-22: five of a hundred are enough");
	atp_host_limit_remaining(&m, 4, 100, 30, now);
	ok(m.sparing_until == now + 30 * SECOND, "R-22: four are not");
	m.tokens = 0;
	m.filled = now;
	ok(wait_of(&m, now) == 201, "R-22: half as often");
	m.filled = now += 31 * SECOND;
	ok(wait_of(&m, now) == 101, "R-22: until there are more");

	/* failures */
	now = known(&m);
	told(&m, ATP_HOST_FAILED, 4, -1, now);
	ok(begin(&m, now) == 4, "R-23: four are not too many");
	told(&m, ATP_HOST_ANSWERED, 1, -1, now);
	told(&m, ATP_HOST_FAILED, 3, -1, now);
	ok(m.failures == 3, "R-23: an answer in between");
	(void) begin(&m, now += SECOND);
	told(&m, ATP_HOST_FAILED, 1, -1, now);
	ok(atp_host_limit_told(&m, ATP_HOST_FAILED, -1, now), "R-23: the fifth in a row");
	ok(m.running == 2, "two more run");
	told(&m, ATP_HOST_FAILED, 1, -1, now + SECOND);
	told(&m, ATP_HOST_ANSWERED, 1, -1, now + SECOND);
	ok(wait_of(&m, now + SECOND) == 59000, "R-23: what was begun before changes nothing");
	for (int i = 0; i < 10; i++)
	{
		long		wait;

		now += expected;
		ok(!atp_host_limit_ask(&m, &pds, now - 1, &wait), "R-23: it rests");
		ok(begin(&m, now) == 1 && wait_of(&m, now) == -1, "R-23: then there is one trial, and not more");
		told(&m, ATP_HOST_FAILED, 1, -1, now);
		expected = 2 * expected < 60 * MINUTE ? 2 * expected : 60 * MINUTE;
		ok(wait_of(&m, now) == expected / 1000, "R-23: which fails: %ld s", (long) (expected / SECOND));
	}
	now += expected;
	ok(begin(&m, now) == 1, "R-23: a trial");
	told(&m, ATP_HOST_NOTHING, 1, -1, now);
	ok(begin(&m, now) == 1, "R-23: that was given up; another");
	told(&m, ATP_HOST_ANSWERED, 1, -1, now);
	ok(begin(&m, now += 10 * SECOND) == 4 && m.backoffs == 0, "R-23: one that is answered");

	/* forgiven */
	now = known(&m);
	told(&m, ATP_HOST_REFUSED, 4, 1000, now);
	atp_host_limit_reset(&m);
	ok(begin(&m, now) > 0, "a rest is ended by hand");
	/* P-60: a host of 10 requests a second */
	{
		static const AtpHostLimits many = {1000, 10, 10};
		long		wait;
		int			n;

		m = (AtpHostLimiter) {.known = true};
		for (n = 0; n < 100 && atp_host_limit_ask_shared(&m, &many, now, &wait); n++)
			;
		ok(n == 10, "P-60: fetches of parts have the whole rate while nothing waits: %d", n);
		ok(!atp_host_limit_ask(&m, &many, now, &wait), "P-60: a request waits");
		m = (AtpHostLimiter) {.known = true};
		now += MINUTE;
		while (atp_host_limit_ask(&m, &many, now, &wait))
			;
		n = 0;
		for (int i = 0; i < 80; i++)
			n += atp_host_limit_ask_shared(&m, &many, now += SECOND / 10, &wait);
		ok(n >= 19 && n <= 21, "P-60: then a quarter, for 10 s: %d in 8 s", n);
		now += 3 * SECOND;
		for (n = 0; n < 100 && atp_host_limit_ask_shared(&m, &many, now, &wait); n++)
			;
		ok(n == 10, "P-60: then the whole again: %d", n);
	}
	return done_testing();
}
