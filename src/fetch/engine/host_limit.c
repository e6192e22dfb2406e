/*
 * host_limit.c
 *		The rate limiter of a single host: a token bucket, a limit of concurrent requests, and
 *		backoffs after refusals and failures.
 */
#include "fetch/engine/host_limit.h"

#define SECOND			INT64_C(1000000)
#define REFUSED_S		60		/* first backoff after a 429 or 503 without Retry-After;
								 * doubled with each refusal in a row */
#define REFUSED_MAX_S	330		/* longest backoff of that kind */
#define REFUSED_LEAST_S	1		/* shortest backoff after a Retry-After; doubled with each refusal in
								 * a row, since a host may repeat "at once" for ever */
#define BACKOFF_S			60	/* first backoff after FAILURES_MAX failures; doubled each
								 * time */
#define BACKOFF_MAX_S		3600	/* longest backoff of any kind; a longer Retry-After is cut to
								 * this */
#define FAILURES_MAX	5		/* failures in a row */
#define DOUBLINGS_MAX	16
#define WANTED_S		10		/* P-60: how long a refused request keeps the share of parts small ... */
#define SHARE			4		/* ... a quarter of the rate */

static int64_t
doubled_seconds(int64_t first, int times, int64_t most)
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
 * A host that never answered gets one request at a time.  So does a host after the backoff for
 * failures: that request is the trial.
 */
static int
most_at_a_time(const AtpHostLimiter *m, const AtpHostLimits *limits)
{
	return m->known && m->failures < FAILURES_MAX ? limits->parallel : 1;
}

static bool
ask_now(AtpHostLimiter *m, const AtpHostLimits *limits, int64_t now, long *wait_ms)
{
	double		rate = now < m->sparing_until ? limits->rate / 2.0 : limits->rate;

	*wait_ms = -1;
	if (m->running >= most_at_a_time(m, limits))
		return false;
	if (now < m->backoff_until)
	{
		*wait_ms = ms_until(m->backoff_until, now);
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

bool
atp_host_limit_ask(AtpHostLimiter *m, const AtpHostLimits *limits, int64_t now, long *wait_ms)
{
	bool		may = ask_now(m, limits, now, wait_ms);

	if (!may)
		m->wanted_until = now + WANTED_S * SECOND;
	return may;
}

bool
atp_host_limit_ask_shared(AtpHostLimiter *m, const AtpHostLimits *limits, int64_t now, long *wait_ms)
{
	double		rate = (double) limits->rate / SHARE;

	if (now >= m->wanted_until)
		m->shared = 1;
	else if (now > m->shared_filled)
		m->shared += (double) (now - m->shared_filled) * rate / SECOND;
	if (m->shared > 1)
		m->shared = 1;
	m->shared_filled = now;
	if (m->shared < 1)
	{
		*wait_ms = (long) ((1 - m->shared) / rate * 1000) + 1;
		return false;
	}
	if (!ask_now(m, limits, now, wait_ms))
		return false;
	m->shared -= 1;
	return true;
}

/* Back off for so many seconds from now on; a backoff that ends later stays. */
static void
begin_backoff(AtpHostLimiter *m, int64_t seconds, int64_t now)
{
	int64_t		until = now + (seconds < BACKOFF_MAX_S ? seconds : BACKOFF_MAX_S) * SECOND;

	if (until > m->backoff_until)
		m->backoff_until = until;
}

bool
atp_host_limit_told(AtpHostLimiter *m, AtpHostOutcome what, int64_t wait_s, int64_t now)
{
	bool		in_backoff = now < m->backoff_until;

	m->running--;
	switch (what)
	{
		case ATP_HOST_ANSWERED:
			/* this request was begun before the backoff, so the answer does not end the backoff */
			if (in_backoff)
				break;
			m->known = true;
			m->refusals = m->failures = m->backoffs = 0;
			break;
		case ATP_HOST_REFUSED:
			if (wait_s >= 0)
				begin_backoff(m, wait_s, now);
			/* refusals of requests that ran at the same time count as a single refusal */
			if (!in_backoff)
				begin_backoff(m, doubled_seconds(wait_s < 0 ? REFUSED_S : REFUSED_LEAST_S, m->refusals++, REFUSED_MAX_S), now);
			return now < m->backoff_until;
		case ATP_HOST_FAILED:
			if (in_backoff || ++m->failures < FAILURES_MAX)
				break;
			m->failures = FAILURES_MAX;
			begin_backoff(m, doubled_seconds(BACKOFF_S, m->backoffs, BACKOFF_MAX_S), now);
			if (m->backoffs < DOUBLINGS_MAX)
				m->backoffs++;
			return true;
		case ATP_HOST_NOTHING:
			break;
	}
	return false;
}

void
atp_host_limit_remaining(AtpHostLimiter *m, int64_t remaining, int64_t limit, int64_t reset_s, int64_t now)
{
	if (remaining < 0 || limit <= 0 || reset_s < 0 || remaining * 20 >= limit)
		return;
	m->sparing_until = now + (reset_s < BACKOFF_MAX_S ? reset_s : BACKOFF_MAX_S) * SECOND;
}

void
atp_host_limit_reset(AtpHostLimiter *m)
{
	m->backoff_until = m->sparing_until = 0;
	m->refusals = m->failures = m->backoffs = 0;
}
