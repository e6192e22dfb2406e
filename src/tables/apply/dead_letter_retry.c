/*
 * dead_letter_retry.c
 *		SQL: atproto.retry(), which replays a dead letter.
 *
 * replay.c does the replay; this file finds the letter, locks it, and deletes or updates it by the outcome.
 */
#include "postgres.h"

#include "common/compat.h"
#include "config/extension.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "fmgr.h"
#include "source.h"
#include "tables/apply/replay.h"
#include "tables/base/error_class.h"
#include "tables/base/job.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_retry);

pg_noreturn static void
no_such_letter(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("dead letter " INT64_FORMAT " does not exist", id),
			 errhint("The column \"id\" of \"atproto.dead_letter\" has the numbers. A letter disappears when a retry succeeds, or when its record is replaced.")));
}

/*
 * Lock the letter, so that no concurrent session replays or deletes it.  The lock follows those of the subscription and of
 * the repository's row: other processes lock in the same order, and the reverse order could deadlock.  Returns the letter's superseded_rev.
 */
static uint64
lock_letter(void *arg)
{
	int64		id = *(const int64 *) arg;
	AtpResult	found = atp_query("SELECT superseded_rev FROM atproto.dead_letter WHERE id = $1 FOR UPDATE", ATP_ARGS(atp_int8_arg(id)));
	bool		isnull;
	Datum		rev;

	if (found.n == 0)
		no_such_letter(id);
	rev = atp_get(atp_result_row(found, 0), "superseded_rev", atp_type("tid"), &isnull);
	atp_result_free(found);
	return isnull ? 0 : DatumGetAtpTid(rev);
}

/*
 * Lock the letter's subscription, before the repository (atp_jobs_hold()): a letter about a part of the message, or
 * a request for a status, may refer to it.  The subscription may be renamed meanwhile, and the letter with it.
 */
static const AtpSubscription *
hold_subscription(int64 id, const char *name)
{
	while (!atp_jobs_hold(name))
	{
		AtpResult	found = atp_query("SELECT subscription FROM atproto.dead_letter WHERE id = $1", ATP_ARGS(atp_int8_arg(id)));
		const char *before = name;

		if (found.n == 0)
			no_such_letter(id);
		name = atp_get_text(atp_result_row(found, 0), "subscription");
		/* the letter refers to nothing: a user has dropped the foreign key */
		if (strcmp(name, before) == 0)
			break;
	}
	return atp_subscription_borrow(name, CurrentMemoryContext);
}

/* The stream that the letter's message came from; NULL: the subscription's present stream. */
static const AtpEndpoint *
stream_of(AtpTuple letter)
{
	const char *endpoint = atp_get_text_or_null(letter, "endpoint");

	return endpoint == NULL ? NULL : atp_endpoint_parse(endpoint);
}

static AtpOutcome
try_again(const AtpSubscription *sub, const AtpStreamKind *source, const AtpEndpoint *from, int64 id, bytea *bytes, AtpSpan path, const char **why)
{
	AtpReplay	replay = {
		.sub = sub, .source = source, .from = from, .message = {(const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)}, .path = path,
		.locked = lock_letter, .arg = &id
	};
	volatile AtpOutcome outcome;

	/*
	 * Called by a trigger while this process applies a batch: the batch was judged by the tables' rows, which a replay
	 * would change.  ATP_ERRCODE_STOP, because no row of the batch is to blame.
	 */
	if (atp_statements_in_use())
		ereport(ERROR,
				(errcode(ATP_ERRCODE_STOP),
				 errmsg("dead letters cannot be tried again by a trigger of the tables that are being filled")));
	replay.statements = atp_statements_create(sub->target, ATP_WRITER_OTHER);
	PG_TRY();
	{
		outcome = atp_replay(&replay, why);
	}
	PG_FINALLY();
	{
		atp_statements_free(replay.statements);
	}
	PG_END_TRY();
	return outcome;
}

/* The kind of stream that the message came from; rows of earlier versions lack it, so then the subscription's present kind. */
static const AtpStreamKind *
source_of(AtpTuple letter, const AtpSubscription *sub)
{
	const char *format = atp_get_text_or_null(letter, "format");
	const char *endpoint = atp_get_text_or_null(letter, "endpoint");
	const AtpStreamKind *source = format == NULL || endpoint == NULL ? NULL : atp_stream_kind_of(atp_endpoint_parse(endpoint)->stream, format);

	return source == NULL ? sub->source : source;
}

/* Replay a letter, and delete or update its row.  Returns the outcome as text. */
static const char *
retry_letter(int64 id)
{
	AtpResult	found = atp_query("SELECT d.subscription, d.path, f.bytes, f.format, f.endpoint,"
								  " d.seq IS NULL AND d.stage IN ('record', 'apply') AND d.did IS NOT NULL AS exported FROM atproto.dead_letter d"
								  " LEFT JOIN atproto.dead_frame f ON f.subscription = d.subscription AND f.digest = d.digest"
								  " WHERE d.id = $1", ATP_ARGS(atp_int8_arg(id)));
	const char *why = "it is beyond the repository's share of dead letters: nothing is kept of it";
	AtpTuple	letter;
	const AtpSubscription *sub;
	const char *path;
	bool		beyond;
	Datum		bytes;
	AtpOutcome	outcome;

	if (found.n == 0)
		no_such_letter(id);
	letter = atp_result_row(found, 0);
	bytes = atp_get(letter, "bytes", BYTEAOID, &beyond);
	if (beyond)
		return why;
	if (atp_get_bool(letter, "exported"))
		return "it is of a record in an export: it is tried again with the next export of the repository";
	path = atp_get_text(letter, "path");
	sub = hold_subscription(id, atp_get_text(letter, "subscription"));
	outcome = try_again(sub, source_of(letter, sub), stream_of(letter), id, DatumGetByteaPP(bytes), (AtpSpan) {path, strlen(path)}, &why);
	atp_result_free(found);
	if (outcome == ATP_OUTCOME_STAYS)
		atp_run("UPDATE atproto.dead_letter SET attempts = attempts + 1, last_at = now(), message = $2 WHERE id = $1",
				ATP_ARGS(atp_int8_arg(id), atp_text_arg(why)));
	else
		atp_run("DELETE FROM atproto.dead_letter WHERE id = $1", ATP_ARGS(atp_int8_arg(id)));
	return outcome == ATP_OUTCOME_STAYS ? why : outcome == ATP_OUTCOME_APPLIED ? "applied" : "obsolete";
}

/* SQL: atproto.retry(id) */
Datum
atp_retry(PG_FUNCTION_ARGS)
{
	MemoryContext caller_cxt = CurrentMemoryContext;
	int			nest;
	char	   *why;

	SPI_connect();
	nest = atp_caller_begin();
	why = MemoryContextStrdup(caller_cxt, retry_letter(PG_GETARG_INT64(0)));
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(why));
}
