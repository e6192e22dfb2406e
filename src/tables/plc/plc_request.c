/*
 * plc_request.c
 *		The queue atproto.plc_log_request: see plc_request.h.
 */
#include "postgres.h"

#include "common/clock.h"
#include "common/quotable.h"
#include "config/extension.h"
#include "config/option.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/wake.h"
#include "core/syntax/did.h"
#include "fmgr.h"
#include "identity/identity.h"
#include "identity/identity_request.h"
#include "source.h"
#include "stream/filter.h"
#include "tables/base/table.h"
#include "tables/plc/plc_request.h"
#include "types/types.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_plc_ask);

/* A request because of an unknown operation is kept for this time after the last answer, so that not each entry causes a request. */
#define KEPT	"interval '1 day'"

/* SQL: the time before which an account is not asked for again, by the row r. */
#define LATER	"r.answered_at + LEAST(" ATP_PLC_AGAIN " * power(2, LEAST(r.tries + r.failures, 20)), " KEPT ")"

static AtpArg
now_arg(void)
{
	return atp_time_arg(atp_time_of_day());
}

/* SQL: has the row neither an answer to be stored, nor a time when the directory is asked again? */
#define IS_OVER	"answer IS NULL AND next_try IS NULL"

/*
 * How many more accounts may have a request because of an unknown operation; old requests go.  over: do requests count that are over?  The
 * stream may not bring more accounts than the limit in a day, but a user may ask for more.
 */
static int64
free_places(const AtpSubscription *sub, bool over)
{
	AtpResult	found;
	int64		there;

	(void) atp_run("DELETE FROM atproto.plc_log_request WHERE subscription = $1 AND why = 'prev'"
				   " AND " IS_OVER " AND answered_at < $2 - " KEPT, ATP_ARGS(atp_text_arg(sub->name), now_arg()));
	found = atp_query("SELECT count(*) AS n FROM (SELECT FROM atproto.plc_log_request WHERE subscription = $1 AND why = 'prev'"
					  " AND ($3 OR NOT (" IS_OVER ")) LIMIT $2) r",
					  ATP_ARGS(atp_text_arg(sub->name), atp_int8_arg(atp_queue_limit), atp_bool_arg(over)));
	there = atp_get_int8(atp_result_row(found, 0), "n");
	atp_result_free(found);
	return atp_queue_limit - there;
}

/* Sets open[i] if account i has an open request; returns the number of such accounts. */
static int
find_open(AtpArg name, struct varlena *const *dids, int n, bool *open)
{
	AtpResult	found = atp_query(atp_identity_sql("SELECT u.n::int4 AS n FROM unnest($2) WITH ORDINALITY u (did, n) JOIN atproto.plc_log_request r"
												   " ON r.subscription = $1 AND r.did OPERATOR(@.=) u.did WHERE r.answer IS NOT NULL OR r.next_try IS NOT NULL"),
								  ATP_ARGS(name, atp_dids_arg(dids, n)));
	int			nopen = (int) found.n;

	for (int i = 0; i < n; i++)
		open[i] = false;
	for (int i = 0; i < nopen; i++)
		open[atp_get_int4(atp_result_row(found, i), "n") - 1] = true;
	atp_result_free(found);
	return nopen;
}

int
atp_plc_request_logs(const AtpSubscription *sub, struct varlena *const *dids, int n, bool *open)
{
	AtpCaller	caller = atp_as_table_owner("plc_log_request");
	AtpArg		name = atp_text_arg(sub->name);
	int			nopen;

	(void) atp_run(atp_identity_sql("UPDATE atproto.plc_log_request r SET requested_at = $3, error = NULL,"
									" next_try = GREATEST($3, " LATER ")"
									" WHERE r.subscription = $1 AND r.did OPERATOR(@.=) ANY ($2) AND r.answer IS NULL AND r.next_try IS NULL"),
				   ATP_ARGS(name, atp_dids_arg(dids, n), now_arg()));
	(void) atp_run(atp_identity_sql("INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at, next_try)"
									" SELECT $1, u.did, 'prev', $3, $3 FROM unnest($2) u (did) WHERE NOT EXISTS"
									"  (SELECT FROM atproto.plc_log_request r WHERE r.subscription = $1 AND r.did OPERATOR(@.=) u.did)"
									" ORDER BY u.did USING OPERATOR(@.<) LIMIT $4"
									" ON CONFLICT (subscription, did) DO NOTHING"),
				   ATP_ARGS(name, atp_dids_arg(dids, n), now_arg(), atp_int8_arg(Max(free_places(sub, true), 0))));
	nopen = find_open(name, dids, n, open);
	atp_wake_fetcher();
	atp_owner_end(caller);
	return nopen;
}

