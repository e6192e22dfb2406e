/*
 * plc_answer.c
 *		Logs of accounts, as a did:plc directory has answered: see plc_answer.h.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "config/extension.h"
#include "config/spi.h"
#include "config/target.h"
#include "config/transaction.h"
#include "config/wake.h"
#include "core/codec/json.h"
#include "core/plc/plc_order.h"
#include "executor/spi.h"
#include "identity/identity.h"
#include "miscadmin.h"
#include "stream/filter.h"
#include "stream/plc_entries.h"
#include "tables/base/error_class.h"
#include "tables/base/progress.h"
#include "tables/apply/plc_answer.h"
#include "tables/plc/plc_request.h"
#include "tables/plc/plc_tables.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#define LOOK_MS			1000
#define ANSWERS_MAX		"64"	/* answers of a step */
#define ANSWERS_BYTES	"1048576"	/* bytes of the answers of a step; an answer with more bytes is a step of its own */

/* The answer about an account. */
typedef struct LogAnswer
{
	struct varlena *did;
	TimestampTz requested_at;	/* the row has been written again, if this differs */
	AtpBytes	text;
	bool		unwanted;		/* the subscription does not follow the account any more */
	const char *fault;			/* NULL: the answer is a log of the account */
	int			first;			/* events of the batch */
	int			n;
} LogAnswer;

/* LogAnswers as a batch, and their progress (progress.h): the end of the requests. */
typedef struct LogAnswers
{
	AtpProgress base;
	const AtpSubscription *sub;
	AtpBatch   *batch;
	int			layout;
	int			n;
	LogAnswer	   *answers;
	AtpSkipsWritten skips;
	bool		written;		/* skips of the present transaction are written */
} LogAnswers;

/* ------------------------------------------------------------------------
 * From rows to a batch
 * ------------------------------------------------------------------------
 */

static int
compare_answers(const void *a, const void *b)
{
	return atp_compare_dids(((const LogAnswer *) a)->did, ((const LogAnswer *) b)->did);
}

/* Sorted by account. */
static void
read_answers(LogAnswers *in)
{
	AtpCaller	caller = atp_as_table_owner("plc_log_request");
	AtpResult	found = atp_query("SELECT did, requested_at, answer FROM"
								  " (SELECT r.*, row_number() OVER w AS n, sum(octet_length(answer)) OVER w AS bytes FROM"
								  "  (SELECT did, requested_at, answered_at, answer FROM atproto.plc_log_request"
								  "   WHERE subscription = $1 AND answer IS NOT NULL ORDER BY answered_at LIMIT " ANSWERS_MAX ") r"
								  "  WINDOW w AS (ORDER BY answered_at ROWS UNBOUNDED PRECEDING)) r"
								  " WHERE n = 1 OR bytes <= " ANSWERS_BYTES, ATP_ARGS(atp_text_arg(in->sub->name)));

	in->answers = palloc0(sizeof(LogAnswer) * Max(found.n, 1));
	in->n = (int) found.n;
	for (uint64 i = 0; i < found.n; i++)
	{
		AtpTuple	row = atp_result_row(found, i);
		struct varlena *text = atp_get_copy(row, "answer", BYTEAOID);

		in->answers[i].did = atp_get_copy(row, "did", atp_type("did"));
		in->answers[i].requested_at = DatumGetTimestampTz(atp_get_arg(row, "requested_at", TIMESTAMPTZOID).value);
		in->answers[i].text = (AtpBytes) {(const uint8_t *) VARDATA_ANY(text), VARSIZE_ANY_EXHDR(text)};
		in->answers[i].unwanted = !atp_wants_did(&in->sub->settings, in->answers[i].did);
	}
	atp_result_free(found);
	atp_owner_end(caller);
	qsort(in->answers, in->n, sizeof(LogAnswer), compare_answers);
}

