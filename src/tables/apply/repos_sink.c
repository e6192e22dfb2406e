/*
 * repos_sink.c
 *		What events of subscribeRepos do to the tables.
 *
 * The states of all repositories of the batch (repo.c) are written first,
 * in the order of their DIDs, so that two consumers that carry the same repository
 * take turns and the older revision is recognised (F-03).  Records (record.c) are
 * then written in their order.
 */
#include "postgres.h"

#include "common/injection.h"
#include "tables/repos/resync.h"
#include "tables/repos/held.h"
#include "tables/repos/admission.h"
#include "tables/repos/dead_letter.h"
#include "tables/records/record.h"
#include "tables/repos/repo.h"
#include "tables/base/rows.h"
#include "types/types.h"
#include "utils/builtins.h"

/*
 * The account was deleted: its records go, what is too much for now later (F-15),
 * by purge().
 */
static void
erase_repo(AtpApply *a, int index, const AtpEffect *effect, bool now)
{
	const AtpEvent *event = &a->batch->events[index];
	uint64		rev = effect->rev;

	if (atp_is_deletion(event))
		atp_held_erase(a, index);

	/* somebody may have made the repository's state forget its revision */
	if (!effect->has_rev && !atp_records_last_rev(a, event->did, &rev))
		return;
	if (now)
		atp_records_erase(a, event->did, rev, event->seq);
	if (atp_repo_leave_to_purge(a, event, rev))
		a->batch->purge = true;
}

static int
count_rows(const AtpBatch *batch, int lo, int hi)
{
	int			n = 0;

	for (int i = lo; i < hi; i++)
		n += batch->events[i].nrows;
	return n;
}

static void
apply(AtpApply *a, int lo, int hi)
{
	AtpBatch   *batch = a->batch;
	AtpRepos   *repos = atp_repos_load(a, lo, hi);
	AtpRecords *records = atp_records_begin(a, count_rows(batch, lo, hi));
	AtpEffect *effects = palloc0(sizeof(AtpEffect) * Max(hi - lo, 1));

	for (int i = lo; i < hi; i++)
		if (!batch->events[i].ignored)
			effects[i - lo] = atp_repos_take(repos, i);
	atp_judge_end(repos, lo, hi);
	atp_repos_store(repos);
	ATP_INJECTION_POINT("records next");
	for (int i = lo; i < hi; i++)
	{
		const AtpEvent *event = &batch->events[i];
		AtpEffect *effect = &effects[i - lo];

		if (effect->undo)
		{
			atp_records_flush(records);
			atp_records_undo(a, event->did, effect->undo_rev, effect->undo_since, event->seq);
		}
		for (int r = event->first_row; effect->rows && r < event->first_row + event->nrows; r++)
			if (!batch->rows[r].known)
			{
				batch->rows[r].record.again = effect->again;
				atp_records_queue(records, &batch->rows[r].record, event->seq, effect->again);
			}
		if (effect->erase)
		{
			atp_records_flush(records);
			erase_repo(a, i, effect, true);
		}
	}
	atp_records_flush(records);
	/* what comes once more is not concluded */
	if (a->again)
		atp_judge_ask(a);
}

static bool
accepts(AtpApply *a, int index)
{
	const AtpEvent *event = &a->batch->events[index];

	return !event->ignored &&
		atp_repos_take(atp_repos_load(a, index, index + 1), index).rows;
}

static void
apply_row(AtpApply *a, int row, int event)
{
	AtpRecords *records;

	if (a->batch->rows[row].known)
		return;
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
	repos = atp_repos_load(a, index, index + 1);
	/* its rows are written, or not, by the verdict that there is */
	atp_repos_judged(repos);
	effect = atp_repos_take(repos, index);
	atp_judge_end(repos, index, index + 1);
	atp_repos_store(repos);
	/* nor are records undone here, any of which may be what is refused: the repository is marked */
	/* what cannot be removed must not keep the account's new state out: later */
	if (effect.erase)
		erase_repo(a, index, &effect, false);
}

/* What no record's path is: it has a slash. */
static AtpSpan
name(const AtpEvent *event)
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

/* A record that a commit has removed; NULL: all of the repository.  rev: the last revision that the removal makes obsolete. */
static void
put_removed(AtpRows *rows, const AtpEvent *event, AtpSpan path, uint64 rev)
{
	atp_put_ref(rows, event->did);
	atp_put_ref(rows, path.len == 0 ? NULL : cstring_to_text_with_len(path.ptr, path.len));
	atp_put(rows, AtpTidGetDatum(rev), false);
}

