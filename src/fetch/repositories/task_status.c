/*
 * task_status.c
 *		The fetcher's task that asks accounts' servers (com.atproto.sync.getRepoStatus) whether an
 *		account is active (V-39) or deleted (V-47), and the servers of repositories whether a
 *		repository is newer than the stored one.
 *
 * The task claims a row of atproto.status_request by postponing next_try: so no server is asked more
 * often than once in ten minutes, even if the process ends.  If the host's limits forbid a request
 * now, the row is due again soon, and does not block later rows.  The answer is written with the
 * rights of the subscription's owner, if the table repo still has the status for which the row was
 * written.
 *
 * If the stream or the account's server said that an account was deleted, the account is gone when
 * the directory confirms the deletion; or when the server that a newly read document names confirms
 * the deletion, or does not know the account; or when atproto.purge_after has passed without a
 * contrary answer.  Then a consumer purges the account's records.  A server that the account has
 * left may answer anything, so its answer does not count.
 *
 * Questions for revisions have the lowest priority, and a few places of their own.
 */
#include "postgres.h"

#include "changes/announce.h"
#include "common/clock.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "core/syntax/tid.h"
#include "core/wire/repo_status.h"
#include "fetch/engine/run_as_owner.h"
#include "fetch/engine/task.h"
#include "fetch/engine/fetch.h"
#include "fetch/repositories/list_rows.h"
#include "fetch/repositories/repo_rows.h"
#include "identity/identity.h"
#include "identity/identity_request.h"
#include "common/injection.h"
#include "miscadmin.h"
#include "tables/repos/dead_letter.h"
#include "tables/repos/held.h"
#include "tables/repos/hold.h"
#include "tables/repos/repo.h"
#include "tables/base/job.h"
#include "tables/base/sweep.h"
#include "tables/repos/status_request.h"
#include "tables/records/sweep_deletion.h"
#include "tables/base/table.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define ASKED_MAX		32		/* running requests */
#define REVS_MAX		8		/* running requests for revisions */
#define LOOK_MS			1000	/* between two looks, if the last look found work */
#define IDLE_LOOK_MS	10000
#define APPLY_MS		1000
#define PURGE_MS		10000	/* the same with a look at all records of the account, for the
								 * newest revision */
#define WAIT_MIN_MS		1000	/* a row whose host cannot be asked now is due again after this time
								 * at the earliest */
#define WAIT_MAX_MS		600000	/* ... and after this time at the latest */
#define DOCUMENT_MS		2000	/* between two looks whether the account's document has been read:
								 * the server is asked afterwards */
#define DOCUMENT		"interval '3 min'"	/* limit of the wait for the document: a document is not
											 * read twice within a minute */
#define DAYS			"interval '7 days'" /* a row without an answer is deleted after this time,
											 * unless for a deletion */

/* A request for a status, in a memory context of its own. */
typedef struct Asking
{
	MemoryContext cxt;
	char	   *target;
	char	   *subscription;
	struct varlena *did;
	char	   *did_text;
	char	   *server;			/* scheme and host; NULL: the account's server is not known */
	bool		at_pds;			/* the server is the account's own ... */
	char	   *pds;			/* ... with this text in atproto.identity */
	Oid			owner;
	Oid			target_owner;
	AtpArg		status_at;		/* status of the account when the row was written */
	AtpArg		status_seq;
	bool		deletion;		/* the row was written because of a deletion ... */
	bool		unread;			/* ... and the document is still to be read: the server is asked
								 * afterwards */
	bool		fresh;			/* the document was read after the row was written */
	bool		asks_rev;

	/* the server's answer */
	bool		active;
	bool		has_rev;
	uint64		rev;
	char	   *status;			/* NULL: no status */

	bool		gone;			/* the account is gone: confirmed, or purge_after has passed */
	bool		many;			/* the account has too many records to search for the newest */
	bool		applied;		/* the owner's table now has the deletion ... */
	char	   *status_endpoint;	/* ... of a status that came in this stream; NULL: unknown */
	bool		newer;			/* the server's revision is newer than the table's */
} Asking;

static int	nasked;				/* running requests, without those for revisions */
static int	nrevs;
static AtpTime looked;
static bool idle;				/* the last look found no work */

/* The counter of running requests for this kind of request. */
static int *
running_of_kind(const Asking *asking)
{
	return asking->asks_rev ? &nrevs : &nasked;
}