/* The accounts that the subscription names, as far as the method is plc; NULL: no account is named. */
static struct varlena **
named_accounts(const AtpSettings *settings, int *n)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(settings->ndids, 1));

	*n = 0;
	for (int i = 0; i < settings->ndids; i++)
	{
		const struct varlena *did = settings->dids[i];
		char		text[ATP_DID_MAX];
		size_t		len = atp_did_copy(did, text);

		if (atp_did_is_plc(text, len) && atp_wants_did(settings, did))
			dids[(*n)++] = settings->dids[i];
	}
	return dids;
}

void
atp_plc_request_named(const AtpSubscription *sub, bool all)
{
	AtpCaller	caller = atp_as_table_owner("plc_log_request");
	AtpArg		name = atp_text_arg(sub->name);
	int			n;
	struct varlena **dids = named_accounts(&sub->settings, &n);
	uint64		changed;

	(void) atp_run(atp_identity_sql("DELETE FROM atproto.plc_log_request WHERE subscription = $1 AND (why = 'dids' OR $3) AND NOT did OPERATOR(@.=) ANY ($2)"),
				   ATP_ARGS(name, atp_dids_arg(dids, n), atp_bool_arg(sub->settings.ndids >= 0)));
	changed = n == 0 ? 0 :
		atp_run(atp_identity_sql("INSERT INTO atproto.plc_log_request AS r (subscription, did, why, requested_at, next_try)"
								 " SELECT $1, u.did, 'dids', $3, $3 FROM unnest($2) u (did) ORDER BY u.did USING OPERATOR(@.<)"
								 " ON CONFLICT (subscription, did) DO UPDATE SET why = 'dids', requested_at = $3, next_try = $3,"
								 "  answer = NULL, tries = 0, failures = 0, error = NULL WHERE $4 OR r.why <> 'dids'"),
				ATP_ARGS(name, atp_dids_arg(dids, n), now_arg(), atp_bool_arg(all)));
	if (changed > 0)
		atp_wake_fetcher();
	atp_owner_end(caller);
}

int64
atp_plc_request_again(const char *name)
{
	AtpCaller	caller = atp_as_table_owner("plc_log_request");
	int64		asked;

	asked = atp_run("UPDATE atproto.plc_log_request SET requested_at = $2, next_try = $2, answer = NULL, tries = 0, failures = 0, error = NULL"
				" WHERE subscription = $1 AND why = 'dids'", ATP_ARGS(atp_text_arg(name), now_arg()));
	if (asked > 0)
		atp_wake_fetcher();
	atp_owner_end(caller);
	return asked;
}

