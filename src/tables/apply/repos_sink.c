/*
 * repos_sink.c
 *		The sink for events of subscribeRepos: states of repositories, then records.
 *
 * This file calls admission.c, repo.c and record.c in their order; the rules are there.  Invariant: the states of all
 * repositories of a batch are written before any record, in the order of their DIDs.  So two consumers with events of
 * one repository take turns, and the second consumer recognises an older revision (F-03).
 */
#include "postgres.h"

#include "common/injection.h"
#include "tables/apply/removals.h"
#include "tables/base/job.h"
#include "tables/repos/resync.h"
#include "tables/repos/held.h"
#include "tables/repos/admission.h"
#include "tables/repos/dead_letter.h"
#include "tables/records/record.h"
#include "tables/records/sweep_deletion.h"
#include "tables/repos/repo.h"
#include "tables/repos/repo_state.h"
#include "tables/base/rows.h"
#include "types/types.h"
#include "utils/builtins.h"

/*
 * F-15: an export that did not come to its end may have left records newer than the repository's revision, or records of
 * a repository without a revision.  They are deleted now: atp_purge() would also delete records up to the export's
 * revision that come later, from a stream that is behind the export.  If there are too many, or the records may not be
 * deleted now (now is false), atp_purge() gets *rev, the revision of the newest record, and the repository is marked.
 * False: the repository has no records any more.
 *
 * The job goes first: the fetcher commits no slice without the job (atp_repo_job_lock()), so each slice either is committed
 * before, and its records are deleted here, or is rolled back.
 */
static bool
erase_export(AtpApply *a, const AtpEvent *event, const AtpEffect *effect, bool now, uint64 *rev)
{
	uint64		last;

	if (atp_is_deletion(event))
		atp_jobs_remove(atp_target(a->statements), &event->did, 1);
	if (!atp_records_last_rev(a, event->did, &last))
		return false;
	if (effect->has_rev && last <= effect->rev)
		return true;
	if (now && atp_records_erase_export(a, event->did, last, event->seq))
		return false;
	*rev = last;
	atp_repo_mark(a, event->did);
	return true;
}

/*
 * H-43: the deletion of an account while a sweep runs.  Records up to the time of the deletion go, and no others: an archive may have
 * brought records of the account's next life, and this stream may bring the deletion late.
 */
static void
erase_in_sweep(AtpApply *a, const AtpEvent *event, const AtpEffect *effect, bool now)
{
	uint64		bound = atp_repo_event_bound(event);

	if (!event->archived)
	{
		atp_jobs_remove(atp_target(a->statements), &event->did, 1);
		/* what this stream had brought before is of the deleted life, whatever the clocks say */
		if (effect->has_rev)
			bound = Max(bound, effect->rev);
	}
	if (now)
		atp_records_erase(a, event->did, bound, event->seq);
	if (atp_repo_leave_to_purge(a, event, bound))
		a->batch->purge = true;
	if (a->sweep == ATP_SWEEP_SHARED && !effect->unkept)
		atp_sweep_keep_account(a, event->did, bound);
}

/*
 * H-32: the records that the rows directly behind the #sync of an archive leave unchanged.  No record stays while a sweep is shared: the
 * record would keep a revision of before the #sync, and an older deletion of another source would remove the record.
 */
static AtpSameRecords
find_same(AtpApply *a, int sync, int hi, const AtpEffect *effects)
{
	AtpBatch   *batch = a->batch;
	const AtpEvent *event = &batch->events[sync];
	AtpRow	  **rows;
	int			n = 0;

	if (!event->archived || a->sweep == ATP_SWEEP_SHARED)
		return (AtpSameRecords) {0};
	rows = palloc(sizeof(AtpRow *) * Max(batch->nrows, 1));
	for (int i = sync + 1; i < hi; i++)
	{
		const AtpEvent *next = &batch->events[i];

		/* an ignored event without an account tells of the position only */
		if (next->ignored && next->did == NULL)
			continue;
		if (next->did == NULL || !atp_same_bytes(next->did, event->did) || !next->archived || next->kind != ATP_REPOS_COMMIT)
			break;
		for (int r = next->first_row; effects[i - sync].rows && r < next->first_row + next->nrows; r++)
			rows[n++] = &batch->rows[r];
	}
	return atp_records_same(a, rows, n, event->rev);
}

