/*
 * host_limit.h
 *		The rate limiter of a single host: how many requests at a time, how many a second, and
 *		until when the host is in backoff (rules ).  No PostgreSQL header is needed
 *		here.  Times are microseconds of any monotonic clock.
 */
#ifndef ATP_HOST_LIMIT_H
#define ATP_HOST_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct AtpHostLimits
{
	int			parallel;		/* requests at a time */
	int			rate;			/* requests a second */
	int			burst;			/* requests that may start at once: the size of the token bucket */
} AtpHostLimits;

/* All zeros: a host without any history. */
typedef struct AtpHostLimiter
{
	int			running;
	double		tokens;			/* token bucket: the number of requests that might have started
								 * ... */
	int64_t		filled;			/* ... at this time; 0: the bucket was never used and is full */
	int64_t		backoff_until;	/* end of the backoff; 0: no backoff */
	int64_t		sparing_until;	/* the rate is halved until then */
	int			refusals;		/* answers 429 and 503 in a row */
	int			failures;		/* failures in a row */
	int			backoffs;		/* backoffs for failures in a row; each doubles the next */
	bool		known;			/* an answer arrived at some time */
	int64_t		wanted_until;	/* P-60: requests for other than parts wait; 0: never */
	double		shared;			/* the number of requests for parts that might have started meanwhile ... */
	int64_t		shared_filled;	/* ... at this time */
} AtpHostLimiter;

/* The outcome of a request, as the limiter distinguishes outcomes. */
typedef enum AtpHostOutcome
{
	ATP_HOST_ANSWERED,
	ATP_HOST_REFUSED,			/* 429 or 503: the host wants the request later */
	ATP_HOST_FAILED,
	ATP_HOST_NOTHING			/* the request was given up, or failed for a reason on our side */
} AtpHostOutcome;

/*
 * May a request start now?  True: the request counts as running.  False: not before *wait_ms
 * milliseconds have passed; -1: when a running request has ended.
 */
extern bool atp_host_limit_ask(AtpHostLimiter *m, const AtpHostLimits *limits, int64_t now, long *wait_ms);

/*
 * P-60: may a request for a part of a repository start now?  A fetch of parts makes many requests: for 10 s after
 * atp_host_limit_ask() has refused a request, all fetches of parts together have a quarter of the host's rate.
 */
extern bool atp_host_limit_ask_shared(AtpHostLimiter *m, const AtpHostLimits *limits, int64_t now, long *wait_ms);

/*
 * A request has ended.  wait_s: seconds of a Retry-After or reset header; -1: no such header.
 * True: a backoff has begun or goes on.
 */
extern bool atp_host_limit_told(AtpHostLimiter *m, AtpHostOutcome what, int64_t wait_s, int64_t now);

/*
 * rate-limit headers of an answer: remaining of limit requests are left for reset_s seconds; -1: no
 * header.  Below a twentieth the rate is halved.
 */
extern void atp_host_limit_remaining(AtpHostLimiter *m, int64_t remaining, int64_t limit, int64_t reset_s, int64_t now);

/* An operator says that the host works again: end the backoff, and forget refusals and failures. */
extern void atp_host_limit_reset(AtpHostLimiter *m);

#endif							/* ATP_HOST_LIMIT_H */