/*
 * An export that came into the tables is newer than an event that the repository had passed, or that is read again.
 * The letter of a record of that export, whose removal may have been refused, is the only trace of the record: it stays.
 */
static void
put_overtaken(AtpRows *rows, const AtpEvent *event, AtpSpan path)
{
	atp_put_ref(rows, event->did);
	atp_put_ref(rows, path.len == 0 ? NULL : cstring_to_text_with_len(path.ptr, path.len));
	atp_put(rows, Int64GetDatum(event->seq), false);
	atp_put(rows, BoolGetDatum(!event->passed && !event->again), false);
}

/*
 * A record that is removed needs no letter any more about what could not be
 * written before: tried again, it would come back.  Nor does a handle or status
 * that is followed by another; and an account that is deleted needs none at all,
 * once that is sure.
 */
static void
settle(AtpApply *a)
{
	static const AtpType types[] = {ATP_TYPE_DID, ATP_TYPE_TEXT, ATP_TYPE_INT8, ATP_TYPE_BOOL, ATP_TYPE_END};
	AtpBatch   *batch = a->batch;
	static const AtpType removed_types[] = {ATP_TYPE_DID, ATP_TYPE_TEXT, ATP_TYPE_TID, ATP_TYPE_END};
	AtpRows    *rows = atp_rows_create(a->statements, types, batch->nrows + batch->nevents);
	AtpRows    *removed = atp_rows_create(a->statements, removed_types, batch->nrows + batch->nevents);

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &batch->events[i];

		if (event->ignored || event->judged != ATP_JUDGED_TRUE)
			continue;
		for (int r = event->first_row; r < event->first_row + event->nrows; r++)
			if (batch->rows[r].record.action == ATP_DELETE)
			{
				put_overtaken(rows, event, batch->rows[r].path);
				/* A commit that nobody believes removes nothing.  The removal itself may have been refused: its dead letter is not obsolete. */
				if (event->proven != ATP_OPS_REFUTED && event->proven != ATP_REV_AHEAD && event->rev > 0)
					put_removed(removed, event, batch->rows[r].path, event->rev - 1);
			}
		/* F-42: all that was before it has gone */
		if (event->kind == ATP_REPOS_SYNC && event->partial && event->rev > 0)
			put_removed(removed, event, (AtpSpan) {NULL, 0}, event->rev - 1);
		if (atp_is_deletion(event) && !event->unconfirmed)
			put_overtaken(rows, event, (AtpSpan) {NULL, 0});
		else if (event->kind == ATP_REPOS_ACCOUNT || (event->kind == ATP_REPOS_IDENTITY && event->handle != NULL))
			put_overtaken(rows, event, name(event));
	}
	if (rows->n > 0)
		atp_letters_forget(a, rows);
	atp_letters_supersede(a, removed);
}

static bool
purge(AtpApply *a)
{
	/* fewer than asked for need not be all: somebody else may have been faster */
	if (atp_records_purge(a))
		return true;
	ATP_INJECTION_POINT("records purged");
	atp_repo_end_purge(a);
	return false;
}

/* The repository's state is locked first: who has it may write the records. */
static AtpStanding
standing(AtpApply *a, int event)
{
	AtpRepos   *repos = atp_repos_load(a, event, event + 1);
	AtpStanding there = atp_repos_standing(repos, event);

	if (there == ATP_STANDING_OBSOLETE || there == ATP_STANDING_INACTIVE)
		return there;
	atp_judge(repos, event);
	return a->batch->events[event].judged == ATP_JUDGED_TRUE ? there : ATP_STANDING_UNJUDGED;
}

static AtpStanding
row_standing(AtpApply *a, int index)
{
	const AtpRecordRow *row = &a->batch->rows[index].record;
	AtpStanding there;

	if (!a->sub->settings.keep_records)
		return ATP_STANDING_MISSING;
	there = atp_record_standing(a, row);
	/* a record that is not there needs not be removed */
	return there == ATP_STANDING_MISSING && row->action == ATP_DELETE ? ATP_STANDING_OBSOLETE : there;
}

static void
conclude(AtpApply *a)
{
	atp_judge_conclude(a);
	atp_heal_conclude(a);
}

const AtpSink atp_repos_sink = {
	.uses = ATP_USE_REPOS,
	.apply = apply,
	.accepts = accepts,
	.apply_row = apply_row,
	.apply_rest = apply_rest,
	.name = name,
	.condemn = atp_judge_condemn,
	.conclude = conclude,
	.settle = settle,
	.standing = standing,
	.row_standing = row_standing,
	.purge = purge,
};
