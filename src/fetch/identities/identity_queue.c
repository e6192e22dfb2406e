/*
 * identity_queue.c
 *		The queue of look-ups, atproto.identity_request, as the fetcher reads and writes the queue.
 *
 * Hosts of strangers that do not answer, or are in backoff, must not block the look-ups of all
 * accounts.  So a row that cannot be looked up now gets a time (next_try); only rows that are due
 * are read, by the index; and rows that failed before get only a part of each read.
 *
 * Rows locked by a consumer are skipped.  The consumer commits soon, and waiting for a locked row
 * while holding a lock on a second row could be a deadlock.
 */
#include "postgres.h"

#include "common/injection.h"
#include "config/extension.h"
#include "config/spi.h"
#include "fetch/identities/identity_answer.h"
#include "fetch/identities/identity_queue.h"
#include "identity/identity_log.h"
#include "identity/identity_request.h"
#include "tables/repos/held.h"
#include "types/types.h"
#include "utils/timestamp.h"

#define AFTER_EVENT_MS	2000	/* W-31: the directory may have the new document later than the
								 * stream has the event */
#define BUSY_MS			250		/* a consumer's transaction with operations of a directory */
#define FORGET_S		(30 * 24 * 3600)
#define BROKEN_S		(24 * 3600) /* identities without a key are forgotten sooner: the
										 * next use looks the account up anew */
#define FORSAKEN_S		3600	/* a row that held events needed is queued again if events still
								 * need the look-up */
#define CLEAN_ROWS		1000	/* more would be a pause of the fetcher: with a million identities, each lies on a page of its own */

/* All values of the index columns failed and priority, most urgent first. */
#define CLASSES	"(VALUES (false, 0), (false, 1), (false, 2), (true, 0), (true, 1), (true, 2)) c (failed, priority)"

/*
 * The owners with rows of a class c (and web = w): one step in the index for each owner, however many rows an owner
 * has.
 */
#define NEXT_OWNER(w, condition) \
	"(SELECT owner FROM atproto.identity_request WHERE web = " w " AND failed = c.failed AND priority = c.priority" \
	"  AND owner " condition " ORDER BY owner LIMIT 1)"
#define OWNERS(w) \
	"(WITH RECURSIVE o AS (" NEXT_OWNER(w, ">= 0::oid") " UNION ALL SELECT n.owner FROM o CROSS JOIN LATERAL " NEXT_OWNER(w, "> o.owner") " n)" \
	" SELECT owner FROM o) o"

/* A row of atproto.identity_request. */
typedef struct LookupRequest
{
	struct varlena *did;
	Datum		role;
	Datum		owner;
	bool		refresh;
	int			priority;
	TimestampTz requested_at;
	TimestampTz until;			/* new next_try */
} LookupRequest;

/* What is known of an account. */
typedef struct Known
{
	struct varlena *did;
	AtpIdentity row;			/* of atproto.identity */
	AtpIdentity by_log;			/* M-31: what fresh logs say, if they have the account */
	AtpLogAnswer log;
	bool		take;			/* the row is to be written by the log */
} Known;

typedef struct KnownAccounts
{
	Known	   *list;			/* sorted by DID */
	int			n;
	bool		busy;			/* a consumer writes operations: no row may be written by what the log was */
} KnownAccounts;

typedef enum Verdict
{
	ASK,
	GRANTED,					/* no look-up is needed any more: the row goes */
	BY_LOG,						/* a log answers: the row goes */
	PUT_OFF
} Verdict;

bool
atp_identity_is_wanted(void)
{
	return atp_run("SELECT FROM atproto.identity_request LIMIT 1", ATP_NO_ARGS) > 0;
}

/* ------------------------------------------------------------------------
 * Due look-ups
 * ------------------------------------------------------------------------
 */

static struct varlena *
get_did(AtpTuple row)
{
	return atp_get_copy(row, "did", atp_type("did"));
}

