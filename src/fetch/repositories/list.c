/*
 * list.c
 *		The errand that reads lists of repositories, page by page: of
 *		the server of a subscription, or another one, or of all hosts that it names.
 *
 * Each list has one request at a time, whose answer is written before the next
 * page is asked for.  list_rows.c has what is written.
 *
 * There may be thousands of lists, of hosts that strangers name.  Where more are due than can be
 * read at a time, each has its turn, and what cannot be read now makes room.
 */
#include "postgres.h"

#include "config/transaction.h"
#include "config/wake.h"
#include "core/wire/list_page.h"
#include "fetch/engine/run_as_owner.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "fetch/repositories/list_rows.h"
#include "lib/ilist.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#define LISTS_MAX		16		/* at a time */
#define LOOK_MS			1000	/* so long between two looks, and so many times as long as the last one took */
#define LOOK_REST		20
#define LOOK_SHARE		3		/* ... or so many times alone, when a page came */
#define LOOK_MAX_MS		2000	/* for one */
#define TURN_MS			60000	/* of a list for which others wait */
#define IDLE_LOOK_MS	10000

#define LIMIT				1000	/* entries of a page that are asked for: the most that servers give */
#define COLLECTION_LIMIT	2000

/* A list that is being read, in memory of its own. */
typedef struct Reading
{
	dlist_node	node;
	MemoryContext cxt;
	AtpListing	listing;
	AtpListSeen seen;
	AtpHttp    *http;			/* NULL: between two pages */
	bool		due;			/* as of the last look */
	AtpTime		turn;			/* its turn began */
} Reading;

static dlist_head readings = DLIST_STATIC_INIT(readings);
static int	nreadings;
static AtpTime looked;			/* it was over */
static long look_least_ms;
static long look_most_ms;
static bool look_now;

static void
forget(Reading *reading)
{
	dlist_delete(&reading->node);
	nreadings--;
	atp_fetch_free(reading->http);
	MemoryContextDelete(reading->cxt);
}

static Reading *
find_reading(const AtpListing *listing)
{
	dlist_iter	iter;

	dlist_foreach(iter, &readings)
	{
		Reading    *reading = dlist_container(Reading, node, iter.cur);

		if (strcmp(reading->listing.subscription, listing->subscription) == 0 &&
			strcmp(reading->listing.source, listing->source) == 0)
			return reading;
	}
	return NULL;
}

static char *
copy_text(MemoryContext cxt, const char *s)
{
	return s == NULL ? NULL : MemoryContextStrdup(cxt, s);
}

/* What is asked next, in place of what was asked before. */
static void
set_listing(Reading *reading, const AtpListing *listing)
{
	AtpListing *own = &reading->listing;

	if (own->started_at != listing->started_at)
		memset(&reading->seen, 0, sizeof(reading->seen));
	if (own->cursor != NULL)
		pfree(own->cursor);
	if (own->server != NULL)
		pfree(own->server);
	own->cursor = copy_text(reading->cxt, listing->cursor);
	own->server = copy_text(reading->cxt, listing->server);
	own->started_at = listing->started_at;
}

static Reading *
make_reading(const AtpListing *listing)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto list", ALLOCSET_SMALL_SIZES);
	Reading    *reading = MemoryContextAllocZero(cxt, sizeof(Reading));

	reading->cxt = cxt;
	reading->listing.subscription = copy_text(cxt, listing->subscription);
	reading->listing.source = copy_text(cxt, listing->source);
	reading->turn = atp_now();
	dlist_push_tail(&readings, &reading->node);
	nreadings++;
	return reading;
}

static void
take_up(Reading *reading, const AtpListing *listing)
{
	if (reading->http == NULL)
		set_listing(reading, listing);
	reading->due = true;
}

/* From the table to the lists in memory: those that are not due any more are forgotten. */
static void
look(void *arg)
{
	List	   *due = atp_lists_due(LISTS_MAX);
	dlist_mutable_iter iter;
	ListCell   *cell;

	dlist_foreach_modify(iter, &readings)
		dlist_container(Reading, node, iter.cur)->due = false;
	foreach(cell, due)
	{
		Reading    *reading = find_reading(lfirst(cell));

		if (reading != NULL)
			take_up(reading, lfirst(cell));
	}
	dlist_foreach_modify(iter, &readings)
	{
		Reading    *reading = dlist_container(Reading, node, iter.cur);

		if (!reading->due && reading->http == NULL)
			forget(reading);
	}
	foreach(cell, due)
		if (nreadings < LISTS_MAX && find_reading(lfirst(cell)) == NULL)
			take_up(make_reading(lfirst(cell)), lfirst(cell));
}

/* ------------------------------------------------------------------------
 * Requests
 * ------------------------------------------------------------------------
 */

/* The source is the name of the method, and maybe a collection, or the host. */
static char *
url_of(const AtpListing *listing)
{
	const char *source = atp_list_is_recheck(listing) ? "listRepos" : listing->source;
	size_t		method = strcspn(source, " ");
	bool		by_collection = source[method] != '\0' && !atp_list_is_of_host(listing);
	StringInfoData url;

	initStringInfo(&url);
	appendStringInfo(&url, "%s/xrpc/com.atproto.sync.%.*s?limit=%d", listing->server, (int) method, source,
					 by_collection ? COLLECTION_LIMIT : LIMIT);
	if (by_collection)
	{
		appendStringInfoString(&url, "&collection=");
		atp_fetch_append_escaped(&url, source + method + 1);
	}
	if (listing->cursor != NULL)
	{
		appendStringInfoString(&url, "&cursor=");
		atp_fetch_append_escaped(&url, listing->cursor);
	}
	return url.data;
}

