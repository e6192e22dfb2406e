/*
 * status_request.c
 *		The queue atproto.status_request: requests to ask an account's server whether the account is active
 *		(V-39), deleted (V-47), or newer than the stored repository.
 *
 * A row stays for a while after the answer, so that a server is not asked for each event.  While the row
 * exists, only three things renew the request: a deletion, a request for the status after a request for a
 * revision, and a status that has changed since.  A renewed request is not sent sooner than the row's time.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/spi.h"
#include "config/wake.h"
#include "identity/identity.h"
#include "tables/base/job.h"
#include "tables/repos/status_request.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/guc.h"

int			atp_purge_after_s;

void
atp_status_request_init(void)
{
	DefineCustomIntVariable("atproto.purge_after",
							"Time after which the records of a deleted account go although neither its server nor the directory agrees.",
							"At level full.  0: at once.", &atp_purge_after_s, 7 * 24 * 3600, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
}

/* As the owner of the table. */
static void
delete_requests(const char *name, const char *target)
{
	atp_run("DELETE FROM atproto.status_request WHERE subscription = $1 AND target = $2::name", ATP_ARGS(atp_text_arg(name), atp_text_arg(target)));
}

static bool
is_deletion(const AtpEvent *event)
{
	return event->effects.unconfirmed || event->effects.drops_held;
}

/* Choose one event of each account: the last deletion, or the first event if no event is a deletion. */
static int
choose_events(AtpEvent *const *events, int n, AtpEvent **chosen)
{
	int			nchosen = 0;

	for (int i = 0; i < n; i++)
	{
		AtpEvent   *last = nchosen > 0 ? chosen[nchosen - 1] : NULL;

		if (last == NULL || atp_compare_dids(last->did, events[i]->did) != 0)
			chosen[nchosen++] = events[i];
		/* the sort was by DID alone: the order of arrival within an account is the order of the addresses in the batch */
		else if (is_deletion(events[i]) && (!is_deletion(last) || events[i] > last))
			chosen[nchosen - 1] = events[i];
	}
	return nchosen;
}

void
atp_request_statuses(const AtpApply *a, AtpEvent *const *events, int n)
{
	AtpEvent  **chosen = palloc(sizeof(AtpEvent *) * Max(n, 1));
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(n, 1));
	Datum	   *values[3];		/* why, status_at, status_seq */
	bool	   *nulls[3];
	AtpCaller	caller;

	n = choose_events(events, n, chosen);
	if (n == 0)
		return;
	for (int c = 0; c < lengthof(values); c++)
	{
		values[c] = palloc(sizeof(Datum) * n);
		nulls[c] = palloc0(sizeof(bool) * n);
	}
	for (int i = 0; i < n; i++)
	{
		dids[i] = chosen[i]->did;
		values[0][i] = CStringGetTextDatum(is_deletion(chosen[i]) ? "deleted" : "inactive");
		values[1][i] = TimestampTzGetDatum(chosen[i]->effects.status_at);
		nulls[1][i] = !chosen[i]->effects.has_status;
		values[2][i] = Int64GetDatum(chosen[i]->effects.status_seq);
		nulls[2][i] = !chosen[i]->effects.has_status_seq;
	}
	caller = atp_as_table_owner("status_request");
	if (atp_run(atp_identity_sql("INSERT INTO atproto.status_request AS w (target, subscription, requested_at, did, why, status_at, status_seq)"
								 " SELECT $1::name, $2, $3, u.* FROM unnest($4, $5, $6, $7) u (did, why, status_at, status_seq)"
								 " ORDER BY u.did USING OPERATOR(@.<)"
								 " ON CONFLICT (target, did) DO UPDATE SET subscription = excluded.subscription, requested_at = excluded.requested_at,"
								 "  why = excluded.why, status_at = excluded.status_at, status_seq = excluded.status_seq,"
								 "  answered_at = NULL, error = NULL, tries = 0, next_try = LEAST(w.next_try, excluded.requested_at + interval '10 min')"
								 "  WHERE excluded.why = 'deleted' OR w.why = 'rev'"
								 "  OR (w.status_at, w.status_seq) IS DISTINCT FROM (excluded.status_at, excluded.status_seq)"),
				ATP_ARGS(atp_text_arg(a->sub->target), atp_text_arg(a->sub->name), atp_time_arg(atp_time_of_day()),
						 atp_dids_arg(dids, n), atp_array_arg(TEXTOID, values[0], NULL, n),
						 atp_array_arg(TIMESTAMPTZOID, values[1], nulls[1], n),
						 atp_array_arg(INT8OID, values[2], nulls[2], n))) > 0)
	{
		if (atp_jobs_are_past(a->sub->target, a->sub->name))
			delete_requests(a->sub->name, a->sub->target);
		atp_wake_fetcher();
	}
	atp_owner_end(caller);
}

