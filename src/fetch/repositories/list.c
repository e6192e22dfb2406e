/*
 * list.c
 *		The fetcher's task that reads lists of repositories, page by page: from a
 *		subscription's server, from list_source, or from every host that listHosts names.
 *
 * Each list has a single request at a time, and a page is written before the next page is
 * requested.  list_rows.c writes the pages.
 *
 * There may be thousands of lists, of hosts named by strangers.  If more lists are due than can be
 * read at a time, the lists take turns, and a list that cannot be read now frees its place.
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

#define LISTS_MAX		16		/* lists read at a time */
#define LOOK_MS			1000	/* between two looks for due lists, plus LOOK_PAUSE times the
								 * duration of the last look */
#define LOOK_PAUSE		20
#define LOOK_SHARE		3		/* ... after a page was written only LOOK_SHARE times that
								 * duration */
#define LOOK_MAX_MS		2000	/* time limit of a look */
#define TURN_MS			60000	/* a list keeps its place so long if more lists are due */
#define IDLE_LOOK_MS	10000

#define LIMIT				1000	/* entries requested for a page: servers' maximum */
#define COLLECTION_LIMIT	2000

/* A list being read, in a memory context of its own. */
typedef struct ListReading
{
	dlist_node	node;
	MemoryContext cxt;
	AtpListing	listing;
	AtpListSeen seen;
	AtpHttp    *http;			/* the running request; NULL: between two pages */
	bool		due;			/* the last look found the list due */
	AtpTime		turn;			/* when the list's turn began */
} ListReading;

static dlist_head readings = DLIST_STATIC_INIT(readings);
static int	nreadings;
static AtpTime looked;			/* end of the last look */
static long look_least_ms;
static long look_most_ms;
static bool look_now;

static void
free_reading(ListReading *reading)
{
	dlist_delete(&reading->node);
	nreadings--;
	atp_fetch_free(reading->http);
	MemoryContextDelete(reading->cxt);
}