static bool
statuses_wanted(void)
{
	return atp_run("SELECT FROM atproto.status_request LIMIT 1", ATP_NO_ARGS) > 0;
}

static void
free_asking(Asking *asking)
{
	MemoryContextDelete(asking->cxt);
}

/* ------------------------------------------------------------------------
 * Rows
 * ------------------------------------------------------------------------
 */

/* A value that outlives the row; both types may be passed by reference, so the value is copied. */
static AtpArg
keep_value(Asking *asking, AtpTuple row, const char *column, Oid type)
{
	MemoryContext old = MemoryContextSwitchTo(asking->cxt);
	AtpArg		arg = atp_get_arg(row, column, type);

	if (!arg.isnull)
		arg.value = type == INT8OID ? Int64GetDatum(DatumGetInt64(arg.value)) : TimestampTzGetDatum(DatumGetTimestampTz(arg.value));
	MemoryContextSwitchTo(old);
	return arg;
}

static char *
keep_text(Asking *asking, AtpTuple row, const char *column)
{
	MemoryContext old = MemoryContextSwitchTo(asking->cxt);
	char	   *text = atp_get_text_or_null(row, column);

	MemoryContextSwitchTo(old);
	return text;
}

static Asking *
read_asking(AtpTuple row)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto status", ALLOCSET_SMALL_SIZES);
	Asking	   *asking = MemoryContextAllocZero(cxt, sizeof(Asking));
	MemoryContext old;
	bool		isnull;

	asking->cxt = cxt;
	old = MemoryContextSwitchTo(cxt);
	asking->target = atp_get_text(row, "target");
	asking->subscription = atp_get_text(row, "subscription");
	asking->did = atp_get_copy(row, "did", atp_type("did"));
	asking->did_text = atp_get_text(row, "did");
	asking->server = atp_get_text_or_null(row, "server");
	asking->pds = atp_get_text_or_null(row, "pds");
	MemoryContextSwitchTo(old);
	asking->owner = DatumGetObjectId(atp_get(row, "owner", OIDOID, &isnull));
	asking->target_owner = DatumGetObjectId(atp_get(row, "target_owner", OIDOID, &isnull));
	asking->status_at = keep_value(asking, row, "status_at", TIMESTAMPTZOID);
	asking->status_seq = keep_value(asking, row, "status_seq", INT8OID);
	asking->deletion = atp_get_bool(row, "deletion");
	asking->unread = atp_get_bool(row, "unread");
	asking->fresh = atp_get_bool(row, "fresh");
	asking->gone = atp_get_bool(row, "gone");
	asking->asks_rev = atp_get_bool(row, "asks_rev");
	asking->at_pds = atp_get_bool(row, "at_pds");
	return asking;
}

/*
 * At most "max" due requests that satisfy the condition, in turn from the owners: a role with any number of requests
 * does not keep the fetcher from the requests of other roles.  With a single free place at a time, random() decides
 * which owner comes first.  The requests are sent in this order, since a host may have places for the first few only.
 */
#define DUE(condition, max) \
	"(SELECT target, did, turn, chance FROM (SELECT w.*, random() AS chance, row_number() OVER (PARTITION BY s.owner ORDER BY w.next_try) AS turn FROM atproto.subscription s" \
	"  CROSS JOIN LATERAL (SELECT target, did, next_try FROM atproto.status_request WHERE subscription = s.name AND " condition \
	"   AND next_try <= $1 AND answered_at IS NULL ORDER BY next_try LIMIT " max " FOR UPDATE SKIP LOCKED) w) w ORDER BY turn, chance LIMIT " max ")"

/*
 * Delete rows that are answered or too old, and return rows that are due, as many as may be asked
 * now.
 */
