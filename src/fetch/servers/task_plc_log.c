/*
 * task_plc_log.c
 *		The fetcher's task that asks did:plc directories for logs of accounts (M-11, M-14): rows of
 *		atproto.plc_log_request become requests, and answers are put into the rows.
 *
 * The task claims a row by postponing next_try, so that an account is not asked for again at once if
 * the process ends.  An answer belongs to a row only while requested_at is the same: a row that was
 * written again wants an answer of after that.  The address is that of the subscription's stream at the
 * time of the request.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/clock.h"
#include "common/injection.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "fetch/engine/fetch.h"
#include "fetch/engine/task.h"
#include "identity/identity.h"
#include "tables/plc/plc_request.h"
#include "types/types.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#define ASKED_MAX		8		/* running requests */
#define UNSTORED_MAX	"64"	/* with so many answers that the consumer has not stored, a subscription's directory is not asked */
#define LOOK_MS			250		/* between two looks, if the last look found work */
#define IDLE_LOOK_MS	10000
#define WHOLE_MS		60000
#define CLAIM			"interval '10 min'"
#define WAIT_MIN_MS		1000	/* a row whose host cannot be asked now is due again after this time at the earliest ... */
#define WAIT_MAX_MS		600000	/* ... and after this time at the latest */
#define FAILURES_MAX	20		/* about ten days */

/* A running request, in a memory context of its own. */
typedef struct LogRequest
{
	MemoryContext cxt;
	char	   *id;				/* of the subscription */
	struct varlena *did;
	char	   *url;
	TimestampTz requested_at;
} LogRequest;

static int	nasked;				/* number of running requests; the variable's address is their owner */
static AtpTime looked;
static bool idle;				/* the last look found no work */

/* SQL: the subscriptions s whose directory is asked. */
#define RUNS	"s.enabled AND s.stopped IS NULL"

static bool
logs_wanted(void)
{
	return atp_run("SELECT FROM atproto.plc_log_request r JOIN atproto.subscription s ON s.name = r.subscription"
				   " WHERE r.answer IS NULL AND r.next_try <= $1 AND " RUNS " LIMIT 1", ATP_ARGS(atp_time_arg(atp_time_of_day()))) > 0;
}

static LogRequest *
read_asking(AtpTuple row)
{
	MemoryContext cxt = AllocSetContextCreate(TopMemoryContext, "atproto log of an account", ALLOCSET_SMALL_SIZES);
	MemoryContext old = MemoryContextSwitchTo(cxt);
	LogRequest	   *asking = palloc0(sizeof(LogRequest));

	asking->cxt = cxt;
	asking->id = atp_get_text(row, "id");
	asking->did = atp_get_copy(row, "did", atp_type("did"));
	asking->url = atp_get_text(row, "url");
	asking->requested_at = DatumGetTimestampTz(atp_get_arg(row, "requested_at", TIMESTAMPTZOID).value);
	MemoryContextSwitchTo(old);
	return asking;
}

/* Claims due rows, in turn from the owners of subscriptions: the requests of one role do not delay the requests of another role. */
static List *
claim_rows(TimestampTz now)
{
	List	   *claimed = NIL;
	AtpResult	found;

	found = atp_query(atp_identity_sql("WITH due AS MATERIALIZED (SELECT subscription, did, turn, chance FROM"
									   "  (SELECT w.*, random() AS chance, row_number() OVER (PARTITION BY s.owner ORDER BY w.next_try) AS turn"
									   "   FROM atproto.subscription s CROSS JOIN LATERAL (SELECT r.subscription, r.did, r.next_try FROM atproto.plc_log_request r"
									   "    WHERE r.subscription = s.name AND r.answer IS NULL AND r.next_try <= $1 ORDER BY r.next_try LIMIT $2 FOR UPDATE SKIP LOCKED) w"
									   "   WHERE " RUNS " AND (SELECT count(*) FROM (SELECT FROM atproto.plc_log_request a"
									   "    WHERE a.subscription = s.name AND a.answer IS NOT NULL LIMIT " UNSTORED_MAX ") a) < " UNSTORED_MAX ") w"
									   "  ORDER BY turn, chance LIMIT $2)"
									   " UPDATE atproto.plc_log_request r SET next_try = $1 + " CLAIM " FROM due, atproto.subscription s"
									   " WHERE r.subscription = due.subscription AND r.did OPERATOR(@.=) due.did AND s.name = r.subscription"
									   " RETURNING s.id::text AS id, r.did, r.requested_at,"
									   "  regexp_replace(s.endpoint, '^ws(.*)/export/stream$', 'http\\1') || '/' || r.did || '/log/audit' AS url"),
					  ATP_ARGS(atp_time_arg(now), atp_int8_arg(ASKED_MAX - nasked)));
	for (uint64 i = 0; i < found.n; i++)
		claimed = lappend(claimed, read_asking(atp_result_row(found, i)));
	atp_result_free(found);
	return claimed;
}