/*
 * H-31, H-43: a #sync of an archive.  While a sweep runs beside other sources, records up to the revision before go, and those that
 * another source has brought later stay.
 */
static void
replace_records(AtpApply *a, const AtpEvent *event, const AtpEffect *effect, AtpSameRecords same)
{
	atp_records_replace(a, event->did, effect->rev, event->seq, same);
	if (a->sweep == ATP_SWEEP_SHARED && !effect->unkept)
		atp_sweep_keep_sync(a, event->did, effect->rev);
}

/*
 * F-15: erase the records of a deleted account.  A bounded number of records is deleted now (unless now is false);
 * atp_purge() deletes the rest later.
 */
static void
erase_repo(AtpApply *a, int index, const AtpEffect *effect, bool now)
{
	const AtpEvent *event = &a->batch->events[index];
	uint64		rev = effect->rev;

	if (atp_is_deletion(event) && !event->archived)
		atp_held_erase(a, index);
	if (atp_is_deletion(event) && (event->archived || a->sweep == ATP_SWEEP_SHARED))
	{
		erase_in_sweep(a, event, effect, now);
		return;
	}
	if ((!effect->has_rev || effect->beyond) && !erase_export(a, event, effect, now, &rev))
		return;
	if (now && rev == effect->rev)
		atp_records_erase(a, event->did, rev, event->seq);
	if (atp_repo_leave_to_purge(a, event, rev))
		a->batch->purge = true;
}

/*
 * H-33: before rows of an archive are put, nothing is left to atp_purge(): a row that comes after the deletion may have a
 * revision of before the deletion.
 */
static void
end_purges(AtpApply *a, int lo, int hi)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(hi - lo, 1));
	int			n = 0;

	for (int i = lo; i < hi; i++)
		if (a->batch->events[i].archived && !a->batch->events[i].ignored)
			dids[n++] = a->batch->events[i].did;
	atp_repos_purge_now(a, dids, n);
	pfree(dids);
}

static int
count_rows(const AtpBatch *batch, int lo, int hi)
{
	int			n = 0;

	for (int i = lo; i < hi; i++)
		n += batch->events[i].nrows;
	return n;
}

/* H-43: while a sweep runs, each source may bring what another source has brought. */
static bool
may_stand(const AtpApply *a, const AtpEvent *event)
{
	return event->archived || a->sweep == ATP_SWEEP_SHARED;
}

static void
apply_repo_events(AtpApply *a, int lo, int hi)
{
	AtpBatch   *batch = a->batch;
	AtpRepos   *repos = atp_repos_load(a, lo, hi, false);
	AtpRecords *records = atp_records_begin(a, count_rows(batch, lo, hi));
	AtpEffect  *effects = palloc0(sizeof(AtpEffect) * Max(hi - lo, 1));

	for (int i = lo; i < hi; i++)
		if (!batch->events[i].ignored)
			effects[i - lo] = atp_repos_take(repos, i);
	atp_removals_join(a, effects, lo, hi);
	atp_admission_end(repos, lo, hi);
	atp_repos_store(repos);
	end_purges(a, lo, hi);
	ATP_INJECTION_POINT("records next");
	for (int i = lo; i < hi; i++)
	{
		const AtpEvent *event = &batch->events[i];
		AtpEffect  *effect = &effects[i - lo];

		if (effect->undo)
		{
			atp_records_flush(records);
			atp_records_undo(a, event->did, effect->undo_rev, effect->undo_since, event->seq);
		}
		for (int r = event->first_row; effect->rows && r < event->first_row + event->nrows; r++)
			if (!batch->rows[r].known)
			{
				batch->rows[r].record.reread = effect->reread;
				batch->rows[r].record.may_stand = may_stand(a, event);
				atp_records_queue(records, &batch->rows[r].record, event->seq, effect->reread);
			}
		if (effect->erase)
		{
			atp_records_flush(records);
			erase_repo(a, i, effect, true);
			end_purges(a, i, i + 1);
		}
		if (effect->replace)
		{
			atp_records_flush(records);
			replace_records(a, event, effect, find_same(a, i, hi, effect));
		}
	}
	atp_records_flush(records);
	/* a replay does not call conclude(), which would request the status look-ups */
	if (a->replay)
		atp_admission_request_statuses(a);
}