/* Asks for the logs of these accounts, whatever was asked before; returns for how many, within the limit. */
static int64
ask_now(const AtpSubscription *sub, Datum *dids, int n)
{
	AtpCaller	caller = atp_as_table_owner("plc_log_request");
	AtpArg		accounts = atp_array_arg(atp_type("did"), dids, NULL, n);
	int64		asked;

	asked = atp_run(atp_identity_sql("UPDATE atproto.plc_log_request r SET requested_at = $3, next_try = $3, answer = NULL, tries = 0, failures = 0,"
									 " error = NULL WHERE r.subscription = $1 AND r.did OPERATOR(@.=) ANY ($2)"),
					ATP_ARGS(atp_text_arg(sub->name), accounts, now_arg()));
	asked += atp_run(atp_identity_sql("INSERT INTO atproto.plc_log_request (subscription, did, why, requested_at, next_try)"
									  " SELECT $1, u.did, 'prev', $3, $3 FROM unnest($2) u (did) WHERE NOT EXISTS"
									  "  (SELECT FROM atproto.plc_log_request r WHERE r.subscription = $1 AND r.did OPERATOR(@.=) u.did)"
									  " ORDER BY u.did USING OPERATOR(@.<) LIMIT $4 ON CONFLICT (subscription, did) DO NOTHING"),
					 ATP_ARGS(atp_text_arg(sub->name), accounts, now_arg(), atp_int8_arg(Max(free_places(sub, false), 0))));
	atp_wake_fetcher();
	atp_owner_end(caller);
	return asked;
}

static Datum *
take_dids(AtpResult found, int *n)
{
	Datum	   *dids = palloc(sizeof(Datum) * Max(found.n, 1));

	*n = (int) found.n;
	for (uint64 i = 0; i < found.n; i++)
		dids[i] = PointerGetDatum(atp_get_copy(atp_result_row(found, i), "did", atp_type("did")));
	atp_result_free(found);
	return dids;
}

/* The accounts with a request, in the order in which the directory has been asked for them. */
static AtpArg
asked_before(const AtpSubscription *sub)
{
	AtpCaller	caller = atp_as_table_owner("plc_log_request");
	int			n;
	Datum	   *dids = take_dids(atp_query("SELECT did FROM atproto.plc_log_request WHERE subscription = $1 ORDER BY answered_at",
										   ATP_ARGS(atp_text_arg(sub->name))), &n);

	atp_owner_end(caller);
	return atp_array_arg(atp_type("did"), dids, NULL, n);
}

/*
 * Accounts with entries that follow an unknown operation, read with the caller's rights, at most atproto.queue_limit: first accounts
 * without a request, so that accounts of which no log comes do not keep out the others.
 */
static Datum *
accounts_with_letters(const AtpSubscription *sub, int *n)
{
	return take_dids(atp_query(atp_expand_sql("SELECT r.did FROM (SELECT DISTINCT did FROM #.plc_refused WHERE reason = 'prev' AND did IS NOT NULL) r"
											  " LEFT JOIN unnest($2) WITH ORDINALITY a (did, n) ON a.did OPERATOR(@.=) r.did"
											  " ORDER BY a.n NULLS FIRST LIMIT $1", sub->target),
							   ATP_ARGS(atp_int8_arg(atp_queue_limit), asked_before(sub))), n);
}

/* SQL: atproto.plc_ask(subscription, did) */
Datum
atp_plc_ask(PG_FUNCTION_ARGS)
{
	char	   *name;
	AtpSubscription *sub;
	int64		asked;
	Datum		did = PG_ARGISNULL(1) ? (Datum) 0 : PG_GETARG_DATUM(1);
	Datum	   *dids = &did;
	int			n = 1;

	if (PG_ARGISNULL(0))
		atp_argument_is_null("subscription");
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	SPI_connect();
	/* an error about the caller's privileges comes first; the update has the consumer look for answers */
	if (atp_run_unnamed("UPDATE atproto.subscription SET enabled = enabled WHERE name = $1", ATP_ARGS(atp_text_arg(name))) == 0 ||
		(sub = atp_subscription_get(name, CurrentMemoryContext)) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("subscription \"%s\" does not exist", atp_quotable(name)),
				 errhint("The view \"%s\" has the names.", "atproto.stat_subscription")));
	if (sub->source->pages == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subscription \"%s\" follows no directory of did:plc", atp_quotable(name))));
	if (PG_ARGISNULL(1) && sub->settings.ndids >= 0)
		asked = atp_plc_request_again(name);
	else
	{
		if (PG_ARGISNULL(1))
			dids = accounts_with_letters(sub, &n);
		asked = ask_now(sub, dids, n);
	}
	SPI_finish();
	PG_RETURN_INT64(asked);
}
