/*
 * task_identity.c
 *		The fetcher's task that reads DID documents (W-01 to W-06, W-30 to W-35): rows of
 *		atproto.identity_request become requests, and answers become rows of atproto.identity.
 *
 * From the read of its row until its answer is written, a DID is in one of the lists here, so that
 * two requests never ask for the same DID (W-34).  Many answers are written in a transaction.
 */
#include "postgres.h"

#include "config/transaction.h"
#include "core/syntax/did.h"
#include "core/syntax/did_web.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "fetch/engine/host.h"
#include "fetch/identities/task_identity.h"
#include "fetch/identities/identity_answer.h"
#include "fetch/identities/identity_queue.h"
#include "identity/identity.h"
#include "lib/ilist.h"
#include "tables/repos/held.h"
#include "types/types.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define PLC_PARALLEL	16		/* W-35 */
#define WEB_PARALLEL	32
#define SITE_PARALLEL	4		/* requests to did:web hosts below the same two labels: these hosts
								 * belong to a single stranger, as far as we know */
#define WAITING_MAX		64		/* look-ups of each kind that wait for a request */
#define LOOK_MAX		256		/* rows of each class that are read at a time */
#define LOOK_MS			100		/* between two reads of the queue */
#define WRITE_MS		250		/* an answer waits at most so long for more answers, to be written
								 * together */
#define WRITE_MAX		64
#define CLEAN_MS		1000
#define SITE_WAIT_MS	2000
#define LEAST_WAIT_MS	1000

/* The two methods have lists and limits of their own. */
enum
{
	PLC, WEB, KINDS
};

typedef struct Lookup
{
	dlist_node	node;
	struct varlena *did;
	char	   *host;			/* host of a did:web; NULL: a did:plc */
	AtpErr		refused;		/* no server can be asked, for this reason */
	AtpHttp    *http;
	TimestampTz ended_at;		/* in list put_off: the time until which the look-up is put off */
	size_t		len;
	char		text[FLEXIBLE_ARRAY_MEMBER];	/* the DID */
} Lookup;

/* Memory that lives as long as the process. */
static MemoryContext lookups;
static dlist_head waiting[KINDS] = {DLIST_STATIC_INIT(waiting[PLC]), DLIST_STATIC_INIT(waiting[WEB])};
static dlist_head asked[KINDS] = {DLIST_STATIC_INIT(asked[PLC]), DLIST_STATIC_INIT(asked[WEB])};
static dlist_head ended = DLIST_STATIC_INIT(ended);
static dlist_head put_off = DLIST_STATIC_INIT(put_off); /* look-ups whose host may not be asked
														 * now */
static int	nwaiting[KINDS];
static int	nasked[KINDS];
static int	nended;
static int	nput_off;
static AtpTime first_ended;		/* arrival of the oldest answer that is not written */
static AtpTime looked;
static bool more;				/* the last read did not see all rows that are due */
static TimestampTz next_due = DT_NOEND;
static int64 clock_offset;		/* time of day minus the monotonic clock */
static AtpTime cleaned;
static struct varlena *clean_after;

static char *plc_url;
static int	plc_rate;

static bool
check_plc_url(char **value, void **extra, GucSource source)
{
	size_t		n = strlen(*value);

	return n <= 1000 && (strncmp(*value, "https://", 8) == 0 || strncmp(*value, "http://", 7) == 0) &&
		strpbrk(*value, "?# \t\r\n") == NULL;
}