static bool
all_places_are_taken(void)
{
	return nreadings >= LISTS_MAX;
}

/* Its host is not asked for a while: whoever waits has its place. */
static void
rest(Reading *reading, long ms)
{
	atp_begin("reading a list of repositories");
	atp_list_rests(&reading->listing, ms);
	atp_commit();
	reading->due = false;
	look_now = true;
}

/* Returns ms until there may be more of them, -1: when one ends. */
static long
start_requests(void)
{
	long		timeout = -1;
	dlist_iter	iter;

	dlist_foreach(iter, &readings)
	{
		Reading    *reading = dlist_container(Reading, node, iter.cur);
		long		wait_ms = -1;

		if (reading->http != NULL || !reading->due || strcmp(reading->listing.source, "dids") == 0)
			continue;
		reading->http = atp_fetch_start(&(AtpHttpRequest) {
										.owner = &readings, .arg = reading, .url = url_of(&reading->listing),
										.accept = "application/json", .body_max = ATP_LIST_PAGE_MAX, .gzip = true
										}, NULL, &wait_ms);
		if (reading->http == NULL && wait_ms > LOOK_MS && all_places_are_taken())
			rest(reading, wait_ms);
		if (reading->http == NULL)
			timeout = atp_earlier(timeout, wait_ms);
	}
	return timeout;
}

/* ------------------------------------------------------------------------
 * Answers
 * ------------------------------------------------------------------------
 */

/* a host that wants to be left alone is no fault of the list. */
static AtpListFault
fault_of(const AtpListing *listing, const AtpHttpAnswer *answer)
{
	if (atp_http_is_later(answer))
		return ATP_LIST_BUSY;
	return answer->status == 400 && listing->cursor != NULL ? ATP_LIST_ANEW : ATP_LIST_AGAIN;
}

static void
note(const AtpListing *listing)
{
	atp_begin("reading a list of repositories");
	atp_list_note(listing);
	atp_commit();
}

/* Not where it names nobody new: that it has no end would never come out. */
static bool
turn_is_over(Reading *reading)
{
	if (!all_places_are_taken() || reading->seen.fruitless > 0 || atp_remaining(atp_now(), reading->turn, TURN_MS) > 0)
		return false;
	reading->turn = atp_now();
	return true;
}

static void
take_answer(Reading *reading)
{
	const AtpHttpAnswer *answer = atp_http_answer(reading->http);
	bool		is_page = answer->outcome == ATP_HTTP_OK && answer->status == 200;
	bool		yields = turn_is_over(reading);

	if (is_page)
		note(&reading->listing);
	atp_begin("reading a list of repositories");
	if (is_page)
	{
		(void) atp_list_take(&reading->listing, answer->body, answer->body_len, &reading->seen, yields);
		/* for the errand that fetches them */
		atp_wake_fetcher();
	}
	else
		atp_list_failed(&reading->listing, answer->error != NULL ? answer->error : "the answer is not of status 200",
						fault_of(&reading->listing, answer));
	atp_commit();
	atp_fetch_free(reading->http);
	reading->http = NULL;
	reading->due = false;
	look_now = true;
}

static void
take_answers(void)
{
	AtpHttp    *http;

	while ((http = atp_fetch_next(&readings)) != NULL)
		take_answer(atp_http_arg(http));
}

/* Those that need no request. */
static void
take_dids(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &readings)
	{
		Reading    *reading = dlist_container(Reading, node, iter.cur);

		if (!reading->due || strcmp(reading->listing.source, "dids") != 0)
			continue;
		note(&reading->listing);
		atp_begin("queueing the repositories of a subscription");
		atp_list_take_dids(&reading->listing);
		atp_wake_fetcher();
		atp_commit();
		reading->due = false;
	}
}

static long
step(AtpTime now)
{
	bool		looks;
	long		timeout;
	char	   *why;

	take_answers();
	looks = atp_remaining(now, looked, look_now ? look_least_ms : look_most_ms) == 0;
	if (looks)
	{
		AtpTime		begun = atp_now();

		look_now = false;
		/* a session may be about to remove the subscription of one */
		if (atp_bounded(GetUserId(), "looking for lists of repositories", LOOK_MAX_MS, look, NULL, &why) != ATP_BOUNDED_DONE)
			ereport(LOG,
					(errmsg("could not look for lists of repositories: %s", why)));
		looked = atp_now();
		look_least_ms = Min(LOOK_SHARE * (looked - begun) / 1000, LOOK_MS);
		look_most_ms = Min(LOOK_MS + LOOK_REST * (looked - begun) / 1000, IDLE_LOOK_MS);
		take_dids();
	}
	timeout = start_requests();
	/* who was woken for something new, but too early to look, has to */
	return atp_earlier(timeout, looks && !look_now ? IDLE_LOOK_MS : atp_remaining(atp_now(), looked, look_now ? look_least_ms : look_most_ms));
}

const AtpErrand atp_list_errand = {
	.name = "list",
	.wanted = atp_list_is_wanted,
	.step = step,
};
