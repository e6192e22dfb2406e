/*
 * handle_check.c
 *		Rows about the check of handles: see handle_check.h.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/clock.h"
#include "config/extension.h"
#include "config/spi.h"
#include "identity/handle_check.h"
#include "identity/identity.h"
#include "utils/timestamp.h"

static const char *const state_names[] = {
	[ATP_HANDLE_UNKNOWN] = "unknown",
	[ATP_HANDLE_VALID] = "valid",
	[ATP_HANDLE_INVALID] = "invalid",
	[ATP_HANDLE_UNREACHABLE] = "unreachable",
};

/*
 * Condition: no look-up of the account's document is queued or running.  A running look-up may bring a
 * document with a different handle, so the check waits for the look-up.
 */
#define NOT_BEING_READ \
	" NOT EXISTS (SELECT FROM atproto.identity_request r WHERE r.did OPERATOR(@.=) w.did AND NOT r.failed)"

bool
atp_handles_are_wanted(void)
{
	AtpResult	found = atp_query("SELECT EXISTS (SELECT FROM atproto.handle_request)"
								  " OR EXISTS (SELECT FROM atproto.handle_lookup WHERE answered_at IS NULL)"
								  " OR EXISTS (SELECT FROM atproto.subscription WHERE handles = 'verify' AND enabled) AS wanted",
								  ATP_NO_ARGS);
	bool		wanted = atp_get_bool(atp_result_row(found, 0), "wanted");

	atp_result_free(found);
	return wanted;
}

static AtpHandleState
read_state(AtpTuple row)
{
	const char *name = atp_get_text(row, "handle_state");

	for (int i = 0; i < lengthof(state_names); i++)
		if (strcmp(name, state_names[i]) == 0)
			return i;
	elog(ERROR, "unknown state \"%s\" of a handle", name);
}

int
atp_handles_due(TimestampTz now, int max, AtpHandleCheck *due, bool *all)
{
	AtpResult	found;
	int			n;

	found = atp_query("SELECT EXISTS (SELECT FROM atproto.subscription WHERE handles = 'verify' AND enabled) AS all_of_them",
					  ATP_NO_ARGS);
	*all = atp_get_bool(atp_result_row(found, 0), "all_of_them");
	atp_result_free(found);

	/* drop requests for accounts whose document was read and claims no handle: there is no domain to ask */
	atp_run(atp_identity_sql("DELETE FROM atproto.handle_request w USING atproto.identity i WHERE i.did OPERATOR(@.=) w.did"
							 " AND i.handle_claimed IS NULL AND i.asked_at IS NOT NULL AND" NOT_BEING_READ),
			ATP_NO_ARGS);
	/* the roles take turns: a role may have asked for atproto.queue_limit checks before another role asks for one */
	found = atp_query(atp_identity_sql("(SELECT i.did, i.handle_claimed::text AS handle, i.handle_state, i.handle_checked_at, i.handle_tries"
									   " FROM (SELECT did, min(next_try) AS next_try, min(turn) AS turn FROM"
									   "  (SELECT did, next_try, row_number() OVER (PARTITION BY role ORDER BY next_try) AS turn"
									   "   FROM atproto.handle_request WHERE next_try <= $2) h GROUP BY did) w"
									   " JOIN atproto.identity i ON i.did OPERATOR(@.=) w.did"
									   " WHERE i.handle_claimed IS NOT NULL"
									   " AND" NOT_BEING_READ
									   " ORDER BY w.turn, w.next_try LIMIT $3) UNION ALL "
									   "(SELECT did, handle_claimed::text, handle_state, handle_checked_at, handle_tries"
									   " FROM atproto.identity w"
									   " WHERE $1 AND handle_next <= $2 AND handle_claimed IS NOT NULL AND" NOT_BEING_READ
									   " ORDER BY handle_next LIMIT $3) LIMIT $3"),
					  ATP_ARGS((AtpArg) {BoolGetDatum(*all), BOOLOID}, atp_time_arg(now),
							   atp_int8_arg(max)));
	n = found.n;
	for (int i = 0; i < n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);
		bool		isnull;
		Datum		did = atp_get(row, "did", atp_type("did"), &isnull);
		Datum		checked_at = atp_get(row, "handle_checked_at", TIMESTAMPTZOID, &isnull);

		due[i] = (AtpHandleCheck) {
			.did = PG_DETOAST_DATUM_COPY(did),
			.handle = atp_get_text(row, "handle"),
			.state = read_state(row),
			.checked_at = isnull ? DT_NOBEGIN : DatumGetTimestampTz(checked_at),
			.tries = atp_get_int4(row, "handle_tries")
		};
	}
	atp_result_free(found);
	return n;
}

