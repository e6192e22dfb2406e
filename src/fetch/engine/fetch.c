/*
 * fetch.c
 *		The fetcher's tasks start their HTTP requests here.  A request starts only if the limits of
 *		its host (host.c) and the task's share of atproto.fetch_concurrency allow a start now.
 */
#include "postgres.h"

#include "fetch/engine/fetch.h"

#define TASKS		6			/* reserves that are kept free; more tasks than this may be at work,
								 * so a reserve is no guarantee */

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
	int			running;
} Asker;

static Asker askers[2 * TASKS];

static Asker *
asker_of(const void *owner, bool named)
{
	for (int i = 0; i < lengthof(askers); i++)
	{
		if (askers[i].owner == NULL)
			askers[i] = (Asker) {owner, named, 0};
		if (askers[i].owner == owner && askers[i].named == named)
			return &askers[i];
	}
	elog(ERROR, "there are too many tasks");
}

/*
 * A sixteenth of the concurrent requests is reserved for each task; the rest is shared, first come,
 * first served.  Without the reserve a task whose hosts are slow would keep every other task from
 * working.
 */
static bool
has_place(const Asker *asker)
{
	int			own = Max(atp_host_concurrency() / 16, 1);
	int			shared = 0;

	if (asker->running < own)
		return true;
	for (int i = 0; i < lengthof(askers); i++)
		shared += Max(askers[i].running - own, 0);
	return shared < atp_host_concurrency() - TASKS * own;
}

bool
atp_fetch_has_place(const void *owner)
{
	return has_place(asker_of(owner, false));
}

static bool
on_redirect(AtpHttp *http, const char *from, const char *to)
{
	return atp_host_move(from, to, atp_now());
}

void
atp_fetch_begin(void)
{
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
		Asker	   *asker = asker_of(request->owner, limits != NULL);
		char	   *host = atp_http_host_of(request->url);
		bool		may;

		*wait_ms = -1;
		may = has_place(asker) && atp_host_ask(host, limits, atp_now(), wait_ms);
		pfree(host);
		if (!may)
			return NULL;
		asker->running++;
		own.place = asker;
	}
	return atp_http_start(&own);
}

static void
leave_place(const AtpHttp *http)
{
	Asker	   *asker = atp_http_place(http);

	if (asker != NULL)
		asker->running--;
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
