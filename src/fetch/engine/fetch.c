/*
 * fetch.c
 *		The fetcher's tasks start their HTTP requests here.  A request starts only if the limits of
 *		its host (host.c) and the task's share of atproto.fetch_concurrency allow a start now.
 */
#include "postgres.h"

#include "config/free_disk.h"
#include "fetch/engine/fetch.h"
#include "fetch/engine/request_share.h"
#include "net/hour.h"
#include "utils/memutils.h"

AtpFetchCounts atp_fetch_counts;

void
atp_fetch_append_escaped(StringInfo url, const char *s)
{
	for (; *s != '\0'; s++)
	{
		unsigned char c = (unsigned char) *s;

		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c) != NULL)
			appendStringInfoChar(url, c);
		else
			appendStringInfo(url, "%%%02X", c);
	}
}

/*
 * A task as the owner of running requests.  A task's requests to the configured directory (named:
 * AtpHostLimits were given) are counted apart from the same task's requests to hosts named by
 * strangers: slow hosts of strangers cannot use up the directory's share.
 */
typedef struct Asker
{
	const void *owner;			/* NULL: this entry is free */
	bool		named;
} Asker;

/* An element for each kind of requests that a task has announced; shares[i] is the share of askers[i]. */
static Asker *askers;
static AtpShare *shares;
static int	nkinds;

static int
kind_of(const void *owner, bool named)
{
	for (int i = 0; i < nkinds; i++)
	{
		if (askers[i].owner == NULL)
			askers[i] = (Asker) {owner, named};
		if (askers[i].owner == owner && askers[i].named == named)
			return i;
	}
	elog(ERROR, "a task has more kinds of requests than its AtpTask says");
}

/* While a limit of the whole database is reached, it is looked at again after so many milliseconds. */
#define CLOSED_MS	1000

const char *
atp_fetch_closed(bool bulk)
{
	const char *why = atp_free_disk_fault(atp_now());

	return why != NULL ? why : atp_hour_fault(bulk);
}

bool
atp_fetch_has_place(const void *owner)
{
	return atp_fetch_closed(true) == NULL && atp_share_has_place(shares, nkinds, atp_host_concurrency(), kind_of(owner, false));
}

int
atp_fetch_free_places(const void *owner)
{
	return atp_fetch_closed(true) != NULL ? 0 : atp_share_free(shares, nkinds, atp_host_concurrency(), kind_of(owner, false));
}

static bool
on_redirect(AtpHttp *http, const char *from, const char *to)
{
	return atp_host_move(from, to, atp_now());
}

void
atp_fetch_begin(int kinds)
{
	nkinds = kinds;
	askers = MemoryContextAllocZero(TopMemoryContext, sizeof(Asker) * kinds);
	shares = MemoryContextAllocZero(TopMemoryContext, sizeof(AtpShare) * kinds);
	atp_http_begin();
	atp_http_on_redirect(on_redirect);
	atp_host_begin();
}

AtpHttp *
atp_fetch_start(const AtpHttpRequest *request, const AtpHostLimits *limits, long *wait_ms)
{
	AtpHttpRequest own = *request;

	/* a URL that policy forbids fails at once, without the host: no limit counts */
	if (atp_http_refused(request->url) == NULL)
	{
		int			kind = kind_of(request->owner, limits != NULL);
		char	   *host = atp_http_host_of(request->url);
		bool		may;

		*wait_ms = -1;
		if (atp_fetch_closed(request->bulk) != NULL)
		{
			*wait_ms = CLOSED_MS;
			pfree(host);
			return NULL;
		}
		may = atp_share_ask(shares, nkinds, atp_host_concurrency(), kind, atp_now()) &&
			atp_host_ask(host, limits, request->shared, atp_now(), wait_ms);
		pfree(host);
		if (!may)
			return NULL;
		shares[kind].running++;
		own.place = &shares[kind];
	}
	return atp_http_start(&own);
}

static void
leave_place(const AtpHttp *http)
{
	AtpShare   *share = atp_http_place(http);

	if (share != NULL)
		share->running--;
}

/* Count the request's outcome in the statistics, and in the limits of the host. */
static void
note_outcome(AtpHttp *http)
{
	const AtpHttpAnswer *answer = atp_http_answer(http);

	leave_place(http);

	atp_fetch_counts.requests++;
	atp_fetch_counts.bytes += answer->received;
	atp_fetch_counts.outcomes[answer->outcome]++;
	atp_fetch_counts.refused += answer->status == 429 || answer->status == 503;
	atp_host_told(atp_http_host(http), answer, atp_now());
}

AtpHttp *
atp_fetch_next(const void *owner)
{
	AtpHttp    *http = atp_http_next(owner);

	if (http != NULL)
		note_outcome(http);
	return http;
}

void
atp_fetch_free(AtpHttp *http)
{
	if (http == NULL)
		return;
	/* the host has a request less to count, even if nobody took the result */
	if (atp_http_answer(http) == NULL)
	{
		leave_place(http);
		atp_host_left(atp_http_host(http));
	}
	else if (!atp_http_is_taken(http))
		note_outcome(http);
	atp_http_free(http);
}