static bool
accepts_event(AtpApply *a, int index)
{
	const AtpEvent *event = &a->batch->events[index];

	return !event->ignored &&
		atp_repos_take(atp_repos_load(a, index, index + 1, false), index).rows;
}

static void
apply_record(AtpApply *a, int row, int event)
{
	AtpRecords *records;

	if (a->batch->rows[row].known)
		return;
	end_purges(a, event, event + 1);
	a->batch->rows[row].record.may_stand = may_stand(a, &a->batch->events[event]);
	records = atp_records_begin(a, 1);
	atp_records_queue(records, &a->batch->rows[row].record, a->batch->events[event].seq, false);
	atp_records_flush(records);
}

static void
apply_rest(AtpApply *a, int index, int unused)
{
	const AtpEvent *event = &a->batch->events[index];
	AtpRepos   *repos;
	AtpEffect	effect;

	if (event->ignored)
		return;
	repos = atp_repos_load(a, index, index + 1, false);
	/* keep the verdict by which apply_record() has written the rows: a new verdict might differ */
	atp_repos_judged(repos);
	effect = atp_repos_take(repos, index);
	atp_admission_end(repos, index, index + 1);
	atp_repos_store(repos);
	/*
	 * effect.undo is not carried out here, because the deletion of a record may be the refused step: so mark the
	 * repository.  For the same reason the records of a deleted account are left to atp_purge(): a refused deletion must
	 * not keep the account's new status out of the row.
	 */
	if (effect.undo)
		atp_repo_mark(a, event->did);
	if (effect.erase)
		erase_repo(a, index, &effect, false);
	if (effect.replace)
		replace_records(a, &a->batch->events[index], &effect, (AtpSameRecords) {0});
}

/* The path of a dead letter about an #identity or #account event.  No record has such a path, since record paths contain a slash. */
static AtpSpan
name_event(const AtpEvent *event)
{
	static const char identity[] = "#identity";
	static const char account[] = "#account";

	switch (event->kind)
	{
		case ATP_REPOS_IDENTITY:
			return (AtpSpan) {identity, sizeof(identity) - 1};
		case ATP_REPOS_ACCOUNT:
			return (AtpSpan) {account, sizeof(account) - 1};
		default:
			return (AtpSpan) {NULL, 0};
	}
}

/* Add a row for atp_dead_letters_supersede().  path of length 0: all records; rev: the last revision that the removal makes obsolete. */
static void
put_removed(AtpRows *rows, const AtpEvent *event, AtpSpan path, uint64 rev)
{
	atp_put_ref(rows, event->did);
	atp_put_ref(rows, path.len == 0 ? NULL : cstring_to_text_with_len(path.ptr, path.len));
	atp_put(rows, AtpTidGetDatum(rev), false);
}

/*
 * Add a row for atp_dead_letters_forget().  path of length 0: all letters of the repository.  An export that came into the
 * tables is newer than an event that the repository had passed, or that is read again.  A letter about a record of the
 * export, whose removal may have been refused, is then the only trace of the record, so the letter stays.
 */
static void
put_overtaken(const AtpApply *a, AtpRows *rows, const AtpEvent *event, AtpSpan path)
{
	const AtpHeldRow *held = event->held;

	atp_put_ref(rows, event->did);
	atp_put_ref(rows, path.len == 0 ? NULL : cstring_to_text_with_len(path.ptr, path.len));
	atp_put(rows, Int64GetDatum(event->seq), false);
	atp_put(rows, BoolGetDatum(!event->effects.passed && !event->effects.reread), false);
	atp_put(rows, held != NULL ? PointerGetDatum(held->subscription) : CStringGetTextDatum(a->sub->name), false);
	atp_put(rows, held != NULL && held->endpoint != NULL ? PointerGetDatum(held->endpoint) : CStringGetTextDatum(atp_apply_endpoint(a)->scope), false);
}

/*
 * Delete or mark dead letters that the events have made obsolete.  Replaying the letter of a record that has been removed
 * since would bring back the record.  The letter of a handle or status is obsolete after the next handle or status.  After
 * a confirmed deletion of the account all its letters are obsolete.
 */