/* Adds an event for an entry.  False: the entry is no entry of this account. */
static bool
add_entry(AtpBatch *batch, const LogAnswer *answer, AtpBytes entry, int64 seq)
{
	static const AtpSettings all = {.ndids = -1};
	AtpEvent   *event;
	AtpErr		err;
	size_t		at;

	if (batch->nevents >= ATP_BATCH_EVENTS && (batch->nevents & (batch->nevents - 1)) == 0)
		batch->events = repalloc_huge(batch->events, sizeof(AtpEvent) * 2 * batch->nevents);
	event = memset(&batch->events[batch->nevents], 0, sizeof(AtpEvent));
	event->seq = seq;
	event->message = entry;
	event->first_row = batch->nrows;
	if (!atp_plc_make_entry(&all, batch, event, &err, &at))
		return false;
	batch->nevents++;
	return atp_compare_dids(event->did, answer->did) == 0;
}

/* Adds the events of a log; returns what is wrong with the answer, or NULL. */
static const char *
add_log(AtpBatch *batch, const LogAnswer *answer)
{
	AtpJsonReader r;
	AtpJsonItem item;
	size_t		at;
	AtpErr		err;
	int			n = 0;

	atp_json_init(&r, (const char *) answer->text.ptr, answer->text.len, ATP_JSON_DEPTH_DEFAULT);
	if (atp_json_next(&r, &item, &at) != ATP_OK || item.kind != ATP_JSON_ARRAY)
		return "The answer is no list of entries.";
	while ((err = atp_json_next(&r, &item, &at)) == ATP_OK && item.kind != ATP_JSON_END)
	{
		CHECK_FOR_INTERRUPTS();
		if (atp_json_measure(&r, &item, &at) != ATP_OK || item.kind != ATP_JSON_OBJECT)
			return "The answer is no list of entries.";
		if (++n > ATP_PLC_ENTRIES_MAX)
			return "The answer has too many entries.";
		if (!add_entry(batch, answer, (AtpBytes) {(const uint8_t *) item.raw.ptr, item.raw.len}, 0))
			return "The answer has an entry of another account.";
	}
	if (err != ATP_OK || atp_json_next(&r, &item, &at) != ATP_E_JSON_END)
		return "The answer is no list of entries.";
	/* M-14: a directory that has the account has a genesis */
	return n == 0 ? "The answer has no entry." : NULL;
}

/* M-11: puts the account's events into the order in which they can be judged; of equal operations, the first that could hold stays. */
static void
order_events(AtpBatch *batch, LogAnswer *answer)
{
	AtpEvent   *events = &batch->events[answer->first];
	uint32_t	n = answer->n;
	AtpPlcUnordered *operations = palloc_extended(sizeof(AtpPlcUnordered) * Max(n, 1), MCXT_ALLOC_HUGE);
	uint32_t   *order = palloc_extended(sizeof(uint32_t) * Max(n, 1), MCXT_ALLOC_HUGE);
	AtpEvent   *copy = palloc_extended(sizeof(AtpEvent) * Max(n, 1), MCXT_ALLOC_HUGE);
	void	   *room = palloc_extended(atp_plc_order_room(n), MCXT_ALLOC_HUGE);

	for (uint32_t i = 0; i < n; i++)
	{
		const AtpPlcRow *row = &batch->rows[events[i].first_row].plc;
		bool		is_whole = row->op != NULL && row->err == ATP_OK;	/* an entry with a wrong "cid" hides no other entry */

		operations[i] = (AtpPlcUnordered) {
			.cid = is_whole ? row->op->cid : NULL, .prev = is_whole && row->op->has_prev ? row->op->prev : NULL,
			.created_at = row->created_at
		};
	}
	memcpy(copy, events, sizeof(AtpEvent) * n);
	answer->n = atp_plc_order(operations, n, room, order);
	for (int i = 0; i < answer->n; i++)
		events[i] = copy[order[i]];
	batch->nevents = answer->first + answer->n;
	pfree(room);
	pfree(copy);
	pfree(order);
	pfree(operations);
}

/* Adds the entries of this account; a user may have altered the rows. */
static void
add_entries(AtpBatch *batch, const LogAnswer *answer, int index, const AtpPlcEntries *in, bool stored)
{
	for (int i = 0; i < in->n; i++)
	{
		const AtpPlcStoredEntry *entry = &in->entries[i];
		int			before = batch->nevents;

		if (entry->account == index && (!add_entry(batch, answer, entry->text, entry->seq) ||
										(stored && batch->rows[batch->events[before].first_row].plc.err != ATP_OK)))
			batch->nevents = before;
	}
}

