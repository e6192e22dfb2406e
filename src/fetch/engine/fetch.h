/*
 * fetch.h
 *		A request of an errand: net/http.h within the limits of the hosts (rules
 *		
 */
#ifndef ATP_FETCH_H
#define ATP_FETCH_H

#include "postgres.h"

#include "fetch/engine/host.h"
#include "lib/stringinfo.h"
#include "net/http.h"

/* What this process has done. */
typedef struct AtpFetchCounts
{
	int64		requests;		/* that have ended */
	int64		bytes;			/* received */
	int64		outcomes[ATP_HTTP_COUNT];
	int64		refused;		/* answers with status 429 and 503 */
} AtpFetchCounts;

extern AtpFetchCounts atp_fetch_counts;

/* Once, when the fetcher begins, outside of any transaction. */
extern void atp_fetch_begin(void);

/* A parameter's value, as the query of an URL has it. */
extern void atp_fetch_append_escaped(StringInfo url, const char *s);

/*
 * Start a request, if one may start at its host now.  NULL: not before *wait_ms
 * milliseconds have passed; -1: when another request ends.  limits: the host's
 * own, or NULL for those of the settings.
 */
extern AtpHttp *atp_fetch_start(const AtpHttpRequest *request, const AtpHostLimits *limits, long *wait_ms);

/* May this owner start one at all? */
extern bool atp_fetch_has_place(const void *owner);

/* The next request of this owner that has ended, or NULL.  The host has learned from it. */
extern AtpHttp *atp_fetch_next(const void *owner);

/*
 * It is not needed any more, whether it runs or has been taken by atp_fetch_next();
 * NULL is allowed.
 */
extern void atp_fetch_free(AtpHttp *http);

#endif							/* ATP_FETCH_H */
