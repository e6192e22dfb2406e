/*
 * letter_again.c
 *		Dead letters once more: atproto.retry().
 *
 * The message goes the same way as from the network, as the subscription's owner,
 * whoever calls: the triggers that run are the owner's.  It comes late, so each
 * record is judged by what is in the tables now, with the repository's state
 * locked; nothing newer is overwritten, and what was removed does not come back.
 */
#include "postgres.h"

#include "compat.h"
#include "config/owner.h"
#include "config/spi.h"
#include "config/subscription.h"
#include "fmgr.h"
#include "source.h"
#include "stream/batch.h"
#include "stream/decode.h"
#include "tables/fault.h"
#include "tables/letter.h"
#include "tables/statements.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

PG_FUNCTION_INFO_V1(atp_retry);

/* What becomes of the letter. */
typedef enum Outcome
{
	APPLIED,					/* it goes */
	OBSOLETE,					/* likewise: nothing was left to do */
	STAYS						/* with its reason */
} Outcome;

static bool
same_path(AtpSpan a, AtpSpan b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

pg_noreturn static void
no_such_letter(int64 id)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("dead letter " INT64_FORMAT " does not exist", id)));
}

/*
 * From now on nobody else tries it, nor removes it.  Only after the repository is
 * locked: consumers, too, come to a letter with that lock.
 */
static void
lock_letter(int64 id)
{
	if (atp_run("SELECT FROM atproto.dead_letter WHERE id = $1 FOR UPDATE", ATP_ARGS(atp_int8_arg(id))) == 0)
		no_such_letter(id);
}

/* ------------------------------------------------------------------------
 * A decoded message into the tables
 * ------------------------------------------------------------------------
 */
static void
judge(AtpApply *a, int event, int unused)
{
	a->standing = a->sink->standing == NULL ? ATP_STANDING_NEW : a->sink->standing(a, event);
}

/* A row, unless what is there is as new; a->standing says what was found. */
static void
apply_row(AtpApply *a, int row, int event)
{
	AtpStanding	late = a->standing;

	a->standing = a->sink->row_standing == NULL ? ATP_STANDING_NEW : a->sink->row_standing(a, row);
	if (a->standing == ATP_STANDING_NEW || (a->standing == ATP_STANDING_MISSING && late != ATP_STANDING_LATE))
		a->sink->apply_row(a, row, event);
}

/* Rows of the event, each alone: that of the path, or all of them. */
static Outcome
apply_rows(AtpApply *a, AtpSpan path, const char **why)
{
	AtpBatch   *batch = a->batch;
	/* of a record's own letter we know that it was not removed since: the letter would have gone */
	AtpStanding	standing = path.len > 0 ? ATP_STANDING_LAST : a->standing;
	int			unknown = 0;
	ErrorData  *error = NULL;

	for (int r = 0; r < batch->nrows; r++)
	{
		ErrorData  *refused;

		if (path.len > 0 && !same_path(batch->rows[r].path, path))
			continue;
		a->standing = standing;
		refused = atp_attempt(a, apply_row, r, 0);
		if (error == NULL)
			error = refused;
		if (refused == NULL && a->standing == ATP_STANDING_MISSING && standing == ATP_STANDING_LATE)
			unknown++;
	}
	if (unknown > 0)
	{
		atp_mark_repo(a, batch->events[0].did);
		*why = psprintf("newer commits were applied: %d of its records are not there and may have been removed since; the repository is marked as desynchronized",
						unknown);
	}
	if (error != NULL)
		*why = atp_error_text(error);
	return unknown > 0 || error != NULL ? STAYS : a->rows > 0 ? APPLIED : OBSOLETE;
}

static Outcome
apply_event(AtpApply *a, int64 id, AtpSpan path, const char **why)
{
	AtpSpan		name = a->sink->name ? a->sink->name(&a->batch->events[0]) : (AtpSpan) {NULL, 0};
	ErrorData  *error;

	if ((error = atp_attempt(a, judge, 0, 0)) != NULL)
	{
		*why = atp_error_text(error);
		return STAYS;
	}
	lock_letter(id);
	switch (a->standing)
	{
		case ATP_STANDING_OBSOLETE:
			return OBSOLETE;
		case ATP_STANDING_INACTIVE:
			*why = "the repository is not active";
			return STAYS;
		case ATP_STANDING_NEW:
			if (path.len > 0 && !same_path(path, name))
				break;
			if ((error = atp_attempt(a, a->sink->apply, 0, 1)) == NULL)
				return a->skips[ATP_SKIP_OLD] + a->skips[ATP_SKIP_INACTIVE] == 0 ? APPLIED : OBSOLETE;
			*why = atp_error_text(error);
			return STAYS;
		default:
			break;
	}
	return apply_rows(a, path, why);
}

