/*
 * repo_archived.c
 *		The effect of a row of an archive on the state of its repository, where other sources fill the same tables
 *		(H-34, H-43, H-44).
 *
 * An archive is older than what the other writers of the tables bring, and has no proof.  Rows of the archive move neither the
 * revision nor the commit of a repository: older commits, which only a relay brings, would count as old.  Rows of the archive add, change
 * and remove records where the tables know nothing newer.  test/models/sweep.pml has the rules, each with the harm without the rule.
 *
 * Invariant: every row writes the repository's row, which is the lock for the kept deletions (records/sweep_deletion.h).
 */
#include "postgres.h"

#include "config/spi.h"
#include "core/syntax/tid.h"
#include "source.h"
#include "tables/base/proved_set.h"
#include "tables/base/sweep.h"
#include "tables/repos/repo_state.h"
#include "types/foreign_time.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

/* The collections of a set, kept until another set is asked for. */
static const AtpProvedSet *
read_set(int64 id)
{
	static MemoryContext cxt = NULL;
	static AtpProvedSet set;
	static int64 last;
	MemoryContext old;
	AtpCaller	caller;
	AtpResult	rows;

	if (cxt != NULL && last == id)
		return &set;
	if (cxt == NULL)
		cxt = AllocSetContextCreate(TopMemoryContext, "atproto proved set", ALLOCSET_SMALL_SIZES);
	MemoryContextReset(cxt);
	last = -1;
	caller = atp_as_table_owner("proved_set");
	rows = atp_query("SELECT collections FROM atproto.proved_set WHERE id = $1 LIMIT 1", ATP_ARGS(atp_int8_arg(id)));
	old = MemoryContextSwitchTo(cxt);
	set = rows.n > 0 ? atp_proved_set_read(atp_result_row(rows, 0)) : atp_proved_set(0, NULL);
	MemoryContextSwitchTo(old);
	atp_result_free(rows);
	atp_owner_end(caller);
	last = id;
	return &set;
}

/* Has the proved set the collections of this row?  The archive may have a wider filter than the set. */
static bool
is_in_set(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	AtpProvedSet own = atp_proved_kept(&s->apply->sub->settings);
	const AtpProvedSet *set;
	char	   *collection;

	if (repo->proved.set == ATP_PROVED_ALL || repo->proved.set == atp_proved_id(&own))
		return true;
	set = read_set(repo->proved.set);
	if (event->nrows == 0)
		return atp_proved_covers(set, &own);
	for (int r = event->first_row; r < event->first_row + event->nrows; r++)
	{
		collection = atp_nsid_cstring(s->apply->batch->rows[r].record.collection);
		own = atp_proved_set(1, &collection);
		if (!atp_proved_covers(set, &own))
			return false;
	}
	return true;
}

/* H-43: were the records all of the account's at this revision or later?  Then the archive's row tells nothing new. */
static bool
is_proved(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event, uint64 rev)
{
	return repo->proved.has_rev && repo->proved.has_set && rev <= repo->proved.rev && is_in_set(s, repo, event);
}

/* Was the account deleted after this revision, as another stream has said before the sweep began? */
static bool
is_deleted_since(const AtpRepoState *repo, uint64 rev)
{
	if (repo->account.deleted && rev <= repo->account.deleted_rev)
		return true;
	return atp_repo_is_deleted(repo) && repo->account.has_status && atp_foreign_time(atp_tid_micros(rev)) <= repo->account.status_at;
}

/* The row is going to change the tables: what is known of the account is at least as new as rev. */
static void
note_shown(AtpRepoState *repo, uint64 rev)
{
	if (!repo->head.has_history || repo->head.history_rev < rev)
	{
		repo->head.has_history = true;
		repo->head.history_rev = rev;
	}
	/* the table gets a record of a later revision than the proved revision */
	if (atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED) || atp_repo_is_sync(repo, ATP_SYNC_UNPROVEN))
		(void) atp_repo_set_sync(repo, ATP_SYNC_PARTIAL);
	/* a part of the export was compared with the records before this row: the repository is fetched once more */
	else if (atp_repo_is_sync(repo, ATP_SYNC_RESYNCING))
		(void) atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
}