static int
read_requests(const AtpIdentityWork *work, TimestampTz now, LookupRequest **requests)
{
	/*
	 * priorities are interleaved, so that no priority starves: of eleven rows six are of sessions
	 * (0), three of held events (1), two of priority 2; within a class the owners take turns
	 */
	AtpResult	found = atp_query("SELECT w.did, w.role, w.owner, w.refresh, w.priority::int4 AS priority, w.requested_at FROM " CLASSES
								  " CROSS JOIN LATERAL (SELECT t.*, row_number() OVER (ORDER BY t.turn, t.next_try) AS n FROM"
								  "  (SELECT w.*, row_number() OVER (PARTITION BY w.owner ORDER BY w.next_try) AS turn"
								  "    FROM " OWNERS("$1")
								  "    CROSS JOIN LATERAL (SELECT * FROM atproto.identity_request w WHERE w.web = $1 AND w.failed = c.failed"
								  "     AND w.priority = c.priority AND w.owner = o.owner AND w.next_try <= $2"
								  "     ORDER BY w.next_try LIMIT CASE WHEN c.failed THEN $4 ELSE $3 END) w) t"
								  "  ORDER BY t.turn, t.next_try LIMIT CASE WHEN c.failed THEN $4 ELSE $3 END) w"
								  " ORDER BY c.failed, w.n * (c.priority + 1), c.priority",
								  ATP_ARGS(atp_bool_arg(work->web), atp_time_arg(now),
										   atp_int8_arg(work->limit), atp_int8_arg(work->retried)));
	int			n = found.n;

	*requests = palloc(sizeof(LookupRequest) * Max(n, 1));
	for (int i = 0; i < n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);
		LookupRequest *request = &(*requests)[i];
		bool		isnull;

		request->did = get_did(row);
		request->role = atp_get(row, "role", OIDOID, &isnull);
		request->owner = atp_get(row, "owner", OIDOID, &isnull);
		request->refresh = atp_get_bool(row, "refresh");
		request->priority = atp_get_int4(row, "priority");
		request->requested_at = DatumGetTimestampTz(atp_get(row, "requested_at", TIMESTAMPTZOID, &isnull));
	}
	atp_result_free(found);
	return n;
}

/* The accounts of the requests; of a did:web no log says anything. */
static KnownAccounts
read_accounts(const LookupRequest *requests, int n, bool web, TimestampTz now)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	KnownAccounts known;
	AtpIdentity *rows;
	AtpIdentity *by_log;
	AtpLogAnswer *answers;

	for (int i = 0; i < n; i++)
		dids[i] = requests[i].did;
	known.n = atp_sort_dids(dids, n);
	known.list = palloc(sizeof(Known) * Max(known.n, 1));
	rows = palloc(sizeof(AtpIdentity) * Max(known.n, 1));
	by_log = palloc(sizeof(AtpIdentity) * Max(known.n, 1));
	answers = palloc0(sizeof(AtpLogAnswer) * Max(known.n, 1));
	atp_identities_read(dids, known.n, rows);
	memcpy(by_log, rows, sizeof(AtpIdentity) * known.n);
	known.busy = !web && !atp_identity_log_try_lock();
	if (!web)
		atp_identity_log_read(dids, known.n, by_log, answers, now);
	for (int i = 0; i < known.n; i++)
		known.list[i] = (Known) {dids[i], rows[i], by_log[i], answers[i], false};
	return known;
}

static int
compare_known(const void *a, const void *b)
{
	return atp_compare_dids(((const Known *) a)->did, ((const Known *) b)->did);
}

static Known *
account_of(const KnownAccounts *known, const LookupRequest *request)
{
	Known		key = {.did = request->did};

	return bsearch(&key, known->list, known->n, sizeof(Known), compare_known);
}

static bool
is_granted(const LookupRequest *request, const AtpIdentity *identity, bool unanswered, TimestampTz now)
{
	if (identity->stale || unanswered)
		return false;
	return request->refresh ? identity->asked_at >= request->requested_at : !atp_identity_is_due(identity, now);
}

/*
 * W-31 to W-33, and G to V-41: a minute passes between two look-ups of a DID, whatever asked for
 * the second.  Sooner only while nothing is known of the account and no server answers.
 */
static Verdict
judge_request(LookupRequest *request, const AtpIdentity *identity, TimestampTz now)
{
	bool		unanswered = identity->error != NULL && !atp_identity_is_broken(identity);
	TimestampTz least = identity->asked_at + (TimestampTz) ATP_IDENTITY_LEAST_S * USECS_PER_SEC;
	TimestampTz until = DT_NOBEGIN;

	/* the clock was set back since the row was written: the times in the row mean nothing */
	if (identity->asked_at > now || request->requested_at > now + ATP_CLOCK_BACK_US)
		return ASK;
	if (is_granted(request, identity, unanswered, now))
		return GRANTED;
	if (identity->asked_at == DT_NOBEGIN)
		until = DT_NOBEGIN;
	else if (!unanswered)
		until = least;
	else if (request->refresh && request->requested_at > identity->asked_at)
		until = Min(least, identity->next_try);
	else
		until = identity->next_try;
	if (identity->stale)
		until = Max(until, request->requested_at + (TimestampTz) AFTER_EVENT_MS * 1000);
	request->until = until;
	return until > now ? PUT_OFF : ASK;
}