static List *
claim_rows(TimestampTz now)
{
	List	   *claimed = NIL;
	AtpResult	found;

	atp_status_requests_take_from_unentitled();
	atp_run("DELETE FROM atproto.status_request WHERE ctid = ANY (ARRAY (SELECT ctid FROM atproto.status_request WHERE next_try <= $1"
			" AND (answered_at IS NOT NULL OR (why <> 'deleted' AND requested_at < $1 - " DAYS ")) FOR UPDATE SKIP LOCKED))", ATP_ARGS(atp_time_arg(now)));
	found = atp_query(atp_identity_sql("WITH due AS MATERIALIZED (" DUE("why <> 'rev'", "$2") " UNION ALL " DUE("why = 'rev'", "$4") "),"
									   " claimed AS ("
									   " UPDATE atproto.status_request w SET tries = w.tries + 1,"
									   "  next_try = LEAST($1 + LEAST(interval '10 min' * power(2, LEAST(w.tries, 10)), interval '1 day'),"
									   "   CASE WHEN w.why = 'deleted' AND w.requested_at + $3 * interval '1 s' > $1 THEN w.requested_at + $3 * interval '1 s' END)"
									   " FROM due LEFT JOIN atproto.identity i ON i.did OPERATOR(@.=) due.did,"
									   "  atproto.subscription s WHERE w.target = due.target AND w.did OPERATOR(@.=) due.did"
									   "  AND s.name = w.subscription"
									   " RETURNING w.target, w.subscription, w.did, CASE WHEN i.state = 'good' THEN i.pds END AS pds, w.why = 'rev' AS asks_rev,"
									   "  w.why <> 'rev' OR " ATP_REPO_SOURCE " = 'pds' AS at_pds,"
									   "  CASE WHEN w.why = 'rev' THEN " ATP_REPO_SERVER
									   "   WHEN i.state = 'good' THEN CASE WHEN i.pds LIKE 'http://%' THEN i.pds ELSE 'https://' || i.pds END END AS server,"
									   "  w.status_at, w.status_seq, s.owner::oid AS owner, s.target_owner,"
									   "  w.why = 'deleted' AS deletion,"
									   /*
									    * V-44, V-47: before a look-up, i.pds may be a server that
									    * the account has left
									    */
									   "  (w.why = 'deleted' OR (w.why = 'inactive' AND s.host_is_pds)) AND w.requested_at > $1 - " DOCUMENT
									   "   AND COALESCE(i.asked_at <= w.requested_at, true) AS unread,"
									   "  COALESCE(i.resolved_at > w.requested_at, false) AS fresh,"
									   "  w.why = 'deleted' AND (w.requested_at + $3 * interval '1 s' <= $1"
									   "   OR COALESCE(i.state = 'gone' AND i.denied_at IS NULL AND i.asked_at > w.requested_at, false)) AS gone, due.turn, due.chance)"
									   " SELECT * FROM claimed ORDER BY asks_rev, turn, chance"),
					  ATP_ARGS(atp_time_arg(now), atp_int8_arg(ASKED_MAX - nasked), atp_int4_arg(atp_purge_after_s),
							   atp_int8_arg(REVS_MAX - nrevs)));
	for (uint64 i = 0; i < found.n; i++)
		claimed = lappend(claimed, read_asking(atp_result_row(found, i)));
	atp_result_free(found);
	return claimed;
}

/*
 * Update the row, unless it has been written again meanwhile for a different #account, or for a
 * different kind of question.
 */
static void
change_request(const Asking *asking, const char *set, AtpArg value)
{
	atp_run(atp_identity_sql(psprintf("UPDATE atproto.status_request SET %s WHERE target = $1::name AND did OPERATOR(@.=) $2"
									  " AND status_seq IS NOT DISTINCT FROM $4 AND (why = 'rev') = $5", set)),
			ATP_ARGS(atp_text_arg(asking->target), atp_did_arg(asking->did), value,
					 asking->status_seq, atp_bool_arg(asking->asks_rev)));
}

static void
put_off_request(const Asking *asking, TimestampTz now, long wait_ms)
{
	long		ms = Min(Max(wait_ms, WAIT_MIN_MS), WAIT_MAX_MS);

	change_request(asking, "next_try = $3, tries = GREATEST(tries - 1, 0)", atp_time_arg(now + (TimestampTz) ms * 1000));
}

/* ------------------------------------------------------------------------
 * Requests
 * ------------------------------------------------------------------------
 */

static char *
url_of_status(const Asking *asking)
{
	StringInfoData url;

	initStringInfo(&url);
	appendStringInfo(&url, "%s/xrpc/com.atproto.sync.getRepoStatus?did=", asking->server);
	atp_fetch_append_escaped(&url, asking->did_text);
	return url.data;
}

/*
 * Send the request.  False: the server cannot be asked now.  Outside of the transaction that has claimed the row: a second UPDATE of a row
 * in one transaction checks the row's foreign key, and would wait for a session that removes the subscription and waits for the row.
 */