static ListReading *
find_reading(const AtpListing *listing)
{
	dlist_iter	iter;

	dlist_foreach(iter, &readings)
	{
		ListReading *reading = dlist_container(ListReading, node, iter.cur);

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

/* Take over the position to read next. */
static void
set_listing(ListReading *reading, const AtpListing *listing)
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

static ListReading *
make_reading(const AtpListing *listing)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto list", ALLOCSET_SMALL_SIZES);
	ListReading *reading = MemoryContextAllocZero(cxt, sizeof(ListReading));

	reading->cxt = cxt;
	reading->listing.subscription = copy_text(cxt, listing->subscription);
	reading->listing.source = copy_text(cxt, listing->source);
	reading->turn = atp_now();
	dlist_push_tail(&readings, &reading->node);
	nreadings++;
	return reading;
}

static void
take_up(ListReading *reading, const AtpListing *listing)
{
	if (reading->http == NULL)
		set_listing(reading, listing);
	reading->due = true;
}

/* Read the due lists from the table into memory, and forget lists that are no longer due. */
static void
read_due_lists(void *arg)
{
	List	   *due = atp_lists_due(LISTS_MAX);
	dlist_mutable_iter iter;
	ListCell   *cell;

	dlist_foreach_modify(iter, &readings)
		dlist_container(ListReading, node, iter.cur)->due = false;
	foreach(cell, due)
	{
		ListReading *reading = find_reading(lfirst(cell));

		if (reading != NULL)
			take_up(reading, lfirst(cell));
	}
	dlist_foreach_modify(iter, &readings)
	{
		ListReading *reading = dlist_container(ListReading, node, iter.cur);

		if (!reading->due && reading->http == NULL)
			free_reading(reading);
	}
	foreach(cell, due)
		if (nreadings < LISTS_MAX && find_reading(lfirst(cell)) == NULL)
			take_up(make_reading(lfirst(cell)), lfirst(cell));
}

/* ------------------------------------------------------------------------
 * Requests
 * ------------------------------------------------------------------------
 */

/*
 * The source of a list is the name of the method, for some followed by a collection or by a host's
 * URL.
 */
static char *
url_of_list(const AtpListing *listing)
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

/* The host's limits forbid a request for a while: free the place for a list that is due. */
static void
put_off_reading(ListReading *reading, long ms)
{
	atp_begin("reading a list of repositories");
	atp_list_put_off(&reading->listing, ms);
	atp_commit();
	reading->due = false;
	look_now = true;
}

/*
 * Start requests.  Returns milliseconds until the next request may start, -1: when a request ends.
 */
static long
start_requests(void)
{
	long		timeout = -1;
	dlist_iter	iter;

	dlist_foreach(iter, &readings)
	{
		ListReading *reading = dlist_container(ListReading, node, iter.cur);
		long		wait_ms = -1;

		if (reading->http != NULL || !reading->due || strcmp(reading->listing.source, "dids") == 0)
			continue;
		reading->http = atp_fetch_start(&(AtpHttpRequest) {
										.owner = &readings, .bulk = true, .arg = reading, .url = url_of_list(&reading->listing),
										.accept = "application/json", .body_max = ATP_LIST_PAGE_MAX, .gzip = true
										}, NULL, &wait_ms);
		if (reading->http == NULL && wait_ms > LOOK_MS && all_places_are_taken())
			put_off_reading(reading, wait_ms);
		if (reading->http == NULL)
			timeout = atp_earlier(timeout, wait_ms);
	}
	return timeout;
}

/* ------------------------------------------------------------------------
 * Answers
 * ------------------------------------------------------------------------
 */

/* a host that refuses requests for now is no failure of the list. */
static AtpListFault
fault_of_answer(const AtpListing *listing, const AtpHttpAnswer *answer)
{
	if (atp_http_is_later(answer))
		return ATP_LIST_BUSY;
	return answer->status == 400 && listing->cursor != NULL ? ATP_LIST_ANEW : ATP_LIST_AGAIN;
}

static void
note_listing(const AtpListing *listing)
{
	atp_begin("reading a list of repositories");
	atp_list_note(listing);
	atp_commit();
}

/*
 * Must the list free its place for lists that are due?  Not if its last pages named no new account:
 * the count of such pages would be lost with the place, and an endless list would never be noticed.
 */
static bool
turn_is_over(ListReading *reading)
{
	if (!all_places_are_taken() || reading->seen.fruitless > 0 || atp_remaining(atp_now(), reading->turn, TURN_MS) > 0)
		return false;
	reading->turn = atp_now();
	return true;
}

/* A PDS has a list of its repositories, but lists those with a collection for its administrator only. */
static const char *
why_no_page(const AtpListing *listing, const AtpHttpAnswer *answer)
{
	static const char by_collection[] = "listReposByCollection ";

	if (answer->error == NULL)
		return "the answer is not of status 200";
	if (answer->status != 401 || strncmp(listing->source, by_collection, strlen(by_collection)) != 0)
		return answer->error;
	return psprintf("%s; a PDS does not offer this list: set \"backfill\" to \"network\", or \"list_source\" to a relay", answer->error);
}

static void
take_answer(ListReading *reading)
{
	const AtpHttpAnswer *answer = atp_http_answer(reading->http);
	bool		is_page = answer->outcome == ATP_HTTP_OK && answer->status == 200;
	bool		yields = turn_is_over(reading);

	if (is_page)
		note_listing(&reading->listing);
	atp_begin("reading a list of repositories");
	if (is_page)
	{
		(void) atp_list_take(&reading->listing, answer->body, answer->body_len, &reading->seen, yields);
		/* for the task that fetches the listed repositories */
		atp_wake_fetcher();
	}
	else
		atp_list_failed(&reading->listing, why_no_page(&reading->listing, answer), fault_of_answer(&reading->listing, answer));
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

/* Lists of source "dids" need no request: the subscription has the entries. */
static void
take_dids(void)
{
	dlist_iter	iter;

	dlist_foreach(iter, &readings)
	{
		ListReading *reading = dlist_container(ListReading, node, iter.cur);

		if (!reading->due || strcmp(reading->listing.source, "dids") != 0)
			continue;
		note_listing(&reading->listing);
		atp_begin("queueing the repositories of a subscription");
		atp_list_take_dids(&reading->listing);
		atp_wake_fetcher();
		atp_commit();
		reading->due = false;
	}
}

static long
step_lists(AtpTime now)
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
		/* a session may have locked the subscription of a list, so the look has a time limit */
		if (atp_run_as_owner(GetUserId(), "looking for lists of repositories", LOOK_MAX_MS, read_due_lists, NULL, &why) != ATP_RUN_DONE)
			ereport(LOG,
					(errmsg("could not look for lists of repositories: %s", why)));
		looked = atp_now();
		look_least_ms = Min(LOOK_SHARE * (looked - begun) / 1000, LOOK_MS);
		look_most_ms = Min(LOOK_MS + LOOK_PAUSE * (looked - begun) / 1000, IDLE_LOOK_MS);
		take_dids();
	}
	timeout = start_requests();
	/* a wake-up may have come for a new row, but too soon after the last look: look again */
	return atp_earlier(timeout, looks && !look_now ? IDLE_LOOK_MS : atp_remaining(atp_now(), looked, look_now ? look_least_ms : look_most_ms));
}

const AtpTask atp_list_task = {
	.name = "list",
	.wanted = atp_list_is_wanted,
	.step = step_lists,
	.kinds = 1,
};
