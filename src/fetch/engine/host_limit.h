/*
 * host_limit.h
 *		How one host is asked: how many requests at a time, how often, and when it
 *		has to be left alone (rules ).  Needs no PostgreSQL header; times
 *		are microseconds of any clock that does not go back.
 */
#ifndef ATP_HOST_LIMIT_H
#define ATP_HOST_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct AtpHostLimits
{
	int			parallel;		/* requests at a time */
	int			rate;			/* requests a second */
	int			burst;			/* ... of which so many may come at once */
} AtpHostLimits;

/* All zeros: a host of which nothing is known. */
typedef struct AtpManners
{
	int			running;
	double		tokens;			/* requests that could begin now ... */
	int64_t		filled;			/* ... at this time; 0: as many as a burst has */
	int64_t		rest_until;		/* 0: it does not rest */
	int64_t		sparing_until;	/* asked half as often until then */
	int			refusals;		/* 429 and 503 in a row */
	int			failures;		/* in a row */
	int			rests;			/* in a row, for failures: each is longer */
	bool		known;			/* it has answered once */
} AtpManners;

/* What came of a request. */
typedef enum AtpManner
{
	ATP_MANNER_ANSWERED,
	ATP_MANNER_REFUSED,			/* 429, 503: later */
	ATP_MANNER_FAILED,
	ATP_MANNER_NOTHING			/* it was given up, or failed by our doing */
} AtpManner;

/* May one begin?  Then it counts.  Else not before *wait_ms; -1: when another has ended. */
extern bool atp_manners_ask(AtpManners *m, const AtpHostLimits *limits, int64_t now, long *wait_ms);

/* One has ended.  wait_s: what a refusal asks for; -1: it does not say.  True: it rests from now on. */
extern bool atp_manners_told(AtpManners *m, AtpManner what, int64_t wait_s, int64_t now);

/* It says how many requests are left of how many, and for how long; -1: it does not. */
extern void atp_manners_left(AtpManners *m, int64_t remaining, int64_t limit, int64_t reset_s, int64_t now);

/* Somebody knows that it is well again. */
extern void atp_manners_forgive(AtpManners *m);

#endif							/* ATP_HOST_LIMIT_H */