static void
drop_superseded_letters(AtpApply *a)
{
	static const AtpType types[] = {
		ATP_TYPE_DID, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_BOOL, ATP_TYPE_TEXT, ATP_TYPE_TEXT, ATP_TYPE_END
	};
	AtpBatch   *batch = a->batch;
	static const AtpType removed_types[] = {ATP_TYPE_DID, ATP_TYPE_TEXT, ATP_TYPE_TID, ATP_TYPE_END};
	AtpRows    *rows = atp_rows_create(a->statements, types, batch->nrows + batch->nevents);
	AtpRows    *removed = atp_rows_create(a->statements, removed_types, batch->nrows + batch->nevents);

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &batch->events[i];

		if (event->ignored || event->verdict.judged != ATP_JUDGED_TRUE)
			continue;
		for (int r = event->first_row; r < event->first_row + event->nrows; r++)
			if (batch->rows[r].record.action == ATP_DELETE)
			{
				put_overtaken(a, rows, event, batch->rows[r].path);
				/* a refuted commit removes nothing; rev - 1, because the letter of a refused removal has revision rev and is not obsolete */
				if (event->proven != ATP_OPS_REFUTED && event->proven != ATP_REV_AHEAD && event->rev > 0)
					put_removed(removed, event, batch->rows[r].path, event->rev - 1);
			}
		/* F-42: all records before this #sync were deleted */
		if (event->kind == ATP_REPOS_SYNC && event->rev > 0 && (event->archived || (event->partial && a->sweep == ATP_SWEEP_SHARED)))
			atp_dead_letters_supersede_within(a, event->did, event->rev - 1);
		else if (event->kind == ATP_REPOS_SYNC && event->partial && event->rev > 0)
			put_removed(removed, event, (AtpSpan) {NULL, 0}, event->rev - 1);
		/* H-43: an archive's deletion may be of years ago, and says nothing of later letters */
		if (atp_is_deletion(event) && event->archived)
			put_removed(removed, event, (AtpSpan) {NULL, 0}, atp_repo_event_bound(event));
		else if (atp_is_deletion(event) && !event->effects.unconfirmed)
			put_overtaken(a, rows, event, (AtpSpan) {NULL, 0});
		else if (event->kind == ATP_REPOS_ACCOUNT || (event->kind == ATP_REPOS_IDENTITY && event->handle != NULL))
			put_overtaken(a, rows, event, name_event(event));
	}
	if (rows->n > 0)
		atp_dead_letters_forget(a, rows);
	atp_dead_letters_supersede(a, removed);
}

static bool
purge_records(AtpApply *a)
{
	/* true: records were deleted, and more may be left, even if fewer than the limit: a concurrent process may delete as well */
	if (atp_records_purge(a))
		return true;
	ATP_INJECTION_POINT("records purged");
	atp_repo_end_purge(a);
	return false;
}

/* Lock the repository's row before anything else: only the transaction with this lock may write the repository's records. */
static AtpStanding
event_standing(AtpApply *a, int event)
{
	AtpRepos   *repos = atp_repos_load(a, event, event + 1, false);
	AtpStanding there = atp_repos_standing(repos, event);

	if (there == ATP_STANDING_OBSOLETE || there == ATP_STANDING_INACTIVE)
		return there;
	atp_admission_judge(repos, event);
	return a->batch->events[event].verdict.judged == ATP_JUDGED_TRUE ? there : ATP_STANDING_UNJUDGED;
}

static AtpStanding
row_standing(AtpApply *a, int index)
{
	const AtpRecordRow *row = &a->batch->rows[index].record;
	AtpStanding there;

	if (!a->sub->settings.keep_records)
		return ATP_STANDING_MISSING;
	there = atp_record_standing(a, row);
	/* a deletion of a record that does not exist is obsolete */
	return there == ATP_STANDING_MISSING && row->action == ATP_DELETE ? ATP_STANDING_OBSOLETE : there;
}

static void
after_apply(AtpApply *a)
{
	atp_admission_after_apply(a);
	atp_resync_after_apply(a);
}

const AtpSink atp_repos_sink = {
	.uses = ATP_USE_REPOS,
	.apply = apply_repo_events,
	.accepts = accepts_event,
	.apply_row = apply_record,
	.apply_rest = apply_rest,
	.name = name_event,
	.reject_unsigned = atp_admission_reject_unsigned,
	.after_apply = after_apply,
	.drop_superseded_letters = drop_superseded_letters,
	.standing = event_standing,
	.row_standing = row_standing,
	.purge = purge_records,
};
