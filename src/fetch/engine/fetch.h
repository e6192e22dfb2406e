/*
 * fetch.h
 *		HTTP requests of the fetcher's tasks: net/http.h within the limits of the hosts (rules R-20
 *		to R-25).
 */
#ifndef ATP_FETCH_H
#define ATP_FETCH_H

#include "postgres.h"

#include "fetch/engine/host.h"
#include "lib/stringinfo.h"
#include "net/http.h"

/* Counters of this process. */
typedef struct AtpFetchCounts
{
	int64		requests;		/* requests that have ended, with any outcome */
	int64		bytes;			/* received */
	int64		outcomes[ATP_HTTP_COUNT];
	int64		refused;		/* answers with status 429 or 503 */
} AtpFetchCounts;

extern AtpFetchCounts atp_fetch_counts;

/*
 * Called once, when the fetcher begins, outside of any transaction.  kinds: of requests, of all
 * tasks together (task.h).
 */
extern void atp_fetch_begin(int kinds);

/* Append a parameter's value, escaped for the query of a URL. */
extern void atp_fetch_append_escaped(StringInfo url, const char *s);

/*
 * Start a request, if the limits allow a start now.  NULL: try again after *wait_ms milliseconds;
 * *wait_ms == -1: try again when a running request has ended.  limits: the limits of this host;
 * NULL: the limits of the settings.
 */
extern AtpHttp *atp_fetch_start(const AtpHttpRequest *request, const AtpHostLimits *limits, long *wait_ms);

/*
 * NULL: requests may begin.  Otherwise a limit of the whole database is reached, and no request begins; the reason is for people, and
 * lives until the next call.  bulk: is the request for an export, a part of one, or a list (net/hour.h)?
 */
extern const char *atp_fetch_closed(bool bulk);

/* For exports and proofs: is it worth looking for work of this owner now?  False: no request of this owner may start. */
extern bool atp_fetch_has_place(const void *owner);

/* For exports: how many more requests of this owner may run beside the requests that run now. */
extern int	atp_fetch_free_places(const void *owner);

/*
 * The next request of this owner that has ended, or NULL.  The limits of the host have counted the
 * result.
 */
extern AtpHttp *atp_fetch_next(const void *owner);

/*
 * Free a request, whether the request still runs or atp_fetch_next() has returned the request; NULL
 * is allowed.
 */
extern void atp_fetch_free(AtpHttp *http);

#endif							/* ATP_FETCH_H */