/*
 * M-30, M-31: while a log is fresh, the log answers.  Where the key that the log has does not fit an event, or the log does not
 * have the account yet, the request waits until the log cannot lack an operation from before the request; then the directory
 * is asked.  The request of a session to read the document again goes to the directory at once.
 */
static Verdict
judge_by_log(LookupRequest *request, const Known *known, TimestampTz now)
{
	bool		by_session = DatumGetObjectId(request->role) != InvalidOid;
	bool		needs_more = request->refresh && (by_session || request->priority == ATP_REQUEST_HELD);
	TimestampTz until = request->requested_at + (TimestampTz) atp_plc_lag_ms * 1000;
	Verdict		verdict = judge_request(request, &known->row, now);

	if (known->log == ATP_LOG_SILENT || verdict == GRANTED || (by_session && (needs_more || known->log == ATP_LOG_LACKS)))
		return verdict;
	if (known->log == ATP_LOG_HAS && !request->refresh && !known->row.stale)
		return BY_LOG;
	if (until > now && request->requested_at <= now + ATP_CLOCK_BACK_US)
	{
		request->until = until;
		return PUT_OFF;
	}
	return known->log == ATP_LOG_HAS && !needs_more ? BY_LOG : verdict;
}

/*
 * Writes the rows that logs have filled.  A row that a session has locked is written by a later look.  The doubts about
 * #identity events end, as with a look-up: the log was fresh since the events.
 */
static void
write_by_log(KnownAccounts *known, TimestampTz now)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(known->n, 1));
	AtpIdentity *identities = palloc(sizeof(AtpIdentity) * Max(known->n, 1));
	bool	   *is_free = palloc(sizeof(bool) * Max(known->n, 1));
	int			n = 0;
	int			nfree = 0;

	for (int i = 0; i < known->n; i++)
		if (known->list[i].take)
			dids[n++] = known->list[i].did;
	atp_identities_try_lock(dids, n, is_free);
	if (n > 0)
		ATP_INJECTION_POINT("log read");
	for (int i = 0, of = 0; i < known->n; i++)
	{
		Known	   *account = &known->list[i];

		if (!account->take || !(account->take = is_free[of++]))
			continue;
		dids[nfree] = account->did;
		identities[nfree] = account->by_log;
		if (identities[nfree].asked_at == DT_NOBEGIN)
			identities[nfree].asked_at = now;
		nfree++;
	}
	atp_identities_begin_lookup(dids, nfree);
	atp_identities_write_by_log(dids, nfree, identities);
}

/* The key columns and new times of rows, as parameters. */
static void
key_args(LookupRequest *const *requests, int n, AtpArg args[5])
{
	Datum	   *values[5];
	static const Oid types[] = {InvalidOid, OIDOID, OIDOID, BOOLOID, TIMESTAMPTZOID};

	for (int c = 0; c < lengthof(types); c++)
		values[c] = palloc(sizeof(Datum) * n);
	for (int i = 0; i < n; i++)
	{
		values[0][i] = PointerGetDatum(requests[i]->did);
		values[1][i] = requests[i]->role;
		values[2][i] = requests[i]->owner;
		values[3][i] = BoolGetDatum(requests[i]->refresh);
		values[4][i] = TimestampTzGetDatum(requests[i]->until);
	}
	for (int c = 0; c < lengthof(types); c++)
		args[c] = atp_array_arg(c == 0 ? atp_type("did") : types[c], values[c], NULL, n);
}

#define LOCKED_KEYS \
	"WITH l AS (SELECT w.did, w.role, w.owner, w.refresh, u.until FROM unnest($1, $2, $3, $4, $5) u (did, role, owner, refresh, until)" \
	"  JOIN atproto.identity_request w ON w.did OPERATOR(@.=) u.did AND w.role = u.role AND w.owner = u.owner AND w.refresh = u.refresh" \
	"  FOR UPDATE OF w SKIP LOCKED)"