/*
 * The events of an answer: stored operations come first, because the time that came first counts (M-10), then waiting entries, because
 * these have sequence numbers.  The answer may be older than the stored operations, and the log has to be judged as a whole (plc_sink.c).
 */
static void
add_answer(AtpBatch *batch, LogAnswer *answer, int index, const AtpPlcEntries *waiting, const AtpPlcEntries *stored)
{
	int			rows = batch->nrows;

	answer->first = batch->nevents;
	if (answer->unwanted)
		return;
	add_entries(batch, answer, index, stored, true);
	add_entries(batch, answer, index, waiting, false);
	answer->fault = add_log(batch, answer);
	if (answer->fault != NULL)
	{
		batch->nevents = answer->first;
		batch->nrows = rows;
		return;
	}
	answer->n = batch->nevents - answer->first;
	order_events(batch, answer);
}

/* Reads answers into the batch, with the waiting entries of their accounts: the target's tables are read, with the owner's rights. */
static void
read_batch(LogAnswers *in, AtpStatements *set)
{
	struct varlena **dids;
	AtpPlcEntries waiting;
	AtpPlcEntries stored;
	char	   *fault;

	if ((fault = atp_target_fault_since(in->sub->owner, in->sub->target, in->sub->target_owner)) != NULL)
		ereport(ERROR, (errcode(ATP_ERRCODE_STOP), errmsg("%s", fault)));
	read_answers(in);
	dids = palloc(sizeof(struct varlena *) * Max(in->n, 1));
	for (int i = 0; i < in->n; i++)
		dids[i] = in->answers[i].did;
	if (in->n == 0)
		return;
	waiting = atp_plc_read_waiting(set, dids, in->n);
	stored = atp_plc_read_stored(set, dids, in->n);
	for (int i = 0; i < in->n; i++)
		add_answer(in->batch, &in->answers[i], i, &waiting, &stored);
}

/* ------------------------------------------------------------------------
 * The progress: requests end
 * ------------------------------------------------------------------------
 */

static int64
reach_of_answers(AtpProgress *progress, const AtpApply *a)
{
	return PG_INT64_MAX;
}

static AtpArg
requested_arg(const LogAnswers *in)
{
	Datum	   *times = palloc(sizeof(Datum) * in->n);

	for (int i = 0; i < in->n; i++)
		times[i] = TimestampTzGetDatum(in->answers[i].requested_at);
	return atp_array_arg(TIMESTAMPTZOID, times, NULL, in->n);
}

static AtpArg
accounts_arg(const LogAnswers *in)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * in->n);

	for (int i = 0; i < in->n; i++)
		dids[i] = in->answers[i].did;
	return atp_dids_arg(dids, in->n);
}

/* SQL: the rows r of the answers; $1: the subscription, $2: accounts, $3: times of the requests. */
#define THE_ROWS 	" atproto.plc_log_request r JOIN unnest($2, $3) u (did, at) ON r.did OPERATOR(@.=) u.did AND r.requested_at = u.at" 	" WHERE r.subscription = $1 AND r.answer IS NOT NULL"

static uint64
run_on_rows(const LogAnswers *in, const char *sql)
{
	return atp_run(atp_identity_sql(sql), ATP_ARGS(atp_text_arg(in->sub->name), accounts_arg(in), requested_arg(in)));
}

/* The target, or its name, may have changed since this process read the subscription. */
static bool
has_same_target(const LogAnswers *in)
{
	return atp_run("SELECT FROM atproto.cursor WHERE subscription = $1 AND endpoint = $2 AND shard = 0 AND layout = $3",
				   ATP_ARGS(atp_text_arg(in->sub->name), atp_text_arg(in->sub->ep->scope), atp_int4_arg(in->layout))) > 0;
}

