/*
 * replay.c
 *		Replay of a message: apply a stored message again through its source's format and sink.
 *
 * Which letters are replayed is dead_letter_retry.c's task.  Invariant: a replay overwrites no newer row, and brings
 * back no removed record.
 */
#include "postgres.h"

#include "config/owner.h"
#include "config/target.h"
#include "source.h"
#include "stream/decode.h"
#include "tables/apply/replay.h"
#include "tables/base/blocked.h"
#include "tables/base/error_class.h"
#include "tables/repos/admission.h"
#include "tables/repos/dead_letter.h"
#include "tables/base/derived.h"
#include "tables/records/link_count.h"
#include "tables/apply/validate.h"

static bool
same_path(AtpSpan a, AtpSpan b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static void
judge_replay(AtpApply *a, int event, int unused)
{
	a->standing = a->sink->standing == NULL ? ATP_STANDING_NEW : a->sink->standing(a, event);
}

/* Apply a row, unless the stored row is as new as this row.  Sets a->standing to the comparison's result. */
static void
replay_row(AtpApply *a, int row, int event)
{
	AtpStanding late = a->standing;

	a->standing = a->sink->row_standing == NULL ? ATP_STANDING_NEW : a->sink->row_standing(a, row);
	if (a->standing == ATP_STANDING_NEW || (a->standing == ATP_STANDING_MISSING && late != ATP_STANDING_LATE))
		a->sink->apply_row(a, row, event);
}

/* Apply the row with the path (without a path: all rows), each in a subtransaction. */
static AtpOutcome
apply_rows(AtpApply *a, AtpSpan path, const char **why)
{
	AtpBatch   *batch = a->batch;

	/* a letter about a single record exists only if no later commit has removed the record: a missing record may be inserted */
	AtpStanding standing = path.len > 0 ? ATP_STANDING_LAST : a->standing;
	int			unknown = 0;
	int			unjudged = 0;
	ErrorData  *error = NULL;

	for (int r = 0; r < batch->nrows; r++)
	{
		ErrorData  *refused;

		if (path.len > 0 && !same_path(batch->rows[r].path, path))
			continue;
		a->standing = standing;
		refused = atp_attempt(a, replay_row, r, 0);
		if (error == NULL)
			error = refused;
		if (refused == NULL && a->standing == ATP_STANDING_MISSING && standing == ATP_STANDING_LATE)
			unknown++;
		if (refused == NULL && a->standing == ATP_STANDING_UNJUDGED)
		{
			unjudged++;
			*why = atp_admission_reason(&batch->events[0]);
		}
	}
	if (unknown > 0)
	{
		atp_mark_repo(a, batch->events[0].did);
		*why = psprintf("newer commits were applied: %d of its records are not there and may have been removed since; the repository is marked as desynchronized",
						unknown);
	}
	if (error != NULL)
		*why = atp_error_text(error);
	return unknown + unjudged > 0 || error != NULL ? ATP_OUTCOME_STAYS : a->rows > 0 ? ATP_OUTCOME_APPLIED : ATP_OUTCOME_OBSOLETE;
}

/* Was no row of the event newer than the stored rows?  A message may have several labels, each with a row. */
static bool
passed_over(const AtpApply *a)
{
	int64		skipped = a->skips[ATP_SKIP_OLD] + a->skips[ATP_SKIP_INACTIVE];

	return skipped > 0 && a->rows <= skipped;
}

static AtpOutcome
apply_event(AtpApply *a, const AtpReplay *replay, const char **why)
{
	AtpSpan		name = a->sink->name ? a->sink->name(&a->batch->events[0]) : (AtpSpan) {NULL, 0};
	ErrorData  *error;
	uint64		superseded;

	if ((error = atp_attempt(a, judge_replay, 0, 0)) != NULL)
	{
		*why = atp_error_text(error);
		return ATP_OUTCOME_STAYS;
	}
	a->batch->events[0].effects.passed = a->standing == ATP_STANDING_LATE || a->standing == ATP_STANDING_OBSOLETE;
	superseded = replay->locked(replay->arg);
	if (superseded > 0 && a->batch->events[0].rev <= superseded && a->standing != ATP_STANDING_INACTIVE)
		return ATP_OUTCOME_OBSOLETE;
	switch (a->standing)
	{
		case ATP_STANDING_OBSOLETE:
			return ATP_OUTCOME_OBSOLETE;
		case ATP_STANDING_INACTIVE:
			*why = "the repository is not active";
			return ATP_OUTCOME_STAYS;
		case ATP_STANDING_UNJUDGED:
			*why = atp_admission_reason(&a->batch->events[0]);
			return ATP_OUTCOME_STAYS;
		case ATP_STANDING_NEW:
			if (replay->path.len > 0 && !same_path(replay->path, name))
				break;
			if ((error = atp_attempt(a, a->sink->apply, 0, 1)) == NULL)
				return passed_over(a) ? ATP_OUTCOME_OBSOLETE : ATP_OUTCOME_APPLIED;
			*why = atp_error_text(error);
			return ATP_OUTCOME_STAYS;
		default:
			break;
	}
	return apply_rows(a, replay->path, why);
}

/* Why the message, or the record with the path, cannot be decoded; NULL: both can. */
static const char *
why_invalid(const AtpBatch *batch, AtpSpan path)
{
	ListCell   *lc;

	foreach(lc, batch->letters)
	{
		const AtpDeadLetter *letter = lfirst(lc);

		if (same_path(letter->path, path) || letter->path.len == 0)
			return letter->text;
	}
	return NULL;
}

/* S-10: is the label with the path (without a path: one of the labels) passed over by what its members say? */
static bool
omits_label(const AtpBatch *batch, AtpSpan path)
{
	for (int r = 0; r < batch->nrows && path.len > 0; r++)
		if (same_path(batch->rows[r].path, path))
			return false;
	return batch->events[0].omits;
}

static AtpOutcome
process_message(const AtpReplay *replay, const char **why)
{
	AtpBatch   *batch = atp_batch_create(CurrentMemoryContext);
	const AtpStreamKind *source = replay->source;
	AtpDecoder *decoder = atp_decoder_create(CurrentMemoryContext, source->format);
	AtpPosition position = atp_position_after(-1, 0);
	AtpApply	a = {
		.sub = replay->sub, .from = replay->from, .statements = replay->statements, .batch = batch, .sink = source->sink, .replay = true
	};
	AtpVerdict	verdict;
	AtpOutcome	outcome;

	atp_decoder_settings(decoder, &replay->sub->settings);
	if (!atp_batch_add(batch, replay->message.ptr, replay->message.len))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	verdict = atp_decode(decoder, batch, &position, ATP_DECODE_ALL);
	if (replay->sub->settings.nvalidate > 0 && (a.sink->uses & ATP_USE_REPOS))
		atp_validate_batch(replay->sub, batch);
	/* also a message that is invalid still */
	if ((a.sink->uses & ATP_USE_REPOS) && batch->nevents > 0 && atp_is_blocked_now(replay->sub->target, batch->events[0].did))
		return ATP_OUTCOME_OBSOLETE;
	*why = verdict.drop != ATP_DROP_NONE ? verdict.why : why_invalid(batch, replay->path);
	if (*why != NULL)
		return ATP_OUTCOME_STAYS;
	/* S-10: the letter stays, for a version that knows the name, or until the operator deletes it */
	if (batch->nevents > 0 && (batch->events[0].qualifies || omits_label(batch, replay->path)))
	{
		*why = "a member of the message, or its kind, says that it is not of the account's public repository";
		return ATP_OUTCOME_STAYS;
	}
	atp_blocks_apply(&a);
	/* the account is blocked, or the subscription's filters have changed, and leave the event out now */
	if (batch->nevents == 0 || batch->events[0].ignored)
		return ATP_OUTCOME_OBSOLETE;
	if (a.sink->uses & ATP_USE_REPOS)
		atp_require_values(a.statements, &a.sub->settings, a.sink->uses | atp_derived_uses(a.sub));
	a.hi = batch->nevents;
	atp_derived_prepare(&a);
	outcome = apply_event(&a, replay, why);
	atp_link_counts_write(&a);
	if (outcome != ATP_OUTCOME_STAYS)
	{
		/* the letter of the whole event will be deleted: its invalid records need letters of their own */
		if (replay->path.len == 0)
			atp_dead_letters_store(&a, batch->letters);
		if (a.sink->drop_superseded_letters != NULL)
			a.sink->drop_superseded_letters(&a);
	}
	return outcome;
}

AtpOutcome
atp_replay(const AtpReplay *replay, const char **why)
{
	AtpCaller	caller = atp_target_begin(replay->sub);
	AtpOutcome	outcome = process_message(replay, why);

	atp_owner_end(caller);
	return outcome;
}