void
atp_request_revs(const AtpSubscription *sub, struct varlena *const *dids, int n)
{
	AtpCaller	caller;

	if (n == 0)
		return;
	caller = atp_as_table_owner("status_request");
	if (atp_run(atp_identity_sql("INSERT INTO atproto.status_request (target, subscription, requested_at, did, why)"
								 " SELECT $1::name, $2, $3, u.did, 'rev' FROM unnest($4) u (did) ORDER BY u.did USING OPERATOR(@.<)"
								 " ON CONFLICT (target, did) DO NOTHING"),
				ATP_ARGS(atp_text_arg(sub->target), atp_text_arg(sub->name), atp_time_arg(atp_time_of_day()), atp_dids_arg(dids, n))) > 0 &&
		atp_jobs_are_past(sub->target, sub->name))
		delete_requests(sub->name, sub->target);
	atp_owner_end(caller);
}

void
atp_status_requests_leave(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("status_request");

	atp_run("UPDATE atproto.status_request w SET subscription = s.name FROM (SELECT DISTINCT ON (target) target, name FROM atproto.subscription"
			"  WHERE name <> $1 AND verify = 'full' AND by_repo AND atproto.role_may_fill(owner, target, target_owner) ORDER BY target, name) s"
			" WHERE w.subscription = $1 AND s.target = w.target AND w.why <> 'rev'", ATP_ARGS(atp_text_arg(name)));
	atp_owner_end(caller);
}

void
atp_status_requests_move(const char *name, const char *target)
{
	AtpCaller	caller;

	atp_status_requests_leave(name);
	caller = atp_as_table_owner("status_request");
	delete_requests(name, target);
	atp_owner_end(caller);
}

void
atp_status_requests_take_from_unentitled(void)
{
	AtpResult	found = atp_query("SELECT name FROM atproto.subscription s WHERE NOT atproto.role_may_fill(owner, target, target_owner)"
								  " AND EXISTS (SELECT FROM atproto.status_request w WHERE w.subscription = s.name AND w.why <> 'rev')", ATP_NO_ARGS);

	for (uint64 i = 0; i < found.n; i++)
		atp_status_requests_leave(atp_get_text(atp_result_row(found, i), "name"));
	atp_result_free(found);
}

bool
atp_status_revs_are_many(const char *name)
{
	AtpResult	found = atp_query("SELECT FROM atproto.status_request w WHERE w.why = 'rev' AND w.answered_at IS NULL AND w.subscription IN"
								  " (SELECT s.name FROM atproto.subscription s JOIN atproto.subscription o ON o.owner = s.owner WHERE o.name = $2)"
								  " OFFSET $1 LIMIT 1", ATP_ARGS(atp_int8_arg((int64) atp_fetch_queue - 1), atp_text_arg(name)));
	bool		many = found.n > 0;

	atp_result_free(found);
	return many;
}

static bool
has_request(const AtpApply *a, struct varlena *did, const char *condition)
{
	AtpCaller	caller = atp_as_table_owner("status_request");
	bool		any = atp_run(atp_identity_sql(psprintf("SELECT FROM atproto.status_request WHERE target = $1::name AND did OPERATOR(@.=) ANY ($2)"
														" AND %s", condition)),
							  ATP_ARGS(atp_text_arg(a->sub->target), atp_dids_arg(&did, 1))) > 0;

	atp_owner_end(caller);
	return any;
}

bool
atp_status_is_answered(const AtpApply *a, struct varlena *did)
{
	return has_request(a, did, "why <> 'rev' AND answered_at IS NOT NULL");
}

bool
atp_status_is_asked(const AtpApply *a, struct varlena *did)
{
	return has_request(a, did, "why = 'deleted' AND answered_at IS NULL");
}