static AtpLocked
lock_requests(AtpProgress *progress, const AtpApply *a, bool letters)
{
	const LogAnswers *in = (const LogAnswers *) progress;
	AtpCaller	caller = atp_as_table_owner("plc_log_request");
	AtpLocked	locked = ATP_LOCKED_NOTHING;

	if (run_on_rows(in, "SELECT FROM" THE_ROWS) == in->n && has_same_target(in))
	{
		locked = ATP_LOCKED_BY_OTHERS;
		if (run_on_rows(in, "SELECT FROM" THE_ROWS " FOR UPDATE OF r SKIP LOCKED") == in->n &&
			(!letters || atp_run("SELECT FROM atproto.subscription WHERE name = $1 FOR KEY SHARE SKIP LOCKED",
								 ATP_ARGS(atp_text_arg(in->sub->name))) > 0))
			locked = ATP_LOCKED;
	}
	atp_owner_end(caller);
	return locked;
}

/* Waits in two transactions: a session that has locked a request may want the subscription. */
static bool
await_requests(AtpProgress *progress, const AtpApply *a)
{
	const LogAnswers *in = (const LogAnswers *) progress;
	AtpCaller	caller;
	bool		there = false;

	for (int i = 0; i < 2; i++)
	{
		atp_begin("waiting for a change of requests for logs");
		if (atp_extension_lock() == ATP_EXTENSION_READY)
		{
			caller = atp_as_table_owner("plc_log_request");
			there = i == 0 ? run_on_rows(in, "SELECT FROM" THE_ROWS " FOR UPDATE OF r") == in->n
				: there && atp_run("SELECT FROM atproto.subscription WHERE name = $1 FOR KEY SHARE", ATP_ARGS(atp_text_arg(in->sub->name))) > 0;
			atp_owner_end(caller);
		}
		atp_commit();
	}
	return there;
}

/* Does an operation of the account follow an unknown operation even now? */
static bool
lacks_operations(const LogAnswers *in, const LogAnswer *answer)
{
	for (int i = answer->first; i < answer->first + answer->n; i++)
		if (in->batch->events[i].verdict.judged == ATP_JUDGED_HELD)
			return true;
	return false;
}

/*
 * M-11: a log that lacks an operation may be older than the stream, so the directory is asked once more; then the entries stay in
 * plc_refused.  A request whose answer has all operations is removed.  A request in vain stays for a day, so that the account is
 * not asked for at each entry; a request for an account of "dids" stays.
 */
static void
end_requests(const LogAnswers *in)
{
	Datum	   *again = palloc(sizeof(Datum) * in->n);
	Datum	   *errors = palloc(sizeof(Datum) * in->n);
	bool	   *no_error = palloc(sizeof(bool) * in->n);
	Datum	   *unwanted = palloc(sizeof(Datum) * in->n);
	AtpCaller	caller = atp_as_table_owner("plc_log_request");

	for (int i = 0; i < in->n; i++)
	{
		const LogAnswer *answer = &in->answers[i];

		again[i] = BoolGetDatum(answer->fault != NULL || lacks_operations(in, answer));
		no_error[i] = answer->fault == NULL;
		errors[i] = no_error[i] ? (Datum) 0 : CStringGetTextDatum(answer->fault);
		unwanted[i] = BoolGetDatum(answer->unwanted);
	}
	(void) atp_run(atp_identity_sql("WITH u AS (SELECT * FROM unnest($2, $3, $4, $5, $6) u (did, at, again, error, unwanted)),"
									" d AS (DELETE FROM atproto.plc_log_request r USING u WHERE r.subscription = $1 AND r.did OPERATOR(@.=) u.did"
									"  AND r.requested_at = u.at AND (u.unwanted OR (r.why = 'prev' AND NOT u.again)))"
									" UPDATE atproto.plc_log_request r SET answer = NULL, error = u.error,"
									"  next_try = CASE WHEN u.again AND r.tries < $7 THEN r.answered_at + " ATP_PLC_AGAIN " END"
									"  FROM u WHERE r.subscription = $1 AND r.did OPERATOR(@.=) u.did AND r.requested_at = u.at"
									"  AND NOT (u.unwanted OR (r.why = 'prev' AND NOT u.again))"),
				   ATP_ARGS(atp_text_arg(in->sub->name), accounts_arg(in), requested_arg(in), atp_array_arg(BOOLOID, again, NULL, in->n),
							atp_array_arg(TEXTOID, errors, no_error, in->n), atp_array_arg(BOOLOID, unwanted, NULL, in->n),
							atp_int4_arg(ATP_PLC_TRIES)));
	atp_wake_fetcher();
	atp_owner_end(caller);
}