static bool
start_request(Asking *asking, TimestampTz now)
{
	AtpHttp    *http;
	long		wait_ms = -1;

	if (asking->server == NULL)
	{
		atp_identity_requests_add(&asking->did, 1, asking->deletion, ATP_REQUEST_OTHER, asking->owner, false);
		change_request(asking, "error = $3", atp_text_arg("the account's server is not known"));
		return false;
	}
	if (asking->unread)
	{
		atp_identity_requests_add(&asking->did, 1, true, ATP_REQUEST_OTHER, asking->owner, false);
		put_off_request(asking, now, DOCUMENT_MS);
		return false;
	}
	http = atp_fetch_start(&(AtpHttpRequest) {
						   .owner = &nasked, .arg = asking, .url = url_of_status(asking),
						   .accept = "application/json", .body_max = ATP_ANSWER_MAX, .gzip = true
						   }, NULL, &wait_ms);
	if (http == NULL)
		put_off_request(asking, now, wait_ms);
	/* the directory may confirm the deletion, or have a new server of the account */
	else if (asking->deletion)
		atp_identity_requests_add(&asking->did, 1, true, ATP_REQUEST_OTHER, asking->owner, false);
	return http != NULL;
}

/* ------------------------------------------------------------------------
 * Answers
 * ------------------------------------------------------------------------
 */

/*
 * Read the answer.  NULL: the server says whether the account is active; else the reason why the
 * status stays unknown.
 */
static const char *
read_answer(Asking *asking, const AtpHttpAnswer *answer, bool *not_found)
{
	AtpRepoStatus status;
	AtpRepoRefusal refusal;
	size_t		at;

	if (answer->outcome != ATP_HTTP_OK)
		return answer->error;
	if (answer->status == 200)
	{
		if (atp_repo_status_parse(answer->body, answer->body_len,
								  (AtpSpan) {asking->did_text, strlen(asking->did_text)}, &status, &at) != ATP_OK)
			return "the answer is no status of this account";
		asking->active = status.active;
		asking->has_rev = status.has_rev;
		asking->rev = status.rev;
		if (!status.active && status.status.len > 0)
			asking->status = pnstrdup(status.status.text, status.status.len);
		return NULL;
	}
	/* any other failure says nothing about the account */
	refusal = answer->status >= 400 && answer->status <= 499
		? atp_repo_refusal(answer->body, answer->body_len) : ATP_REPO_REFUSED;
	*not_found = refusal == ATP_REPO_NOT_FOUND;
	if (atp_repo_refusal_status(refusal) == NULL)
		return answer->error != NULL ? answer->error : "the answer is not of status 200";
	asking->active = false;
	asking->status = pstrdup(atp_repo_refusal_status(refusal));
	return NULL;
}

#define AS_REQUESTED \
	" WHERE did OPERATOR(@.=) $1 AND NOT active" \
	" AND status_at IS NOT DISTINCT FROM $2 AND status_seq IS NOT DISTINCT FROM $3"

/* is the server's repository newer than the table's? */
static void
compare_revs(Asking *asking, AtpArg did)
{
	AtpResult	found;

	if (!asking->active || !asking->has_rev)
		return;
	found = atp_query(atp_expand_sql("SELECT FROM #.repo WHERE did OPERATOR(@.=) $1 AND active AND rev OPERATOR(@.<) $2", asking->target),
					  ATP_ARGS(did, (AtpArg) {AtpTidGetDatum(asking->rev), atp_type("tid")}));
	asking->newer = found.n > 0;
	atp_result_free(found);
}

/* H-43: the last revision before the deletion, by the time of the status; NULL: no sweep runs beside another subscription. */
static AtpArg
sweep_limit(const Asking *asking)
{
	TimestampTz at = asking->status_at.isnull ? atp_time_of_day() : DatumGetTimestampTz(asking->status_at.value);
	uint64		limit = atp_tid_make(Max(at + ATP_UNIX_TO_POSTGRES, 0), ATP_TID_MAX_CLOCK);

	return (AtpArg) {AtpTidGetDatum(limit), atp_type("tid"), !atp_sweep_is_shared(asking->target)};
}

/*
 * Write the answer; called as the owner.  If the row's status has changed, a newer #account came,
 * and the answer is dropped.
 */
