/*
 * host.c
 *		Hosts that the fetcher sends requests to, in memory: each host's limiter (host_limit.c),
 *		and the limits over all hosts together.  host_table.c writes and reads atproto.host.
 *
 * Strangers choose the names of hosts.  So memory keeps the last few thousand hosts only, and the
 * names below one domain together cannot have all concurrent requests.
 */
#include "postgres.h"

#include "fetch/engine/host_private.h"
#include "utils/guc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#define HOSTS_MAX	4096
#define BURST		10			/* */
#define REMAINING_S	3600		/* a number of remaining requests is believed for so long at most */
#define WHOLE_MS	(24 * 60 * 60 * 1000)	/* P-30: how long only whole repositories are asked for */

static int	fetch_concurrency;
static int	fetch_host_parallel;
static int	fetch_host_rate;

static HTAB *hosts = NULL;
static dlist_head used = DLIST_STATIC_INIT(used);	/* most recently used first */
static int	nrunning = 0;

void
atp_host_init(void)
{
	DefineCustomIntVariable("atproto.fetch_concurrency",
							"Number of requests that the fetcher makes at a time.",
							NULL, &fetch_concurrency, 32, 1, 256,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.fetch_host_parallel",
							"Number of requests that the fetcher makes at a time to one host.",
							NULL, &fetch_host_parallel, 4, 1, 256,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("atproto.fetch_host_rate",
							"Number of requests per second that the fetcher makes to one host.",
							NULL, &fetch_host_rate, 10, 1, 10000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

int
atp_host_concurrency(void)
{
	return fetch_concurrency;
}

AtpHost *
atp_host_known(const char *name)
{
	if (hosts == NULL)
		hosts = hash_create("atproto hosts", 256,
							&(HASHCTL) {.keysize = ATP_HOST_NAME, .entrysize = sizeof(AtpHost)},
							HASH_ELEM | HASH_STRINGS);
	return hash_search(hosts, name, HASH_FIND, NULL);
}

/* Forget the least recently used host without a running request and without unwritten changes. */
static bool
forget_one(void)
{
	dlist_iter	it;

	dlist_reverse_foreach(it, &used)
	{
		AtpHost    *host = dlist_container(AtpHost, node, it.cur);

		if (host->limiter.running > 0 || host->dirty)
			continue;
		dlist_delete(&host->node);
		(void) hash_search(hosts, host->name, HASH_REMOVE, NULL);
		return true;
	}
	return false;
}

AtpHost *
atp_host_get(const char *name)
{
	AtpHost    *host = atp_host_known(name);

	if (host != NULL)
		dlist_move_head(&used, &host->node);
	else if (strlen(name) < ATP_HOST_NAME && (hash_get_num_entries(hosts) < HOSTS_MAX || forget_one()))
	{
		host = hash_search(hosts, name, HASH_ENTER, NULL);
		memset((char *) host + ATP_HOST_NAME, 0, sizeof(AtpHost) - ATP_HOST_NAME);
		host->limit = host->remaining = -1;
		dlist_push_head(&used, &host->node);
	}
	return host;
}

AtpHost *
atp_host_dirty(AtpHost *after)
{
	dlist_node *node = after != NULL ? (dlist_has_next(&used, &after->node) ? dlist_next_node(&used, &after->node) : NULL) :
		dlist_is_empty(&used) ? NULL : dlist_head_node(&used);

	while (node != NULL)
	{
		AtpHost    *host = dlist_container(AtpHost, node, node);

		if (host->dirty)
			return host;
		node = dlist_has_next(&used, node) ? dlist_next_node(&used, node) : NULL;
	}
	return NULL;
}

bool
atp_host_any_in_backoff(AtpTime now)
{
	dlist_iter	it;

	dlist_foreach(it, &used)
		if (dlist_container(AtpHost, node, it.cur)->limiter.backoff_until > now)
			return true;
	return false;
}

bool
atp_host_any_refuses_parts(AtpTime now)
{
	dlist_iter	it;

	dlist_foreach(it, &used)
		if (dlist_container(AtpHost, node, it.cur)->whole_until > now)
			return true;
	return false;
}

void
atp_host_refuses_parts(const char *name, const char *why, AtpTime now)
{
	AtpHost    *host = atp_host_get(name);

	if (host == NULL)
		return;
	host->whole_until = now + (AtpTime) WHOLE_MS * 1000;
	strlcpy(host->whole_reason, why, sizeof(host->whole_reason));
	host->dirty = true;
}

int64
atp_host_remaining(const char *name, AtpTime now)
{
	const AtpHost *host = atp_host_known(name);

	return host == NULL || host->limit < 0 || now >= host->remaining_until ? -1 : host->remaining;
}

bool
atp_host_has_parts(const char *name, AtpTime now)
{
	const AtpHost *host = atp_host_known(name);

	return host == NULL || host->whole_until <= now;
}

const char *
atp_host_suffix(const char *name)
{
	const char *end = name + strcspn(name, ":");
	int			dots = 0;

	for (const char *p = end; p > name; p--)
		if (p[-1] == '.' && ++dots == 2)
			return p;
	return name;
}

/*
 * Hosts with the same suffix (the last two labels) may have three quarters of all concurrent
 * requests together, and hosts of the suffix that never answered a quarter.  So the many names of a
 * single stranger always leave some requests for the rest of the hosts.
 */
static bool
suffix_is_full(const AtpHost *host)
{
	const char *suffix = atp_host_suffix(host->name);
	int			n = 0;
	int			unknown = 0;
	int			seen = 0;
	dlist_iter	it;

	/*
	 * hosts with running requests come first in this list, except for hosts that were only looked
	 * up
	 */
	dlist_foreach(it, &used)
	{
		const AtpHost *other = dlist_container(AtpHost, node, it.cur);

		if (seen >= nrunning)
			break;
		seen += other->limiter.running;
		if (other->limiter.running == 0 || strcmp(atp_host_suffix(other->name), suffix) != 0)
			continue;
		n += other->limiter.running;
		if (!other->limiter.known)
			unknown += other->limiter.running;
	}
	return n >= Max(fetch_concurrency * 3 / 4, 1) ||
		(!host->limiter.known && unknown >= Max(fetch_concurrency / 4, 1));
}

bool
atp_host_ask(const char *name, const AtpHostLimits *limits, bool shared, AtpTime now, long *wait_ms)
{
	AtpHostLimits usual = {fetch_host_parallel, fetch_host_rate, Min(fetch_host_rate, BURST)};
	AtpHost    *host;

	*wait_ms = -1;
	if (nrunning >= fetch_concurrency || (host = atp_host_get(name)) == NULL || suffix_is_full(host))
		return false;
	if (!(shared ? atp_host_limit_ask_shared : atp_host_limit_ask) (&host->limiter, limits != NULL ? limits : &usual, now, wait_ms))
		return false;
	nrunning++;
	return true;
}

/* Classify an answer for the host's limiter. */
static AtpHostOutcome
outcome_of(const AtpHttpAnswer *answer)
{
	switch (answer->outcome)
	{
		case ATP_HTTP_OK:
			if (answer->status == 429 || answer->status == 503)
				return ATP_HOST_REFUSED;
			return answer->status >= 500 ? ATP_HOST_FAILED : ATP_HOST_ANSWERED;
		case ATP_HTTP_POLICY:
		case ATP_HTTP_TOO_LARGE:
		case ATP_HTTP_REDIRECT:
		case ATP_HTTP_BUSY:
		case ATP_HTTP_SETTINGS:
		case ATP_HTTP_COUNT:
			return ATP_HOST_NOTHING;
		case ATP_HTTP_ADDRESS:
		case ATP_HTTP_DNS:
		case ATP_HTTP_CONNECT:
		case ATP_HTTP_TLS:
		case ATP_HTTP_TIMEOUT:
		case ATP_HTTP_SLOW:
		case ATP_HTTP_BROKEN:
			return ATP_HOST_FAILED;
	}
	return ATP_HOST_NOTHING;
}

void
atp_host_told(const char *name, const AtpHttpAnswer *answer, AtpTime now)
{
	AtpHost    *host = atp_host_known(name);
	AtpHostOutcome outcome = outcome_of(answer);
	int64		wait_s = answer->retry_after_s;

	/* a URL that policy refused was never counted as started */
	if (host == NULL || answer->outcome == ATP_HTTP_POLICY)
		return;
	nrunning--;
	if (wait_s < 0 && answer->remaining == 0)
		wait_s = answer->reset_s;
	if (atp_host_limit_told(&host->limiter, outcome, wait_s, now))
		strlcpy(host->reason, answer->error != NULL ? answer->error : "", sizeof(host->reason));
	atp_host_limit_remaining(&host->limiter, answer->remaining, answer->limit, answer->reset_s, now);
	if (answer->limit >= 0)
	{
		host->limit = answer->limit;
		host->remaining = answer->remaining;
		host->remaining_until = now + (AtpTime) Min(Max(answer->reset_s, 0), REMAINING_S) * 1000000;
	}
	host->requests++;
	host->bytes += answer->received;
	host->refused += outcome == ATP_HOST_REFUSED;
	host->answered |= outcome == ATP_HOST_ANSWERED;
	host->dirty = true;
}

void
atp_host_left(const char *name)
{
	AtpHost    *host = atp_host_known(name);

	if (host == NULL)
		return;
	nrunning--;
	(void) atp_host_limit_told(&host->limiter, ATP_HOST_NOTHING, -1, 0);
}

bool
atp_host_move(const char *from, const char *to, AtpTime now)
{
	AtpHost    *host = atp_host_known(from);
	long		wait_ms;

	/* the request to the old host ends here: its slot is free for the new host */
	nrunning--;
	if (!atp_host_ask(to, NULL, false, now, &wait_ms))
	{
		nrunning++;
		return false;
	}
	(void) atp_host_limit_told(&host->limiter, ATP_HOST_ANSWERED, -1, now);
	host->requests++;
	host->answered = host->dirty = true;
	return true;
}