static bool
move_requests(AtpProgress *progress, const AtpApply *a)
{
	LogAnswers    *in = (LogAnswers *) progress;
	int64		more[ATP_SKIP_COUNT];

	if (a->hi == in->batch->nevents)
		end_requests(in);
	in->written = !atp_skips_due(&in->skips, a->batch->skips, a->skips, more) || atp_skips_add(a->statements, a->sub, 0, more);
	return true;
}

static void
note_moved(AtpProgress *progress)
{
	LogAnswers    *in = (LogAnswers *) progress;

	atp_skips_written(&in->skips, in->written);
}

/* ------------------------------------------------------------------------
 * A step
 * ------------------------------------------------------------------------
 */

long
atp_plc_answers_due(const AtpPlcAnswers *r, AtpTime now)
{
	return r->more ? 0 : r->waits || r->always ? atp_remaining(now, r->look, LOOK_MS) : -1;
}

bool
atp_plc_answers_look(AtpPlcAnswers *r, const AtpSubscription *sub)
{
	AtpCaller	caller;

	r->look = atp_now();
	r->more = r->waits = false;
	atp_begin("looking for logs of accounts");
	if (atp_extension_lock() == ATP_EXTENSION_READY)
	{
		caller = atp_as_table_owner("plc_log_request");
		r->more = atp_run("SELECT FROM atproto.plc_log_request WHERE subscription = $1 AND answer IS NOT NULL LIMIT 1",
						  ATP_ARGS(atp_text_arg(sub->name))) > 0;
		r->waits = r->more || atp_run("SELECT FROM atproto.plc_log_request WHERE subscription = $1 AND next_try IS NOT NULL LIMIT 1",
									  ATP_ARGS(atp_text_arg(sub->name))) > 0;
		atp_owner_end(caller);
	}
	atp_commit();
	return r->more;
}

/* A transaction that reads the batch.  Returns NULL, or the error that rolled back the transaction, in the batch's memory. */
static ErrorData *
try_read(LogAnswers *in, AtpStatements *set, AtpExtension *extension)
{
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		atp_begin("looking for logs of accounts");
		MemoryContextSwitchTo(in->batch->cxt);
		if ((*extension = atp_extension_lock()) == ATP_EXTENSION_READY)
			read_batch(in, set);
		atp_commit();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(in->batch->cxt);
		error = CopyErrorData();
		FlushErrorState();
		AbortOutOfAnyTransaction();
	}
	PG_END_TRY();
	return error;
}

AtpApplied
atp_plc_answers_apply(AtpPlcAnswers *r, const AtpSubscription *sub, AtpStatements *set, int layout,
					  MemoryContext cxt, int64 *skips, const char **reason)
{
	LogAnswers		in = {
		.base = {.reach = reach_of_answers, .lock = lock_requests, .await = await_requests, .move = move_requests, .moved = note_moved},
		.sub = sub, .layout = layout, .skips.uncounted = r->uncounted
	};
	AtpApplied	result = ATP_APPLIED;
	AtpExtension extension = ATP_EXTENSION_READY;
	ErrorData  *error;

	in.batch = atp_batch_create(cxt);
	error = try_read(&in, set, &extension);
	MemoryContextSwitchTo(cxt);
	if (error != NULL)
	{
		if (atp_error_class(error->sqlerrcode) == ATP_ERROR_PASSING)
			ReThrowError(error);
		return atp_apply_stop(sub, in.batch->cxt, error, reason);
	}
	r->more = in.n > 0;
	if (extension != ATP_EXTENSION_READY)
		return ATP_APPLY_GONE;
	if (in.n > 0)
	{
		result = atp_apply(sub, &atp_plc_answer_sink, set, in.batch, &in.base, reason);
		memcpy(skips, in.batch->skips, sizeof(in.batch->skips));
		/* a session has written the requests again: the next look is for the new rows */
		if (result == ATP_APPLY_CURSOR_MOVED)
		{
			r->more = false;
			result = ATP_APPLIED;
		}
	}
	if (result == ATP_APPLIED)
		MemoryContextDelete(in.batch->cxt);
	return result;
}
