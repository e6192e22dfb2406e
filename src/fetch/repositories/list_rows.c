/*
 * list_rows.c
 *		Rows of atproto.enumeration: how far each list was read, and how the entries of a page
 *		become jobs.  list.c sends the requests.
 *
 * A page's cursor and the jobs of its entries are written in the same transaction, so that a crash
 * loses no entry.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/injection.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "config/target.h"
#include "fetch/engine/run_as_owner.h"
#include "fetch/repositories/list_hosts.h"
#include "fetch/repositories/list_rows.h"
#include "identity/identity.h"
#include "tables/base/blocked.h"
#include "tables/base/error_class.h"
#include "tables/base/job.h"
#include "tables/repos/status_request.h"
#include "tables/base/table.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#define EMPTY_MAX		3		/* a list is given up after so many pages in a row without an entry
								 * (R-62) */
#define FRUITLESS_MAX	100		/* ... or after so many pages in a row without a new account */
#define SOON_S			60
#define JOBS_WAIT		"10 s"	/* pause of a list while too many of its jobs or requests wait */
#define FIND_MS			1000	/* time limit for reading the owner's table repo */
#define ADD_MS			2000	/* time limit for waiting on sessions that have locked the jobs */

static int	enumerate_interval_s;

void
atp_list_init(void)
{
	DefineCustomIntVariable("atproto.enumerate_interval",
							"Time after which a list of repositories is read again.",
							NULL, &enumerate_interval_s, 7 * 24 * 3600, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	atp_list_hosts_init();
}

/* ------------------------------------------------------------------------
 * Due lists
 * ------------------------------------------------------------------------
 */

/* A list is due if next_try <= $1, or if it was read to its end before $2. */
#define DUE \
	" FROM atproto.wanted_list l LEFT JOIN atproto.enumeration e USING (subscription, source)" \
	" WHERE l.runs AND CASE WHEN e.subscription IS NULL THEN true" \
	" WHEN e.finished_at IS NULL THEN e.next_try <= $1 ELSE e.finished_at <= $2 AND source <> '" ATP_LIST_RECHECK "' END"

/* $3: how many; $4, if the query has it: owners whose lists are not read. */
static AtpResult
query_due(const char *sql, TimestampTz now, int limit, AtpArg owners)
{
	return atp_query(sql, ATP_ARGS(atp_time_arg(now), atp_time_arg(now - enumerate_interval_s * USECS_PER_SEC), atp_int8_arg(limit), owners));
}

bool
atp_list_is_wanted(void)
{
	AtpCaller	caller = atp_as_table_owner("enumeration");
	AtpResult	found = query_due("SELECT" DUE " LIMIT $3", atp_time_of_day() + SOON_S * USECS_PER_SEC, 1, atp_array_arg(OIDOID, NULL, NULL, 0));

	atp_owner_end(caller);
	atp_result_free(found);
	return found.n > 0;
}

/* Read the list from its first page on. */
static void
begin_list(const char *subscription, const char *source, TimestampTz now)
{
	atp_run("INSERT INTO atproto.enumeration (subscription, source, started_at) VALUES ($1, $2, $3)"
			" ON CONFLICT (subscription, source) DO UPDATE SET cursor = NULL, started_at = excluded.started_at,"
			"  finished_at = NULL, pages = 0, seen = 0, queued = 0, skipped = 0, empty = 0, tries = 0,"
			"  next_try = 'epoch', error = NULL",
			ATP_ARGS(atp_text_arg(subscription), atp_text_arg(source), atp_time_arg(now)));
}

void
atp_list_recheck(const char *subscription)
{
	AtpCaller	caller = atp_as_table_owner("enumeration");

	begin_list(subscription, ATP_LIST_RECHECK, atp_time_of_day());
	atp_owner_end(caller);
}

#define LISTS_TO_READ	" FROM atproto.wanted_list l LEFT JOIN atproto.enumeration e USING (subscription, source)" \
	" WHERE subscription = $1 AND e.finished_at IS NULL"

int64
atp_lists_hasten(const char *subscription, bool again, char **resting)
{
	AtpCaller	caller = atp_as_table_owner("enumeration");
	AtpArg		name = atp_text_arg(subscription);
	AtpResult	found;
	int64		n;

	atp_run("UPDATE atproto.enumeration SET next_try = 'epoch', tries = 0 WHERE subscription = $1 AND finished_at IS NULL", ATP_ARGS(name));
	found = atp_query("SELECT source FROM atproto.enumeration WHERE subscription = $1 AND finished_at IS NOT NULL AND ($2 OR error IS NOT NULL)"
					  " AND source <> '" ATP_LIST_RECHECK "' ORDER BY source", ATP_ARGS(name, atp_bool_arg(again)));
	for (uint64 i = 0; i < found.n; i++)
		begin_list(subscription, atp_get_text(atp_result_row(found, i), "source"), atp_time_of_day());
	atp_result_free(found);
	found = atp_query("SELECT count(*) AS n, (SELECT string_agg(format('%s, until %s', h.host, date_trunc('second', h.backoff_until)), '; ' ORDER BY h.host)"
					  " FROM atproto.host h WHERE h.backoff_until > now() AND h.host IN (SELECT regexp_replace(l.server, '^https?://', '')" LISTS_TO_READ ")) AS resting"
					  LISTS_TO_READ, ATP_ARGS(name));
	n = atp_get_int8(atp_result_row(found, 0), "n");
	*resting = atp_get_text_or_null(atp_result_row(found, 0), "resting");
	atp_result_free(found);
	atp_owner_end(caller);
	return n;
}

bool
atp_list_is_recheck(const AtpListing *listing)
{
	return strcmp(listing->source, ATP_LIST_RECHECK) == 0;
}

bool
atp_list_is_of_hosts(const AtpListing *listing)
{
	return strcmp(listing->source, ATP_LIST_HOSTS_SOURCE) == 0;
}

bool
atp_list_is_of_host(const AtpListing *listing)
{
	return strncmp(listing->source, ATP_LIST_OF_HOST, strlen(ATP_LIST_OF_HOST)) == 0;
}

/*
 * Since when a list has waited for its turn; the epoch: the list is being read, or was never read.
 */
#define WAITS_SINCE	"COALESCE(e.finished_at, e.next_try, 'epoch')"

/*
 * Lists locked by a session are skipped: their pages could not be written.  The subscription's row
 * is locked before its list: a session that deletes the subscription locks in this order, too, and
 * inserts of jobs lock the row as foreign key.
 */
#define DUE_AND_FREE \
	"WITH lists AS (SELECT subscription, source, l.server, e.cursor, e.started_at," \
	"  (SELECT s.owner::oid FROM atproto.subscription s WHERE s.name = subscription) AS owner, " WAITS_SINCE " AS since," \
	"  e.subscription IS NOT NULL AS known, e.subscription IS NOT NULL AND e.finished_at IS NULL AS begun," \
	"  row_number() OVER (PARTITION BY subscription ORDER BY " WAITS_SINCE ", source) AS turn_of_subscription" DUE ")," \
	" due AS (SELECT *, row_number() OVER (PARTITION BY owner ORDER BY turn_of_subscription, since, subscription) AS turn FROM lists" \
	"  WHERE owner <> ALL ($4) ORDER BY turn, since, subscription LIMIT $3)," \
	" kept AS (SELECT name AS subscription FROM atproto.subscription WHERE name IN (SELECT subscription FROM due) FOR KEY SHARE SKIP LOCKED)," \
	" free AS (SELECT e.subscription, e.source FROM atproto.enumeration e JOIN due USING (subscription, source) JOIN kept USING (subscription)" \
	"  FOR UPDATE OF e SKIP LOCKED)" \
	" SELECT d.* FROM due d JOIN kept USING (subscription) LEFT JOIN free f USING (subscription, source) WHERE NOT d.known OR f.source IS NOT NULL ORDER BY d.turn, d.since, subscription"

static AtpListing *
read_listing(AtpTuple row, TimestampTz now)
{
	AtpListing *listing = palloc(sizeof(AtpListing));
	bool		isnull;

	listing->subscription = atp_get_text(row, "subscription");
	listing->source = atp_get_text(row, "source");
	listing->server = atp_get_text(row, "server");
	listing->cursor = atp_get_text_or_null(row, "cursor");
	listing->started_at = DatumGetTimestampTz(atp_get(row, "started_at", TIMESTAMPTZOID, &isnull));
	if (!atp_get_bool(row, "begun"))
	{
		listing->cursor = NULL;
		listing->started_at = now;
		begin_list(listing->subscription, listing->source, now);
	}
	return listing;
}

/*
 * a host may name only so many repositories whose jobs wait; strangers could name any number
 * of repositories that do not exist.  Until jobs are done the list waits.  NULL: the list can be read on.
 */
static const char *
why_list_waits(const AtpListing *listing)
{
	if (atp_list_is_of_host(listing) && atp_jobs_of_list_are_many(listing->subscription, listing->source))
		return "as many repositories wait as one host may name";
	if (atp_list_is_recheck(listing) && atp_status_revs_are_many(listing->subscription))
		return "as many requests for revisions wait as the owner may have";
	return NULL;
}

/* The list has a later time, so that its place is free for the lists of other owners. */
static void
make_list_wait(const AtpListing *listing, TimestampTz now, const char *why)
{
	atp_run("UPDATE atproto.enumeration SET next_try = $3 + interval '" JOBS_WAIT "', error = $4 WHERE subscription = $1 AND source = $2",
			ATP_ARGS(atp_text_arg(listing->subscription), atp_text_arg(listing->source), atp_time_arg(now), atp_text_arg(why)));
}

List *
atp_lists_due(int limit)
{
	TimestampTz now = atp_time_of_day();
	AtpCaller	caller = atp_as_table_owner("enumeration");
	List	   *due = NIL;
	AtpResult	found;

	atp_run("DELETE FROM atproto.enumeration WHERE ctid = ANY (ARRAY (SELECT ctid FROM atproto.enumeration e WHERE NOT EXISTS"
			" (SELECT FROM atproto.wanted_list l WHERE (l.subscription, l.source) = (e.subscription, e.source)) FOR UPDATE SKIP LOCKED))",
			ATP_NO_ARGS);
	found = query_due(DUE_AND_FREE, now, limit, atp_jobs_owners_of_many());
	for (uint64 i = 0; i < found.n; i++)
	{
		AtpListing *listing = read_listing(atp_result_row(found, i), now);
		const char *why = why_list_waits(listing);

		if (why != NULL)
			make_list_wait(listing, now, why);
		else
			due = lappend(due, listing);
	}
	atp_result_free(found);
	atp_owner_end(caller);
	return due;
}

/* ------------------------------------------------------------------------
 * From entries to jobs
 * ------------------------------------------------------------------------
 */

/* repositories that are not stored in their current state. */
#define NOT_STORED	"CASE WHEN r.did IS NULL THEN NOT u.inactive" \
	" ELSE r.active AND (r.sync IS DISTINCT FROM 'synchronized' OR (NOT u.inactive AND u.rev OPERATOR(@.>) r.rev)) END"

/* accounts that are not active and not stored: the job waits until the account is active. */
#define NOT_ACTIVE	"CASE WHEN r.did IS NULL THEN u.inactive" \
	" ELSE NOT r.active AND r.status IS DISTINCT FROM 'deleted' AND r.sync IS DISTINCT FROM 'synchronized' END"

/* stored with an older revision than listed. */
#define STORED_OLD	"NOT u.inactive AND r.active AND u.rev OPERATOR(@.>) r.rev"

/*
 * stored, and the list has no revision, so the server is asked for the repository's status.
 */
#define STORED_UNSURE	"NOT u.inactive AND r.active AND r.rev IS NOT NULL AND u.rev IS NULL"

/*
 * The accounts of a page for which the condition "kind" holds, in the order of DIDs.  Runs as the
 * owner of the subscription, since the table repo is the owner's.
 */
static int
find_repos(const AtpSubscription *sub, const AtpListed *page, const char *kind, struct varlena **needed)
{
	Datum	   *dids = palloc(sizeof(Datum) * page->n);
	Datum	   *revs = palloc(sizeof(Datum) * page->n);
	bool	   *nulls = palloc(sizeof(bool) * page->n);
	Datum	   *inactive = palloc(sizeof(Datum) * page->n);
	AtpCaller	caller;
	AtpResult	found;
	int			n;

	for (int i = 0; i < page->n; i++)
	{
		dids[i] = PointerGetDatum(page->accounts[i].did);
		revs[i] = AtpTidGetDatum(page->accounts[i].rev);
		nulls[i] = !page->accounts[i].has_rev;
		inactive[i] = BoolGetDatum(page->accounts[i].inactive);
	}
	caller = atp_target_begin(sub);
	/* $1 stands twice: with Citus, the inner condition limits the rows that workers send */
	found = atp_query(atp_expand_sql(psprintf("SELECT u.did FROM unnest($1, $2, $3) u (did, rev, inactive)"
											  " LEFT JOIN (SELECT * FROM #.repo WHERE did OPERATOR(@.=) ANY ($1)) r ON r.did OPERATOR(@.=) u.did"
											  " WHERE %s ORDER BY u.did", kind), sub->target),
					  ATP_ARGS(atp_array_arg(atp_type("did"), dids, NULL, page->n),
							   atp_array_arg(atp_type("tid"), revs, nulls, page->n),
							   atp_array_arg(BOOLOID, inactive, NULL, page->n)));
	n = (int) found.n;
	for (int i = 0; i < n; i++)
		needed[i] = atp_get_copy(atp_result_row(found, i), "did", atp_type("did"));
	atp_owner_end(caller);
	atp_result_free(found);
	return n;
}

/*
 * Leave out the accounts of a page that erase() keeps away.  With the lock that atp_is_blocked_now() takes, erase() waits for this
 * transaction: a request or a suspended job that was made after erase() would stay until the account's server has answered.
 */
static void
leave_out_blocked(const AtpSubscription *sub, AtpListed *page)
{
	int			kept = 0;

	/* takes the lock */
	(void) atp_is_blocked_now(sub->target, page->accounts[0].did);
	for (int i = 0; i < page->n; i++)
		if (!atp_is_blocked(sub->target, page->accounts[i].did))
			page->accounts[kept++] = page->accounts[i];
	page->n = kept;
}

static AtpJobRequest *
requests_for(const AtpListing *listing, struct varlena *const *dids, int n, const char *reason, bool suspended)
{
	AtpJobRequest *requests = palloc(sizeof(AtpJobRequest) * Max(n, 1));

	for (int i = 0; i < n; i++)
		requests[i] = (AtpJobRequest) {
			.did = dids[i], .priority = ATP_JOB_LISTED, .reason = reason, .suspended = suspended,
			.listed_by = atp_list_is_of_host(listing) ? listing->source : NULL
		};
	return requests;
}

static int64
add_jobs(const AtpListing *listing, const AtpSubscription *sub, AtpListed *page, const char *reason)
{
	struct varlena **needed = palloc(sizeof(struct varlena *) * Max(page->n, 1));
	struct varlena **unsure = palloc(sizeof(struct varlena *) * Max(page->n, 1));
	struct varlena **inactive = palloc(sizeof(struct varlena *) * Max(page->n, 1));
	bool		is_recheck = atp_list_is_recheck(listing);
	int			n,
				nunsure,
				ninactive;

	if (page->n == 0)
		return 0;
	atp_limit_begin(sub->owner, FIND_MS);
	leave_out_blocked(sub, page);
	n = find_repos(sub, page, is_recheck ? STORED_OLD : NOT_STORED, needed);
	nunsure = is_recheck ? find_repos(sub, page, STORED_UNSURE, unsure) : 0;
	ninactive = is_recheck || page->crowded ? 0 : find_repos(sub, page, NOT_ACTIVE, inactive);
	atp_limit_end();
	ATP_INJECTION_POINT("list compared");
	atp_limit_begin(sub->owner, ADD_MS);
	atp_request_revs(sub, unsure, nunsure);
	/*
	 * these jobs wait until an #account, a status check or a list says that the account is
	 * active
	 */
	(void) atp_jobs_request(sub->target, sub->name, requests_for(listing, inactive, ninactive, reason, true), ninactive);
	return (int64) atp_jobs_request(sub->target, sub->name, requests_for(listing, needed, n, reason, false), n);
}

static int64
add_hosts(const AtpListing *listing, const AtpSubscription *sub, const AtpListed *page)
{
	atp_limit_begin(sub->owner, ADD_MS);
	return atp_list_hosts_add(listing, page->hosts);
}

/*
 * Returns how many jobs, or lists of hosts, the page adds.  -1 and *error: an ERROR in the owner's
 * tables, or the time limit passed there or at a job row locked by a session.  The subtransaction
 * keeps the ERROR from the fetcher's transaction.
 */
static int64
add_page(const AtpListing *listing, const AtpSubscription *sub, AtpListed *page, const char *reason, char **error)
{
	MemoryContext cxt = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile int64 n = -1;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(cxt);
	PG_TRY();
	{
		n = atp_list_is_of_hosts(listing) ? add_hosts(listing, sub, page) : add_jobs(listing, sub, page, reason);
		atp_limit_end();
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *data;

		atp_limit_end();
		MemoryContextSwitchTo(cxt);
		data = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		n = -1;
		*error = pstrdup(atp_error_text(data));
	}
	PG_END_TRY();
	MemoryContextSwitchTo(cxt);
	CurrentResourceOwner = owner;
	return n;
}

/*
 * Does the list still wait for this page?  If so, locks the list's row, and the subscription's
 * against deletion.  False also if a session has locked a row: the page will be requested again.
 */
static bool
is_still_asked(const AtpListing *listing)
{
	return atp_run("SELECT FROM atproto.enumeration e JOIN atproto.wanted_list l USING (subscription, source)"
				   " JOIN atproto.subscription s ON s.name = subscription WHERE subscription = $1 AND source = $2 AND l.runs AND e.finished_at IS NULL"
				   " AND e.cursor IS NOT DISTINCT FROM $3 AND e.started_at = $4"
				   " FOR KEY SHARE OF s SKIP LOCKED FOR UPDATE OF e SKIP LOCKED",
				   ATP_ARGS(atp_text_arg(listing->subscription), atp_text_arg(listing->source),
							atp_text_arg(listing->cursor), atp_time_arg(listing->started_at))) > 0;
}

/*
 * a host may invent accounts that are not active, whose jobs would wait for ever.  The active
 * accounts of the list still count.
 */
#define CROWDED	"accounts that are not active are not noted any more: the list has named as many as \"atproto.fetch_queue\""

/* why no further page is requested although the server offers one; NULL: no reason. */
static const char *
why_given_up(const AtpListing *listing, const AtpListed *page, int empty, const AtpListSeen *seen)
{
	if (page->is_over)
		return "the list was given up: it has more entries than \"atproto.fetch_hosts\"";
	if (page->cursor == NULL)
		return NULL;
	if (listing->cursor != NULL && strcmp(listing->cursor, page->cursor) == 0)
		return "the list was given up: the server repeats its cursor";
	if (empty >= EMPTY_MAX)
		return "the list was given up: three pages in a row have no entry";
	if (seen != NULL && seen->fruitless >= FRUITLESS_MAX)
		return "the list was given up: 100 pages in a row name no other accounts than those before";
	return NULL;
}

/* Update the row after a page; false: the list is finished. */
static bool
move_on(const AtpListing *listing, const AtpListed *page, int64 queued, const AtpListSeen *seen, bool yields)
{
	AtpArg		name = atp_text_arg(listing->subscription);
	AtpArg		source = atp_text_arg(listing->source);
	AtpResult	row = atp_query("SELECT empty FROM atproto.enumeration WHERE subscription = $1 AND source = $2", ATP_ARGS(name, source));
	int			empty = page->entries + page->skipped > 0 ? 0 : atp_get_int4(atp_result_row(row, 0), "empty") + 1;
	const char *why = why_given_up(listing, page, empty, seen);
	bool		more = page->cursor != NULL && why == NULL;

	atp_result_free(row);
	atp_run("UPDATE atproto.enumeration SET cursor = $3, pages = pages + 1, seen = seen + $4, queued = queued + $5,"
			" skipped = skipped + $6, empty = $7, tries = 0, next_try = $10, error = $8, finished_at = $9"
			" WHERE subscription = $1 AND source = $2",
			ATP_ARGS(name, source, atp_text_arg(more ? page->cursor : NULL), atp_int8_arg(page->entries),
					 atp_int8_arg(queued), atp_int8_arg(page->skipped), atp_int4_arg(empty), atp_text_arg(why == NULL && page->crowded ? CROWDED : why),
					 (AtpArg) {TimestampTzGetDatum(atp_time_of_day()), TIMESTAMPTZOID, more},
					 atp_time_arg(yields ? atp_time_of_day() : SetEpochTimestamp())));
	/* delete the lists of hosts that the finished list did not name */
	if (atp_list_is_of_hosts(listing) && (page->cursor == NULL || page->is_over))
		atp_list_hosts_forget(listing);
	return more;
}

/* write the error, and when the next request may come. */
static void
put_off_list(const AtpListing *listing, const char *why, AtpListFault fault)
{
	atp_run("UPDATE atproto.enumeration SET error = left($3, 600), tries = tries + CASE WHEN $4 OR $8 THEN 0 ELSE 1 END,"
			" cursor = CASE WHEN $5 THEN NULL ELSE cursor END,"
			" next_try = CASE WHEN $4 THEN 'epoch' ELSE $6 + make_interval(secs =>"
			"  LEAST($7 * power(2, LEAST(tries - CASE WHEN $8 THEN 1 ELSE 0 END, 20)), 86400) * (0.8 + 0.4 * random())) END"
			" WHERE subscription = $1 AND source = $2",
			ATP_ARGS(atp_text_arg(listing->subscription), atp_text_arg(listing->source), atp_text_arg(why),
					 (AtpArg) {BoolGetDatum(fault == ATP_LIST_BUSY), BOOLOID},
					 (AtpArg) {BoolGetDatum(fault == ATP_LIST_ANEW), BOOLOID},
					 atp_time_arg(atp_time_of_day()), atp_int4_arg(atp_fetch_retry_s),
					 (AtpArg) {BoolGetDatum(fault == ATP_LIST_NOTED), BOOLOID}));
}

/* Add the page's entries and move on.  An ERROR in the owner's tables puts off this list only. */
static bool
take_page(const AtpListing *listing, const AtpSubscription *sub, AtpListed *page, const char *reason, const AtpListSeen *seen, bool yields)
{
	char	   *error = NULL;
	int64		queued = add_page(listing, sub, page, reason, &error);

	if (queued < 0)
	{
		put_off_list(listing, error, ATP_LIST_NOTED);
		return false;
	}
	return move_on(listing, page, queued, seen, yields);
}

/*
 * The subscription of the list; NULL: the list no longer waits for this page, or the subscription
 * has no owner.
 */
static AtpSubscription *
subscription_of(const AtpListing *listing)
{
	AtpSubscription *sub = is_still_asked(listing) ? atp_subscription_get(listing->subscription, CurrentMemoryContext) : NULL;

	return sub != NULL && OidIsValid(sub->owner) ? sub : NULL;
}

bool
atp_list_take(const AtpListing *listing, const char *text, size_t n, AtpListSeen *seen, bool yields)
{
	AtpCaller	caller = atp_as_table_owner("enumeration");
	AtpSubscription *sub = subscription_of(listing);
	AtpListed	page = {0};
	bool		more = false;
	char	   *wrong;

	if (sub != NULL)
	{
		if (atp_list_is_of_hosts(listing))
			page.room_for_hosts = atp_list_hosts_room(listing);
		wrong = atp_listed_read(&page, atp_list_is_of_hosts(listing) ? ATP_LIST_HOSTS : ATP_LIST_REPOS, seen, text, n);
		if (wrong == NULL && atp_list_is_of_host(listing))
		{
			atp_list_of_host_judge(listing, &page);
			page.crowded = atp_jobs_of_inactive_are_many(listing->subscription, listing->source);
		}
		atp_listed_keep(&page, &sub->settings);
		if (wrong != NULL)
			put_off_list(listing, wrong, ATP_LIST_NOTED);
		else
			more = take_page(listing, sub, &page, atp_list_is_recheck(listing) ? ATP_LIST_RECHECK : "listed", seen, yields);
	}
	atp_owner_end(caller);
	return more;
}

void
atp_list_take_dids(const AtpListing *listing)
{
	AtpCaller	caller = atp_as_table_owner("enumeration");
	AtpSubscription *sub = subscription_of(listing);
	AtpListed	page = {0};

	if (sub != NULL)
	{
		for (int i = 0; i < sub->settings.ndids; i++)
			*atp_listed_add(&page) = (AtpListedAccount) {.did = sub->settings.dids[i]};
		page.entries = page.n;
		atp_listed_sort(&page);
		atp_listed_keep(&page, &sub->settings);
		(void) take_page(listing, sub, &page, "dids", NULL, false);
	}
	atp_owner_end(caller);
}

void
atp_list_note(const AtpListing *listing)
{
	atp_list_failed(listing, ATP_LIST_NOTE, ATP_LIST_AGAIN);
}

void
atp_list_failed(const AtpListing *listing, const char *why, AtpListFault fault)
{
	AtpCaller	caller = atp_as_table_owner("enumeration");

	if (is_still_asked(listing))
		put_off_list(listing, why, fault);
	atp_owner_end(caller);
}

void
atp_list_put_off(const AtpListing *listing, long ms)
{
	AtpCaller	caller = atp_as_table_owner("enumeration");

	if (is_still_asked(listing))
		atp_run("UPDATE atproto.enumeration SET next_try = $3 WHERE subscription = $1 AND source = $2",
				ATP_ARGS(atp_text_arg(listing->subscription), atp_text_arg(listing->source),
						 atp_time_arg(atp_time_of_day() + (TimestampTz) ms * 1000)));
	atp_owner_end(caller);
}
