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

#include "catalog/pg_type.h"
#include "compat.h"
#include "config/extension.h"
#include "config/subscription.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "source.h"
#include "stream/batch.h"
#include "stream/decode.h"
#include "tables/fault.h"
#include "tables/letter.h"
#include "tables/statements.h"
#include "utils/builtins.h"
#include "utils/guc.h"

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
no_such_letter(Datum id)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("dead letter " INT64_FORMAT " does not exist", DatumGetInt64(id))));
}

static uint64
run_statement(const char *sql, int nargs, Datum *args)
{
	Oid			types[] = {INT8OID, TEXTOID};

	return atp_run_sql(sql, nargs, types, args, NULL);
}

/*
 * From now on nobody else tries it, nor removes it.  Only after the repository is
 * locked: consumers, too, come to a letter with that lock.
 */
static void
lock_letter(Datum id)
{
	if (run_statement("SELECT FROM atproto.dead_letter WHERE id = $1 FOR UPDATE", 1, &id) == 0)
		no_such_letter(id);
}

/* ------------------------------------------------------------------------
 * A decoded message into the tables
 * ------------------------------------------------------------------------
 */
static void
judge(AtpApply *a, int event, int unused)
{
	a->standing = a->sink->again == NULL ? ATP_AGAIN_NEW : a->sink->again(a, event);
}

/* A row, unless what is there is as new; a->standing says what was found. */
static void
apply_row(AtpApply *a, int row, int event)
{
	AtpAgain	late = a->standing;

	a->standing = a->sink->again_row == NULL ? ATP_AGAIN_NEW : a->sink->again_row(a, row);
	if (a->standing == ATP_AGAIN_NEW || (a->standing == ATP_AGAIN_MISSING && late != ATP_AGAIN_LATE))
		a->sink->apply_row(a, row, event);
}

/* Rows of the event, each alone: that of the path, or all of them. */
static Outcome
apply_rows(AtpApply *a, AtpSpan path, const char **why)
{
	AtpBatch   *batch = a->batch;
	/* of a record's own letter we know that it was not removed since: the letter would have gone */
	AtpAgain	standing = path.len > 0 ? ATP_AGAIN_LAST : a->standing;
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
		if (refused == NULL && a->standing == ATP_AGAIN_MISSING && standing == ATP_AGAIN_LATE)
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
apply_event(AtpApply *a, Datum id, AtpSpan path, const char **why)
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
		case ATP_AGAIN_OBSOLETE:
			return OBSOLETE;
		case ATP_AGAIN_INACTIVE:
			*why = "the repository is not active";
			return STAYS;
		case ATP_AGAIN_NEW:
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
process_again(const AtpSubscription *sub, Datum id, bytea *bytes, AtpSpan path, const char **why)
{
	AtpBatch   *batch = atp_batch_create(CurrentMemoryContext);
	const AtpSource *source = atp_source_of(sub->ep->nsid);
	AtpDecoder *decoder = atp_decoder_create(CurrentMemoryContext, source->format);
	AtpPosition position = {.last = -1};
	AtpApply		a = {.sub = sub, .batch = batch, .sink = source->sink, .again = true};
	const char *error_name;
	Outcome		outcome;
	ListCell   *lc;

	atp_decoder_settings(decoder, &sub->settings);
	if (!atp_batch_add(batch, (const uint8_t *) VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	if (atp_decode(decoder, batch, &position, why, &error_name) != ATP_DROP_NONE)
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

/* The same with the owner's rights, not the caller's, and nothing of what its triggers set stays. */
static Outcome
process_as_owner(const AtpSubscription *sub, Datum id, bytea *bytes, AtpSpan path, const char **why)
{
	int			nest = NewGUCNestLevel();
	Oid			user;
	int			security;
	volatile Outcome outcome;

	GetUserIdAndSecContext(&user, &security);
	SetUserIdAndSecContext(sub->owner, security | SECURITY_RESTRICTED_OPERATION);
	atp_statements_target(sub->target);
	PG_TRY();
	{
		outcome = process_again(sub, id, bytes, path, why);
	}
	PG_FINALLY();
	{
		atp_statements_release();
	}
	PG_END_TRY();
	AtEOXact_GUC(false, nest);
	SetUserIdAndSecContext(user, security);
	return outcome;
}

/* SQL: atproto.retry(id) */
Datum
atp_retry(PG_FUNCTION_ARGS)
{
	Datum		args[] = {PG_GETARG_DATUM(0), (Datum) 0};
	int			nest;
	HeapTuple	letter;
	TupleDesc	desc;
	Datum		bytes;
	text	   *path;
	const char *why = "it is beyond the repository's share of dead letters: nothing is kept of it";
	Outcome		outcome = STAYS;
	bool		isnull;
	text	   *result;

	SPI_connect();
	/* triggers that wait for the transaction's end would run with the caller's rights: there are none */
	if (SPI_execute("SET CONSTRAINTS ALL IMMEDIATE", false, 0) != SPI_OK_UTILITY)
		elog(ERROR, "could not set constraints");
	nest = NewGUCNestLevel();
	(void) set_config_option("search_path", "", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
	if (run_statement("SELECT d.subscription, d.path, f.bytes FROM atproto.dead_letter d"
					  " LEFT JOIN atproto.dead_frame f ON f.subscription = d.subscription AND f.digest = d.digest"
					  " WHERE d.id = $1", 1, args) == 0)
		no_such_letter(args[0]);
	letter = SPI_tuptable->vals[0];
	desc = SPI_tuptable->tupdesc;
	path = DatumGetTextPP(SPI_getbinval(letter, desc, 2, &isnull));
	bytes = SPI_getbinval(letter, desc, 3, &isnull);
	if (!isnull)
		outcome = process_as_owner(atp_subscription_borrow(SPI_getvalue(letter, desc, 1), CurrentMemoryContext), args[0], DatumGetByteaPP(bytes),
								   (AtpSpan) {VARDATA_ANY(path), VARSIZE_ANY_EXHDR(path)}, &why);
	if (outcome != STAYS)
	{
		why = outcome == APPLIED ? "applied" : "obsolete";
		(void) run_statement("DELETE FROM atproto.dead_letter WHERE id = $1", 1, args);
	}
	else if (!isnull)
	{
		args[1] = CStringGetTextDatum(why);
		(void) run_statement("UPDATE atproto.dead_letter SET attempts = attempts + 1, last_at = now(), message = $2"
							 " WHERE id = $1", 2, args);
	}
	AtEOXact_GUC(false, nest);
	/* outlives SPI's memory */
	args[1] = CStringGetTextDatum(why);
	result = (text *) SPI_palloc(VARSIZE_ANY(DatumGetPointer(args[1])));
	memcpy(result, DatumGetPointer(args[1]), VARSIZE_ANY(DatumGetPointer(args[1])));
	SPI_finish();
	PG_RETURN_TEXT_P(result);
}