bool
atp_repo_note_archived(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, uint64 rev)
{
	repo->row.changed = true;
	if (is_proved(s, repo, event, rev) || (event->kind != ATP_REPOS_ACCOUNT && is_deleted_since(repo, rev)))
	{
		s->apply->skips[ATP_SKIP_OLD]++;
		event->effects.passed = true;
		return false;
	}
	note_shown(repo, rev);
	return true;
}

/* Need the row's deletions not be kept, because no other writer has older facts of the account to bring? */
static bool
needs_no_keeping(const AtpRepos *s, const AtpRepoState *repo, uint64 rev)
{
	if (s->apply->sweep != ATP_SWEEP_SHARED)
		return true;
	return !repo->hold.waits && atp_sweep_is_passed(atp_target(s->apply->statements), s->apply->sub->name, rev);
}

static void
take_commit(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	bool		unkept = needs_no_keeping(s, repo, event->rev);

	for (int r = event->first_row; r < event->first_row + event->nrows; r++)
		s->apply->batch->rows[r].record.unkept = unkept;
	effect->rows = event->nrows > 0;
}

static void
take_deletion(AtpRepos *s, const AtpRepoState *repo, uint64 bound, AtpEffect *effect)
{
	effect->erase = true;
	effect->has_rev = true;
	effect->rev = bound;
	effect->unkept = needs_no_keeping(s, repo, bound);
}

/* A #sync names the account's records within the filter: those of older revisions go. */
static void
take_sync(AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	if (event->rev == 0)
		return;
	effect->replace = true;
	effect->rev = event->rev - 1;
	effect->unkept = needs_no_keeping(s, repo, event->rev - 1);
}

void
atp_repo_revive(const AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	const AtpRepoAccount *account = &repo->account;

	if (s->apply->sweep != ATP_SWEEP_SHARED || account->active || event->kind != ATP_REPOS_COMMIT || event->held != NULL)
		return;
	if (!account->has_status || account->status_endpoint == NULL || atp_same_bytes(account->status_endpoint, s->endpoint) ||
		atp_foreign_time(atp_tid_micros(event->rev)) <= account->status_at)
		return;
	repo->account.active = true;
	repo->account.status = NULL;
	repo->row.changed = true;
}

/* Was the account seen active after this status, by a stream with whole commits? */
static bool
is_overtaken_status(const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->head.has_rev && !event->active && atp_foreign_time(atp_repo_written_at(event)) < atp_foreign_time(atp_tid_micros(repo->head.rev));
}

void
atp_repo_take_archived(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	bool		deletes = atp_is_deletion(event);
	uint64		rev = deletes ? atp_repo_event_bound(event) : event->rev;

	event->verdict = (AtpEventVerdict) {.judged = ATP_JUDGED_TRUE, .asked_at = DT_NOBEGIN};
	repo->row.changed = true;
	if (event->kind == ATP_REPOS_IDENTITY)
		atp_repo_take_identity(s, repo, event);
	/* statuses are ordered by themselves; what a deletion says of the records stays true whatever came later */
	if (event->kind == ATP_REPOS_ACCOUNT && (is_overtaken_status(repo, event) || !atp_repo_take_status(s, repo, event)))
		s->apply->skips[ATP_SKIP_OLD]++;
	if (!deletes && event->kind != ATP_REPOS_COMMIT && event->kind != ATP_REPOS_SYNC)
		return;
	if (!atp_repo_note_archived(s, repo, event, rev))
		return;
	if (deletes)
		take_deletion(s, repo, rev, effect);
	else if (event->kind == ATP_REPOS_SYNC)
		take_sync(s, repo, event, effect);
	else
		take_commit(s, repo, event, effect);
}