void
atp_identity_task_init(void)
{
	DefineCustomStringVariable("atproto.plc_url",
							   "URL of the directory that did:plc documents are read from.",
							   NULL, &plc_url, "https://plc.directory",
							   PGC_SIGHUP, 0, check_plc_url, NULL, NULL);
	DefineCustomIntVariable("atproto.plc_rate",
							"Requests per second to the directory.",
							NULL, &plc_rate, 100, 1, 10000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
}

/* ------------------------------------------------------------------------
 * Look-ups
 * ------------------------------------------------------------------------
 */

static bool
list_has(dlist_head *list, struct varlena *did)
{
	dlist_iter	iter;

	dlist_foreach(iter, list)
		if (atp_compare_dids(dlist_container(Lookup, node, iter.cur)->did, did) == 0)
			return true;
	return false;
}

/* W-34: a DID that is in a list is not asked for a second time. */
static bool
is_taken(struct varlena *did)
{
	for (int k = 0; k < KINDS; k++)
		if (list_has(&waiting[k], did) || list_has(&asked[k], did))
			return true;
	return list_has(&ended, did) || list_has(&put_off, did);
}

static Lookup *
make_lookup(struct varlena *did)
{
	MemoryContext old = MemoryContextSwitchTo(lookups);
	char		text[ATP_DID_MAX];
	char		host[ATP_DID_WEB_HOST];
	size_t		len = atp_did_copy(did, text);
	Lookup	   *lookup = palloc0(offsetof(Lookup, text) + len);
	size_t		host_len;
	size_t		at;

	lookup->did = atp_varlena(VARDATA_ANY(did), VARSIZE_ANY_EXHDR(did));
	memcpy(lookup->text, text, len);
	lookup->len = len;
	lookup->refused = atp_did_document_host(text, len, host, &host_len, &at);
	if (lookup->refused == ATP_OK && host_len > 0)
		lookup->host = pnstrdup(host, host_len);
	MemoryContextSwitchTo(old);
	return lookup;
}

static void
free_lookup(Lookup *lookup)
{
	atp_fetch_free(lookup->http);
	if (lookup->host != NULL)
		pfree(lookup->host);
	pfree(lookup->did);
	pfree(lookup);
}

static void
end_lookup(Lookup *lookup)
{
	if (nended++ == 0)
		first_ended = atp_now();
	lookup->ended_at = atp_time_of_day();
	dlist_push_tail(&ended, &lookup->node);
}

/*
 * W-02, W-17: the directory's document, and not its log of operations.  W-04.  Plain HTTP is used only to localhost, and
 * only if the settings allow plain HTTP.
 */
static char *
url_of_document(const Lookup *lookup)
{
	char	   *url;

	if (lookup->host == NULL)
		return psprintf("%.*s/%.*s", (int) (strlen(plc_url) - (plc_url[strlen(plc_url) - 1] == '/')), plc_url,
						(int) lookup->len, lookup->text);
	url = psprintf("https://%s/.well-known/did.json", lookup->host);
	if (strncmp(lookup->host, "localhost", 9) == 0 && atp_http_refused(url) != NULL)
	{
		char	   *plain = psprintf("http://%s/.well-known/did.json", lookup->host);

		if (atp_http_refused(plain) == NULL)
			return plain;
	}
	return url;
}

static int
asked_at_site(const char *host)
{
	dlist_iter	iter;
	int			n = 0;

	dlist_foreach(iter, &asked[WEB])
		n += strcmp(atp_host_suffix(dlist_container(Lookup, node, iter.cur)->host), atp_host_suffix(host)) == 0;
	return n;
}

static bool
start_lookup(Lookup *lookup, long *wait_ms)
{
	AtpHostLimits limits = {PLC_PARALLEL, plc_rate, 2 * plc_rate};
	AtpHttpRequest request = {
		.owner = &ended, .arg = lookup, .url = url_of_document(lookup),
		.accept = "application/did+ld+json, application/json",
		.body_max = ATP_DIDDOC_MAX, .http2 = lookup->host == NULL
	};

	lookup->http = atp_fetch_start(&request, lookup->host == NULL ? &limits : NULL, wait_ms);
	return lookup->http != NULL;
}

static void
take_answers(void)
{
	AtpHttp    *http;

	while ((http = atp_fetch_next(&ended)) != NULL)
	{
		Lookup	   *lookup = atp_http_arg(http);

		nasked[lookup->host == NULL ? PLC : WEB]--;
		dlist_delete(&lookup->node);
		end_lookup(lookup);
	}
}

/* ------------------------------------------------------------------------
 * From queue rows to requests
 * ------------------------------------------------------------------------
 */

/*
 * Read rows that are due into the waiting list, as far as there is room.  Called in a transaction.
 */
static void
look_for(int kind, TimestampTz now)
{
	AtpIdentityWork work = {
		.web = kind == WEB, .limit = LOOK_MAX, .retried = LOOK_MAX / 2, .is_taken = is_taken
	};
	struct varlena *dids[WAITING_MAX];
	int			n = 0;
	ListCell   *cell;

	if (nwaiting[kind] >= WAITING_MAX / 2)
		return;
	foreach(cell, atp_identity_look(&work, now, &more))
	{
		struct varlena *did = lfirst(cell);
		Lookup	   *lookup;

		if (nwaiting[kind] == WAITING_MAX)
			break;
		/* two sessions or events have queued this DID */
		if (is_taken(did))
			continue;
		lookup = make_lookup(did);
		if (lookup->refused != ATP_OK)
			end_lookup(lookup);
		else
		{
			dlist_push_tail(&waiting[kind], &lookup->node);
			nwaiting[kind]++;
			dids[n++] = did;
		}
	}
	/* an #identity event from now on sets stale again, and so causes a second look-up */
	atp_identities_begin_lookup(dids, atp_sort_dids(dids, n));
}

/*
 * Start requests to the directory, as far as its limits allow.  Returns milliseconds until the next
 * request may start; -1: when a request ends.
 */
static long
start_plc(void)
{
	while (!dlist_is_empty(&waiting[PLC]) && nasked[PLC] < PLC_PARALLEL)
	{
		Lookup	   *lookup = dlist_container(Lookup, node, dlist_head_node(&waiting[PLC]));
		long		wait_ms = -1;

		if (!start_lookup(lookup, &wait_ms))
			return wait_ms;
		dlist_delete(&lookup->node);
		dlist_push_tail(&asked[PLC], &lookup->node);
		nwaiting[PLC]--;
		nasked[PLC]++;
	}
	return -1;
}

/*
 * Start requests to did:web hosts.  A look-up whose host may not be asked now is put off, so that
 * look-ups of different hosts need not wait behind it.
 */
static void
start_web(void)
{
	while (!dlist_is_empty(&waiting[WEB]) && nasked[WEB] < WEB_PARALLEL)
	{
		Lookup	   *lookup = dlist_container(Lookup, node, dlist_head_node(&waiting[WEB]));
		long		wait_ms = SITE_WAIT_MS;

		dlist_delete(&lookup->node);
		nwaiting[WEB]--;
		if (asked_at_site(lookup->host) < SITE_PARALLEL && start_lookup(lookup, &wait_ms))
		{
			dlist_push_tail(&asked[WEB], &lookup->node);
			nasked[WEB]++;
		}
		else
		{
			lookup->ended_at = atp_time_of_day() + (TimestampTz) Max(wait_ms, LEAST_WAIT_MS) * 1000;
			dlist_push_tail(&put_off, &lookup->node);
			nput_off++;
		}
	}
}

/* ------------------------------------------------------------------------
 * From answers to rows
 * ------------------------------------------------------------------------
 */

static int
compare_lookups(const void *a, const void *b)
{
	return atp_compare_dids((*(Lookup *const *) a)->did, (*(Lookup *const *) b)->did);
}

/* Empty a list: returns its look-ups, sorted by DID. */
static Lookup **
take_all(dlist_head *list, int *n, struct varlena ***dids)
{
	Lookup	  **taken = palloc(sizeof(Lookup *) * Max(*n, 1));
	int			i = 0;

	while (!dlist_is_empty(list))
		taken[i++] = dlist_container(Lookup, node, dlist_pop_head_node(list));
	Assert(i == *n);
	*n = 0;
	qsort(taken, i, sizeof(Lookup *), compare_lookups);
	*dids = palloc(sizeof(struct varlena *) * Max(i, 1));
	for (int j = 0; j < i; j++)
		(*dids)[j] = taken[j]->did;
	return taken;
}

static void
write_put_off(void)
{
	int			n = nput_off;
	struct varlena **dids;
	Lookup	  **lookups_off = take_all(&put_off, &nput_off, &dids);
	TimestampTz *until = palloc(sizeof(TimestampTz) * Max(n, 1));

	for (int i = 0; i < n; i++)
		until[i] = lookups_off[i]->ended_at;
	atp_identity_put_off(dids, n, until, false);
	for (int i = 0; i < n; i++)
		free_lookup(lookups_off[i]);
}

static bool
take_answer(const Lookup *lookup, AtpIdentity *identity)
{
	AtpAsked	whose = {{lookup->text, lookup->len}, lookup->host != NULL};

	if (lookup->refused != ATP_OK)
		return atp_identity_refuse(identity, lookup->refused, lookup->ended_at);
	return atp_identity_take(identity, whose, atp_http_answer(lookup->http), lookup->ended_at);
}

/* Put look-ups back whose rows a session has locked; they are written later.  Returns the number of the others. */
static int
keep_locked(Lookup **answered, struct varlena **dids, int n)
{
	bool	   *is_free = palloc(sizeof(bool) * Max(n, 1));
	int			nfree = 0;

	atp_identities_try_lock(dids, n, is_free);
	for (int i = 0; i < n; i++)
	{
		if (is_free[i])
		{
			answered[nfree] = answered[i];
			dids[nfree++] = dids[i];
			continue;
		}
		dlist_push_tail(&ended, &answered[i]->node);
		nended++;
		first_ended = atp_now();
	}
	return nfree;
}

/*
 * Locks identities first, without waiting, then rows of the queue, and held events.
 */
static void
write_answers(void)
{
	int			n = nended;
	struct varlena **dids;
	Lookup	  **answered = take_all(&ended, &nended, &dids);
	AtpIdentity *identities = palloc(sizeof(AtpIdentity) * Max(n, 1));
	struct varlena **granted = palloc(sizeof(struct varlena *) * Max(n, 1));
	struct varlena **failed = palloc(sizeof(struct varlena *) * Max(n, 1));
	TimestampTz *until = palloc(sizeof(TimestampTz) * Max(n, 1));
	int			ngranted = 0;
	int			nfailed = 0;

	n = keep_locked(answered, dids, n);
	atp_identities_read(dids, n, identities);
	for (int i = 0; i < n; i++)
	{
		if (take_answer(answered[i], &identities[i]))
			granted[ngranted++] = dids[i];
		else
		{
			until[nfailed] = identities[i].next_try;
			failed[nfailed++] = dids[i];
		}
	}
	atp_identity_granted(granted, ngranted);
	atp_identity_put_off(failed, nfailed, until, true);
	atp_identities_write(dids, n, identities);
	/*
	 * after a failure, too: events whose key is known do not wait for a directory that does not
	 * answer
	 */
	atp_held_release(dids, n);
	for (int i = 0; i < n; i++)
		free_lookup(answered[i]);
}

static void
write_all(AtpTime now)
{
	write_put_off();
	write_answers();
}

/* ------------------------------------------------------------------------
 * The task
 * ------------------------------------------------------------------------
 */

static void
begin_identities(void)
{
	lookups = AllocSetContextCreate(TopMemoryContext, "atproto look-ups of identities", ALLOCSET_DEFAULT_SIZES);
	clock_offset = atp_time_of_day() - atp_now();
}

static bool
is_time_to_write(AtpTime now)
{
	return nput_off > 0 || nended >= WRITE_MAX || (nended > 0 && atp_remaining(now, first_ended, WRITE_MS) == 0);
}

/*
 * Was the time of day set back since the last call?  Then times in the tables may lie far in the
 * future.
 */
static bool
clock_went_back(TimestampTz today, AtpTime now)
{
	int64		before = clock_offset;

	clock_offset = today - now;
	return before - clock_offset > ATP_CLOCK_BACK_US;
}

static void
find_due_lookups(AtpTime now)
{
	TimestampTz today = atp_time_of_day();

	more = false;
	looked = now;
	if (clock_went_back(today, now))
		atp_identity_wake_all(today);
	for (int kind = 0; kind < KINDS; kind++)
		look_for(kind, today);
	next_due = atp_identity_next(today);
}

static void
clean_tables(AtpTime now)
{
	struct varlena *last = atp_identity_clean(clean_after, atp_time_of_day());

	cleaned = now;
	if (clean_after != NULL)
		pfree(clean_after);
	clean_after = last == NULL ? NULL : (struct varlena *) MemoryContextAlloc(lookups, VARSIZE_ANY(last));
	if (last != NULL)
		memcpy(clean_after, last, VARSIZE_ANY(last));
}

/*
 * Milliseconds until the next read of the queue, -1: none is needed.  At most ten seconds, since
 * the time of day may be set meanwhile.
 */
static long
until_look(AtpTime now, bool has_looked)
{
	long		due;

	/*
	 * a wake-up may have come for a new row, but too soon after the last read: read again after
	 * LOOK_MS
	 */
	if (!has_looked || more)
		return atp_remaining(now, looked, LOOK_MS);
	if (next_due == DT_NOEND)
		return -1;
	due = (next_due - atp_time_of_day() + 999) / 1000;
	return Min(Max(due, LOOK_MS), 10000);
}

/*
 * A transaction for each part: each part locks rows in the order of their DIDs, and a second part
 * in the same transaction would break that order.
 */
static void
in_transaction(const char *activity, void (*part) (AtpTime now), AtpTime now)
{
	atp_begin(activity);
	part(now);
	atp_commit();
}

static long
step_identities(AtpTime now)
{
	bool		looks = atp_remaining(now, looked, LOOK_MS) == 0;
	bool		cleans = atp_remaining(now, cleaned, CLEAN_MS) == 0;
	long		timeout;

	take_answers();
	start_web();
	if (is_time_to_write(now))
		in_transaction("writing identities", write_all, now);
	if (looks)
		in_transaction("looking for requests", find_due_lookups, now);
	if (cleans)
		in_transaction("forgetting identities", clean_tables, now);
	start_web();
	timeout = start_plc();
	if (nput_off > 0)
		return 0;
	if (nended > 0)
		timeout = atp_earlier(timeout, atp_remaining(now, first_ended, WRITE_MS));
	return atp_earlier(timeout, until_look(now, looks));
}

const AtpTask atp_identity_task = {
	.name = "identity",
	.wanted = atp_identity_is_wanted,
	.begin = begin_identities,
	.step = step_identities,
	.kinds = 2,					/* the directory, and hosts of did:web */
};