#define OF_KEYS	" WHERE w.did OPERATOR(@.=) l.did AND w.role = l.role AND w.owner = l.owner AND w.refresh = l.refresh"

static void
write_requests(const char *sql, LookupRequest *const *requests, int n)
{
	AtpArg		args[5];

	if (n == 0)
		return;
	key_args(requests, n, args);
	atp_run(atp_identity_sql(sql), args, lengthof(args));
}

/*
 * An event may have been held just as the look-up ended, when the answer released the held events:
 * release again.
 */
static void
release_held(LookupRequest *const *requests, int n)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));

	for (int i = 0; i < n; i++)
		dids[i] = requests[i]->did;
	atp_held_release(dids, atp_sort_dids(dids, n));
}

List *
atp_identity_look(const AtpIdentityWork *work, TimestampTz now, bool *more)
{
	LookupRequest *requests;
	int			n = read_requests(work, now, &requests);
	KnownAccounts known = read_accounts(requests, n, work->web, now);
	LookupRequest **granted = palloc(sizeof(LookupRequest *) * Max(n, 1));
	LookupRequest **put_off = palloc(sizeof(LookupRequest *) * Max(n, 1));
	LookupRequest **by_log = palloc(sizeof(LookupRequest *) * Max(n, 1));
	int			ngranted = 0;
	int			nput_off = 0;
	int			nby_log = 0;
	List	   *ask = NIL;

	*more |= n >= Min(work->limit, work->retried);
	for (int i = 0; i < n; i++)
	{
		Known	   *account = account_of(&known, &requests[i]);

		if (work->is_taken(requests[i].did))
			continue;
		switch (judge_by_log(&requests[i], account, now))
		{
			case ASK:
				ask = lappend(ask, requests[i].did);
				break;
			case GRANTED:
				granted[ngranted++] = &requests[i];
				break;
			case BY_LOG:
				requests[i].until = now + BUSY_MS * INT64CONST(1000);
				if (known.busy)
					put_off[nput_off++] = &requests[i];
				else
					by_log[nby_log++] = &requests[i];
				account->take = !known.busy;
				break;
			case PUT_OFF:
				put_off[nput_off++] = &requests[i];
				break;
		}
	}
	write_by_log(&known, now);
	for (int i = 0; i < nby_log; i++)
		if (account_of(&known, by_log[i])->take)
			granted[ngranted++] = by_log[i];
	write_requests(LOCKED_KEYS " DELETE FROM atproto.identity_request w USING l" OF_KEYS, granted, ngranted);
	release_held(granted, ngranted);
	write_requests(LOCKED_KEYS " UPDATE atproto.identity_request w SET next_try = l.until FROM l" OF_KEYS, put_off, nput_off);
	return ask;
}

TimestampTz
atp_identity_next(TimestampTz now)
{
	AtpResult	found = atp_query("SELECT COALESCE(min(w.next_try), 'infinity') AS at FROM " CLASSES
								  " CROSS JOIN (VALUES (false), (true)) k (web) CROSS JOIN LATERAL " OWNERS("k.web")
								  " CROSS JOIN LATERAL (SELECT w.next_try FROM atproto.identity_request w WHERE w.web = k.web"
								  "  AND w.failed = c.failed AND w.priority = c.priority AND w.owner = o.owner AND w.next_try > $1"
								  "  ORDER BY w.next_try LIMIT 1) w",
								  ATP_ARGS(atp_time_arg(now)));
	bool		isnull;
	TimestampTz at = DatumGetTimestampTz(atp_get(atp_result_row(found, 0), "at", TIMESTAMPTZOID, &isnull));

	atp_result_free(found);
	return at;
}

/* ------------------------------------------------------------------------
 * Results of look-ups
 * ------------------------------------------------------------------------
 */

void
atp_identity_put_off(struct varlena *const *dids, int n, TimestampTz *until, bool failed)
{
	Datum	   *times = palloc(sizeof(Datum) * Max(n, 1));

	if (n == 0)
		return;
	for (int i = 0; i < n; i++)
		times[i] = TimestampTzGetDatum(until[i]);
	atp_run(atp_identity_sql("WITH l AS (SELECT w.did, w.role, w.owner, w.refresh, u.until FROM unnest($1, $2) u (did, until)"
							 "  JOIN atproto.identity_request w ON w.did OPERATOR(@.=) u.did FOR UPDATE OF w SKIP LOCKED)"
							 " UPDATE atproto.identity_request w SET next_try = l.until, failed = w.failed OR $3 FROM l" OF_KEYS),
			ATP_ARGS(atp_dids_arg(dids, n), atp_array_arg(TIMESTAMPTZOID, times, NULL, n), atp_bool_arg(failed)));
}