static void
apply_answer(void *arg)
{
	Asking	   *asking = arg;
	AtpArg		did = atp_did_arg(asking->did);

	atp_target_hold(asking->owner, asking->target, asking->target_owner);
	if (asking->asks_rev)
	{
		compare_revs(asking, did);
		return;
	}
	/*
	 * Below verify = full, repo_account.c makes the same change at once.  Here an export may have
	 * been partly written, with a newer revision than repo.rev: so the newest record's revision is
	 * looked for.
	 *
	 * H-43: while a sweep runs, an archive may have brought records of the account's next life, so the
	 * time of the deletion is the limit, as in repos_sink.c, and the deletion is kept.
	 */
	atp_announce_account(asking->did, ATP_CHANGE_STATUS);
	if (asking->gone)
	{
		AtpArg		limit = sweep_limit(asking);
		AtpResult	gone = atp_query(atp_expand_sql("UPDATE #.repo SET status = 'deleted', host = COALESCE($4, host),"
													" deleted_rev = COALESCE(rev, deleted_rev), purge_seq = status_seq,"
													" purge_rev = GREATEST(purge_rev, rev, $6, CASE WHEN NOT $5 AND $6 IS NULL AND sync NOT IN ('synchronized', 'unproven')"
													"  THEN (SELECT o.rev FROM #.record o WHERE o.did OPERATOR(@.=) $1 ORDER BY o.rev DESC LIMIT 1) END),"
													" " ATP_SQL_ERASE ", " ATP_SQL_NO_REFILL ", updated_at = now()" AS_REQUESTED
													" RETURNING status_endpoint, GREATEST(deleted_rev, $6) AS kept_rev", asking->target),
									 ATP_ARGS(did, asking->status_at, asking->status_seq, atp_text_arg(asking->pds), atp_bool_arg(asking->many), limit));

		asking->applied = gone.n > 0;
		asking->status_endpoint = asking->applied ? keep_text(asking, atp_result_row(gone, 0), "status_endpoint") : NULL;
		if (asking->applied && !limit.isnull)
			atp_sweep_keep_gone(asking->target, did, atp_get_arg(atp_result_row(gone, 0), "kept_rev", atp_type("tid")));
		atp_result_free(gone);
	}
	else
		atp_run(atp_expand_sql("UPDATE #.repo SET active = $5, status = $6, host = $4,"
							   " sync = CASE WHEN $5 THEN 'desynchronized' ELSE sync END, updated_at = now()"
							   AS_REQUESTED " AND (active, status) IS DISTINCT FROM ($5, $6)", asking->target),
				ATP_ARGS(did, asking->status_at, asking->status_seq, atp_text_arg(asking->pds),
						 atp_bool_arg(asking->active), atp_text_arg(asking->status)));
	if (!asking->applied)
		return;
	/* F-15: what waits came before the deletion, as long as the row says so, which is locked now; so did the job */
	atp_held_erase_all(asking->target, asking->did);
	atp_jobs_remove(asking->target, &asking->did, 1);
}

/* Arguments of note_answer(). */
typedef struct Outcome
{
	const Asking *asking;
	const char *fault;			/* why the status stays unknown; NULL: the answer was written */
	bool		moved;			/* the account may have moved: look up its document */
} Outcome;

static void
note_answer(void *arg)
{
	const Outcome *outcome = arg;
	const Asking *asking = outcome->asking;

	if (outcome->fault == NULL)
	{
		change_request(asking, "answered_at = $3, error = NULL", atp_time_arg(atp_time_of_day()));
		if (asking->applied)
			atp_dead_letters_forget_account(asking->subscription, asking->did, atp_text_arg(asking->status_endpoint), asking->status_seq);
		if (asking->newer)
		{
			(void) atp_jobs_request(asking->target, asking->subscription,
									&(AtpJobRequest) {.did = asking->did, .priority = ATP_JOB_LISTED, .reason = ATP_LIST_RECHECK}, 1);
			atp_wake_fetcher();
		}
		/*
		 * V-39: the account's events were ignored while it was not active, so its repository is
		 * fetched
		 */
		if (asking->active && !asking->asks_rev)
		{
			atp_jobs_resume(asking->target, &asking->did, 1);
			atp_jobs_repair(asking->target, &asking->did, 1, ATP_JOB_BREAK, "active");
		}
	}
	else
		change_request(asking, "error = left($3, 250)", atp_text_arg(outcome->fault));
	/* the server does not know the account, which may have moved */
	if (outcome->moved)
		atp_identity_requests_add(&asking->did, 1, true, ATP_REQUEST_OTHER, asking->owner, false);
}