/* Changes the row of a request, unless the row was written again. */
static void
change_request(const LogRequest *asking, const char *set, AtpArg value, AtpArg more)
{
	(void) atp_run(atp_identity_sql(psprintf("UPDATE atproto.plc_log_request r SET %s FROM atproto.subscription s WHERE s.id::text = $1"
											 " AND r.subscription = s.name AND r.did OPERATOR(@.=) $2 AND r.requested_at = $3 AND r.answer IS NULL", set)),
				   ATP_ARGS(atp_text_arg(asking->id), atp_did_arg(asking->did), atp_time_arg(asking->requested_at), value, more));
}

/*
 * Outside of the transaction that has claimed the row: a second UPDATE of a row in one transaction checks the row's foreign key, and
 * would wait for a session that removes the subscription and waits for the row.
 */
static void
put_off_request(const LogRequest *asking, TimestampTz now, long wait_ms)
{
	atp_begin("putting off a request for a log");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		change_request(asking, "next_try = $4 + $5 * interval '1 ms'", atp_time_arg(now), atp_int8_arg(Min(Max(wait_ms, WAIT_MIN_MS), WAIT_MAX_MS)));
	atp_commit();
}

/* False: the directory cannot be asked now. */
static bool
ask_directory(LogRequest *asking, TimestampTz now)
{
	long		wait_ms = WAIT_MIN_MS;
	AtpHttp    *http = atp_fetch_start(&(AtpHttpRequest) {
									   .owner = &nasked, .arg = asking, .url = asking->url, .accept = "application/json",
									   .body_max = ATP_PLC_ANSWER_MAX, .whole_ms = WHOLE_MS, .gzip = true, .http2 = true
									   }, NULL, &wait_ms);

	if (http == NULL)
		put_off_request(asking, now, wait_ms);
	return http != NULL;
}

static void
ask_directories(void)
{
	TimestampTz now = atp_time_of_day();
	MemoryContext cxt = CurrentMemoryContext;
	List	   *claimed = NIL;
	ListCell   *cell;

	atp_begin("looking for logs to ask for");
	MemoryContextSwitchTo(cxt);
	if (atp_extension_lock() == ATP_EXTENSION_READY)
		claimed = claim_rows(now);
	if (claimed != NIL)
		ATP_INJECTION_POINT("logs claimed");
	atp_commit();
	foreach(cell, claimed)
	{
		LogRequest	   *asking = lfirst(cell);

		if (ask_directory(asking, now))
			nasked++;
		else
			MemoryContextDelete(asking->cxt);
	}
	idle = claimed == NIL;
}

/* Does the failure say something of this account's log, and not of the host or of the moment? */
static bool
is_about_account(const AtpHttpAnswer *answer)
{
	if (answer->outcome == ATP_HTTP_TOO_LARGE)
		return true;
	return answer->outcome == ATP_HTTP_OK && answer->status >= 400 && answer->status <= 499 && !atp_http_is_later(answer);
}

static void
write_answer(const LogRequest *asking, const AtpHttpAnswer *answer)
{
	AtpArg		now = atp_time_arg(atp_time_of_day());

	if (answer->error == NULL)
		change_request(asking, "answer = $5, answered_at = $4, tries = r.tries + 1, failures = 0, error = NULL", now,
					   (AtpArg) {PointerGetDatum(atp_varlena(answer->body, answer->body_len)), BYTEAOID, false});
	else if (is_about_account(answer))
		change_request(asking, psprintf("error = left($5, 250), answered_at = $4, tries = r.tries + 1, failures = 0,"
										" next_try = CASE WHEN r.tries + 1 < %d THEN $4 + " ATP_PLC_AGAIN " END", ATP_PLC_TRIES),
					   now, atp_text_arg(answer->error));
	else
		change_request(asking, psprintf("error = left($5, 250), answered_at = $4, failures = r.failures + 1, next_try = CASE WHEN r.failures < %d"
										" THEN $4 + LEAST(" ATP_PLC_AGAIN " * power(2, r.failures), interval '1 day') END", FAILURES_MAX),
					   now, atp_text_arg(answer->error));
}

/* Writes the answers of ended requests. */
static void
write_ended(void)
{
	AtpHttp    *http;

	while ((http = atp_fetch_next(&nasked)) != NULL)
	{
		LogRequest	   *asking = atp_http_arg(http);

		atp_begin("writing the log of an account");
		if (atp_extension_lock() == ATP_EXTENSION_READY)
			write_answer(asking, atp_http_answer(http));
		atp_commit();
		atp_fetch_free(http);
		nasked--;
		MemoryContextDelete(asking->cxt);
	}
}

static long
step_logs(AtpTime now)
{
	long		left = looked == 0 ? 0 : atp_remaining(now, looked, LOOK_MS);

	write_ended();
	if (left > 0)
		return left;
	if (nasked < ASKED_MAX)
	{
		looked = now;
		ask_directories();
	}
	return idle ? IDLE_LOOK_MS : LOOK_MS;
}

const AtpTask atp_plc_log_task = {"plc_log", logs_wanted, NULL, step_logs, .kinds = 1};