void
atp_identity_granted(struct varlena *const *dids, int n)
{
	if (n == 0)
		return;
	atp_run(atp_identity_sql("WITH l AS (SELECT w.did, w.role, w.owner, w.refresh FROM unnest($1) u (did)"
							 "  JOIN atproto.identity_request w ON w.did OPERATOR(@.=) u.did"
							 "  WHERE NOT EXISTS (SELECT FROM atproto.identity i WHERE i.did OPERATOR(@.=) w.did AND i.stale)"
							 "  FOR UPDATE OF w SKIP LOCKED)"
							 " DELETE FROM atproto.identity_request w USING l" OF_KEYS),
			ATP_ARGS(atp_dids_arg(dids, n)));
}

void
atp_identity_wake_all(TimestampTz now)
{
	atp_run(atp_identity_sql("WITH l AS (SELECT did, role, owner, refresh FROM atproto.identity_request WHERE next_try > $1 FOR UPDATE SKIP LOCKED)"
							 " UPDATE atproto.identity_request w SET next_try = 'epoch' FROM l" OF_KEYS), ATP_ARGS(atp_time_arg(now)));
}

/*
 * Delete old rows of the range of DIDs that follows "after".  DIDs below a host that answers for
 * any name cost a stranger nothing, so the tables would grow for ever.  Identities that nothing
 * asked for go after FORGET_S, identities without a key after BROKEN_S; look-ups for held events
 * that are gone go after FORSAKEN_S.  The table is walked in ranges, since an index on the time
 * would cost more.
 */
struct varlena *
atp_identity_clean(struct varlena *after, TimestampTz now)
{
	TimestampTz before = now - (TimestampTz) FORGET_S * USECS_PER_SEC;
	TimestampTz broken_before = now - (TimestampTz) BROKEN_S * USECS_PER_SEC;
	TimestampTz forsaken_before = now - (TimestampTz) FORSAKEN_S * USECS_PER_SEC;
	AtpArg		from = atp_did_arg(after);
	AtpResult	found = atp_query(atp_identity_sql("SELECT did FROM atproto.identity WHERE $1 IS NULL OR did OPERATOR(@.>) $1"
												   " ORDER BY did USING OPERATOR(@.<) OFFSET $2 LIMIT 1"),
								  ATP_ARGS(from, atp_int8_arg(CLEAN_ROWS - 1)));
	AtpArg		to = {(Datum) 0, atp_type("did"), found.n == 0};
	const char *range = "($1 IS NULL OR t.did OPERATOR(@.>) $1) AND ($2 IS NULL OR t.did OPERATOR(@.<=) $2)";

	if (found.n > 0)
		to.value = PointerGetDatum(get_did(atp_result_row(found, 0)));
	atp_result_free(found);
	atp_run(atp_identity_sql(psprintf("WITH l AS (SELECT t.did, t.role, t.owner, t.refresh FROM atproto.identity_request t"
									  "  WHERE (t.requested_at < $3 OR (t.requested_at < $4 AND t.role = 0 AND t.priority = 1"
									  "   AND NOT EXISTS (SELECT FROM atproto.held_event h WHERE h.did OPERATOR(@.=) t.did))) AND %s FOR UPDATE SKIP LOCKED)"
									  " DELETE FROM atproto.identity_request w USING l" OF_KEYS, range)),
			ATP_ARGS(from, to, atp_time_arg(before), atp_time_arg(forsaken_before)));
	atp_run(atp_identity_sql(psprintf("WITH l AS (SELECT t.did FROM atproto.identity t"
									  "  WHERE t.asked_at < CASE WHEN t.key IS NULL THEN $4 ELSE $3 END AND %s"
									  "  AND NOT EXISTS (SELECT FROM atproto.identity_request w WHERE w.did OPERATOR(@.=) t.did)"
									  "  FOR UPDATE SKIP LOCKED)"
									  " DELETE FROM atproto.identity t USING l WHERE t.did OPERATOR(@.=) l.did", range)),
			ATP_ARGS(from, to, atp_time_arg(before), atp_time_arg(broken_before)));
	return to.isnull ? NULL : (struct varlena *) DatumGetPointer(to.value);
}