static AtpRunResult
try_apply(Asking *asking, char **why)
{
	bool		looks = asking->gone && !asking->many;
	AtpRunResult result = atp_run_as_owner(asking->owner, "writing an account's status", looks ? PURGE_MS : APPLY_MS, apply_answer, asking, why);

	/* without the search, records with a revision up to repo.rev are purged at least */
	if (result != ATP_RUN_LATE || !looks)
		return result;
	asking->many = true;
	return atp_run_as_owner(asking->owner, "writing an account's status", APPLY_MS, apply_answer, asking, why);
}

/*
 * Write the result of a request.  If a session has locked the rows, so that the result cannot be
 * written in time, the row stays and the server is asked again.
 */
static void
write_result(Asking *asking, const char *fault, bool moved)
{
	char	   *why = NULL;

	if (fault == NULL && try_apply(asking, &why) != ATP_RUN_DONE)
	{
		ereport(LOG,
				(errmsg("the status of account %s could not be brought into schema \"%s\": %s",
						asking->did_text, asking->target, why)));
		fault = why;
	}
	if (fault == NULL)
		ATP_INJECTION_POINT("status written");
	if (atp_run_as_owner(GetUserId(), "noting an account's status", APPLY_MS,
						 note_answer, &(Outcome) {asking, fault, moved}, &why) != ATP_RUN_DONE)
		ereport(LOG,
				(errmsg("the status of account %s could not be noted: %s", asking->did_text, why)));
}

static void
take_answer(Asking *asking, const AtpHttpAnswer *answer)
{
	bool		not_found = false;
	const char *fault = read_answer(asking, answer, &not_found);
	bool		deleted = fault == NULL && !asking->asks_rev && asking->status != NULL && strcmp(asking->status, "deleted") == 0;

	/*
	 * a server that the account has left does not know the account any more: so the document must
	 * have been read since
	 */
	asking->gone = asking->fresh && (deleted || (not_found && asking->deletion));
	deleted = deleted && !asking->gone;
	if (deleted)
		fault = "the account's server says that it is deleted; the account's document has to be read first";
	write_result(asking, asking->gone ? NULL : fault, deleted || (not_found && !asking->deletion && asking->at_pds));
}

static void
take_answers(void)
{
	AtpHttp    *http;

	while ((http = atp_fetch_next(&nasked)) != NULL)
	{
		Asking	   *asking = atp_http_arg(http);

		take_answer(asking, atp_http_answer(http));
		atp_fetch_free(http);
		*running_of_kind(asking) -= 1;
		free_asking(asking);
	}
}

static bool
ask_server(Asking *asking, TimestampTz now)
{
	bool		sent;

	atp_begin("asking for the status of an account");
	sent = atp_extension_lock() == ATP_EXTENSION_READY && start_request(asking, now);
	atp_commit();
	return sent;
}

static void
start_due_requests(void)
{
	TimestampTz now = atp_time_of_day();
	MemoryContext cxt = CurrentMemoryContext;
	List	   *claimed = NIL;
	ListCell   *cell;

	atp_begin("looking for accounts that may be active, or deleted");
	MemoryContextSwitchTo(cxt);
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		claimed = claim_rows(now);
	atp_commit();
	foreach(cell, claimed)
	{
		Asking	   *asking = lfirst(cell);

		if (asking->gone)
			write_result(asking, NULL, false);
		else if (ask_server(asking, now))
		{
			*running_of_kind(asking) += 1;
			continue;
		}
		free_asking(asking);
	}
	idle = claimed == NIL;
}

static long
step_statuses(AtpTime now)
{
	long		left;

	take_answers();
	left = atp_remaining(now, looked, LOOK_MS);
	if (left == 0 && (nasked < ASKED_MAX || nrevs < REVS_MAX))
	{
		looked = now;
		start_due_requests();
		left = idle ? IDLE_LOOK_MS : LOOK_MS;
	}
	return left > 0 ? left : LOOK_MS;
}

const AtpTask atp_status_task = {.name = "status", .wanted = statuses_wanted, .step = step_statuses, .kinds = 1};