/* ------------------------------------------------------------------------
 * A letter
 * ------------------------------------------------------------------------
 */

/* The message through the same path as from the network. */
static Outcome
process_again(const AtpSubscription *sub, AtpStatements *set, int64 id, bytea *bytes, AtpSpan path, const char **why)
{
	AtpBatch   *batch = atp_batch_create(CurrentMemoryContext);
	const AtpSource *source = atp_source_of(sub->ep->nsid);
	AtpDecoder *decoder = atp_decoder_create(CurrentMemoryContext, source->format);
	AtpPosition position = atp_position_after(-1);
	AtpApply	a = {.sub = sub, .statements = set, .batch = batch, .sink = source->sink, .again = true};
	AtpVerdict	verdict;
	Outcome		outcome;
	ListCell   *lc;

	atp_decoder_settings(decoder, &sub->settings);
	if (!atp_batch_add(batch, (const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	verdict = atp_decode(decoder, batch, &position, ATP_DECODE_ALL);
	*why = verdict.why;
	if (verdict.drop != ATP_DROP_NONE)
		return STAYS;
	foreach(lc, batch->letters)
	{
		const AtpLetter *letter = lfirst(lc);

		if (same_path(letter->path, path) || letter->path.len == 0)
		{
			*why = letter->text;
			return STAYS;
		}
	}
	/* the filters do not want it any more */
	if (batch->nevents == 0 || batch->events[0].ignored)
		return OBSOLETE;
	a.hi = batch->nevents;
	outcome = apply_event(&a, id, path, why);
	if (outcome != STAYS)
	{
		/* records that are invalid have letters of their own, from now on at the latest */
		if (path.len == 0)
			atp_letters_store(&a, batch->letters);
		if (a.sink->settle != NULL)
			a.sink->settle(&a);
	}
	return outcome;
}

/* The same with the owner's rights. */
static Outcome
process_as_owner(const AtpSubscription *sub, int64 id, bytea *bytes, AtpSpan path, const char **why)
{
	AtpCaller	caller;
	AtpStatements *set;
	volatile Outcome outcome;

	/*
	 * What is being applied was judged by what the tables had: nothing else may
	 * come in between.
	 */
	if (atp_statements_in_use())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("dead letters cannot be tried again by a trigger of the tables that are being filled")));
	caller = atp_owner_begin(sub->owner);
	set = atp_statements_create(sub->target);
	PG_TRY();
	{
		outcome = process_again(sub, set, id, bytes, path, why);
	}
	PG_FINALLY();
	{
		atp_statements_free(set);
	}
	PG_END_TRY();
	atp_owner_end(caller);
	return outcome;
}

/* What becomes of it is written down; as text, too. */
static const char *
retry(int64 id)
{
	AtpResult	found = atp_query("SELECT d.subscription, d.path, f.bytes FROM atproto.dead_letter d"
								  " LEFT JOIN atproto.dead_frame f ON f.subscription = d.subscription AND f.digest = d.digest"
								  " WHERE d.id = $1", ATP_ARGS(atp_int8_arg(id)));
	const char *why = "it is beyond the repository's share of dead letters: nothing is kept of it";
	AtpTuple	letter;
	const char *path;
	bool		beyond;
	Datum		bytes;
	Outcome		outcome;

	if (found.n == 0)
		no_such_letter(id);
	letter = atp_result_row(found, 0);
	bytes = atp_get(letter, "bytes", BYTEAOID, &beyond);
	if (beyond)
		return why;
	path = atp_get_text(letter, "path");
	outcome = process_as_owner(atp_subscription_borrow(atp_get_text(letter, "subscription"), CurrentMemoryContext),
							   id, DatumGetByteaPP(bytes), (AtpSpan) {path, strlen(path)}, &why);
	atp_result_free(found);
	if (outcome == STAYS)
		atp_run("UPDATE atproto.dead_letter SET attempts = attempts + 1, last_at = now(), message = $2 WHERE id = $1",
				ATP_ARGS(atp_int8_arg(id), atp_text_arg(why)));
	else
		atp_run("DELETE FROM atproto.dead_letter WHERE id = $1", ATP_ARGS(atp_int8_arg(id)));
	return outcome == STAYS ? why : outcome == APPLIED ? "applied" : "obsolete";
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
	why = MemoryContextStrdup(caller_cxt, retry(PG_GETARG_INT64(0)));
	atp_caller_end(nest);
	SPI_finish();
	PG_RETURN_TEXT_P(cstring_to_text(why));
}
