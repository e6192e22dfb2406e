/*
 * host_limit.c
 *		How one host is asked.
 */
#include "fetch/engine/host_limit.h"

#define SECOND			INT64_C(1000000)
#define REFUSED_S		60		/* without a word of its own, doubled ... */
#define REFUSED_MAX_S	330		/* ... up to this */
#define REFUSED_LEAST_S	1		/* who says so often "at once": doubled likewise */
#define REST_S			60		/* after too many failures, doubled ... */
#define REST_MAX_S		3600	/* ... up to this; nobody is believed who asks for more */
#define FAILURES_MAX	5		/* in a row */
#define DOUBLINGS_MAX	16

static int64_t
doubled(int64_t first, int times, int64_t most)
{
	int64_t		s = first;

	for (int i = 0; i < times && i < DOUBLINGS_MAX && s < most; i++)
		s *= 2;
	return s < most ? s : most;
}

static long
ms_until(int64_t then, int64_t now)
{
	return then <= now ? 0 : (long) ((then - now + 999) / 1000);
}

/*
 * A host of which nothing is known is asked once at a time, and so is one that
 * has failed too often, after its rest: that one is the trial.
 */
static int
most_at_a_time(const AtpManners *m, const AtpHostLimits *limits)
{
	return m->known && m->failures < FAILURES_MAX ? limits->parallel : 1;
}

bool
atp_manners_ask(AtpManners *m, const AtpHostLimits *limits, int64_t now, long *wait_ms)
{
	double		rate = now < m->sparing_until ? limits->rate / 2.0 : limits->rate;

	*wait_ms = -1;
	if (m->running >= most_at_a_time(m, limits))
		return false;
	if (now < m->rest_until)
	{
		*wait_ms = ms_until(m->rest_until, now);
		return false;
	}
	if (m->filled == 0)
		m->tokens = limits->burst;
	else if (now > m->filled)
		m->tokens += (double) (now - m->filled) * rate / SECOND;
	if (m->tokens > limits->burst)
		m->tokens = limits->burst;
	m->filled = now;
	if (m->tokens < 1)
	{
		*wait_ms = (long) ((1 - m->tokens) / rate * 1000) + 1;
		return false;
	}
	m->tokens -= 1;
	m->running++;
	return true;
}

/* From now on for so long; a rest that is longer stays. */
static void
rest(AtpManners *m, int64_t seconds, int64_t now)
{
	int64_t		until = now + (seconds < REST_MAX_S ? seconds : REST_MAX_S) * SECOND;

	if (until > m->rest_until)
		m->rest_until = until;
}

bool
atp_manners_told(AtpManners *m, AtpManner what, int64_t wait_s, int64_t now)
{
	bool		resting = now < m->rest_until;

	m->running--;
	switch (what)
	{
		case ATP_MANNER_ANSWERED:
			/* one that was begun before the rest says nothing of what will be after it */
			if (resting)
				break;
			m->known = true;
			m->refusals = m->failures = m->rests = 0;
			break;
		case ATP_MANNER_REFUSED:
			if (wait_s >= 0)
				rest(m, wait_s, now);
			/* those that were begun at the same time are one refusal */
			if (!resting)
				rest(m, doubled(wait_s < 0 ? REFUSED_S : REFUSED_LEAST_S, m->refusals++, REFUSED_MAX_S), now);
			return now < m->rest_until;
		case ATP_MANNER_FAILED:
			if (resting || ++m->failures < FAILURES_MAX)
				break;
			m->failures = FAILURES_MAX;
			rest(m, doubled(REST_S, m->rests, REST_MAX_S), now);
			if (m->rests < DOUBLINGS_MAX)
				m->rests++;
			return true;
		case ATP_MANNER_NOTHING:
			break;
	}
	return false;
}

void
atp_manners_left(AtpManners *m, int64_t remaining, int64_t limit, int64_t reset_s, int64_t now)
{
	if (remaining < 0 || limit <= 0 || reset_s < 0 || remaining * 20 >= limit)
		return;
	m->sparing_until = now + (reset_s < REST_MAX_S ? reset_s : REST_MAX_S) * SECOND;
}

void
atp_manners_forgive(AtpManners *m)
{
	m->rest_until = m->sparing_until = 0;
	m->refusals = m->failures = m->rests = 0;
}