void
atp_handle_write(const AtpHandleCheck *check)
{
	AtpArg		did = atp_did_arg(check->did);

	atp_run(atp_identity_sql("UPDATE atproto.identity SET handle_state = $3, handle_checked_at = $4, handle_next = $5,"
							 "  handle_tries = $6, handle_error = $7"
							 " WHERE did OPERATOR(@.=) $1 AND handle_claimed::text = $2"),
			ATP_ARGS(did, atp_text_arg(check->handle), atp_text_arg(state_names[check->state]),
					 (AtpArg) {TimestampTzGetDatum(check->checked_at), TIMESTAMPTZOID, check->checked_at == DT_NOBEGIN},
					 atp_time_arg(check->next),
					 atp_int4_arg(check->tries), atp_text_arg(check->error)));
	/* if the document claims a different handle by now, the request stays, and the new handle is checked */
	atp_run(atp_identity_sql("DELETE FROM atproto.handle_request w USING atproto.identity i"
							 " WHERE w.did OPERATOR(@.=) $1 AND i.did OPERATOR(@.=) w.did AND i.handle_claimed::text = $2"),
			ATP_ARGS(did, atp_text_arg(check->handle)));
}

int
atp_handle_lookups_due(TimestampTz now, int max, AtpHandleCheck *due)
{
	AtpResult	found;
	int			n;

	/* a session asks every few milliseconds whether the answer has come, or has ended */
	atp_run("DELETE FROM atproto.handle_lookup WHERE requested_at < $1 - interval '1 h' OR answered_at < $1 - interval '1 minute'", ATP_ARGS(atp_time_arg(now)));
	found = atp_query(atp_identity_sql("SELECT handle::text AS handle FROM (SELECT handle, min(turn) AS turn FROM"
									   " (SELECT handle, row_number() OVER (PARTITION BY role ORDER BY requested_at) AS turn"
									   "  FROM atproto.handle_lookup WHERE answered_at IS NULL AND next_try <= $1) l GROUP BY handle) w"
									   " ORDER BY w.turn LIMIT $2"),
					  ATP_ARGS(atp_time_arg(now), atp_int8_arg(max)));
	n = found.n;
	for (int i = 0; i < n; i++)
		due[i] = (AtpHandleCheck) {.handle = atp_get_text(atp_result_row(found, i), "handle"), .checked_at = DT_NOBEGIN};
	atp_result_free(found);
	return n;
}

void
atp_handle_lookup_write(const AtpHandleCheck *check, const struct varlena *found)
{
	atp_run("UPDATE atproto.handle_lookup SET did = $2, error = $3, answered_at = $4 WHERE handle::text = $1 AND answered_at IS NULL",
			ATP_ARGS(atp_text_arg(check->handle), atp_did_arg(found), atp_text_arg(check->error), atp_time_arg(atp_time_of_day())));
}

void
atp_handle_put_off(const AtpHandleCheck *check, TimestampTz until)
{
	AtpArg		did = atp_did_arg(check->did);
	AtpArg		time = atp_time_arg(until);

	if (check->did == NULL)
	{
		atp_run("UPDATE atproto.handle_lookup SET next_try = $2 WHERE handle::text = $1 AND answered_at IS NULL",
				ATP_ARGS(atp_text_arg(check->handle), time));
		return;
	}

	atp_run(atp_identity_sql("UPDATE atproto.identity SET handle_next = $3 WHERE did OPERATOR(@.=) $1 AND handle_claimed::text = $2"
							 " AND handle_next < $3"),
			ATP_ARGS(did, atp_text_arg(check->handle), time));
	atp_run(atp_identity_sql("UPDATE atproto.handle_request SET next_try = $2 WHERE did OPERATOR(@.=) $1"), ATP_ARGS(did, time));
}
