/*
 * repo_state.c
 *		What the state of a repository says, and the marks that several files set in it.
 *
 * Most functions answer a question about a state and an event, and change neither.  Whether an event is admitted is decided
 * in admission.c, an event's effect in repo_effect.c; the rows are read and written in repo.c.
 */
#include "postgres.h"

#include "source.h"
#include "tables/records/record.h"
#include "tables/repos/repo_state.h"
#include "types/foreign_time.h"
#include "types/types.h"
#include "utils/builtins.h"

static const char *const sync_names[] = {
	[ATP_SYNC_PARTIAL] = "partial",
	[ATP_SYNC_UNPROVEN] = "unproven",
	[ATP_SYNC_DESYNCHRONIZED] = "desynchronized",
	[ATP_SYNC_RESYNCING] = "resyncing",
	[ATP_SYNC_SYNCHRONIZED] = "synchronized",
};

/* The value may be NULL even in a NOT NULL column: a user may have dropped the constraint. */
static bool
is_text(const text *value, const char *name)
{
	return value != NULL && VARSIZE_ANY_EXHDR(value) == strlen(name) &&
		memcmp(VARDATA_ANY(value), name, strlen(name)) == 0;
}

text *
atp_sync_word(AtpSync sync)
{
	return cstring_to_text(sync_names[sync]);
}

bool
atp_is_sync_word(const text *word, AtpSync sync)
{
	return is_text(word, sync_names[sync]);
}

bool
atp_repo_is_sync(const AtpRepoState *repo, AtpSync sync)
{
	return atp_is_sync_word(repo->sync.word, sync);
}

bool
atp_repo_set_sync(AtpRepoState *repo, AtpSync sync)
{
	if (atp_repo_is_sync(repo, sync))
		return false;
	repo->sync.word = atp_sync_word(sync);
	return true;
}

bool
atp_repo_give_up(AtpApply *a, AtpRepoState *repo)
{
	/* the first fetch of the repository may have written some records, which the account may have removed since */
	if (atp_repo_is_sync(repo, ATP_SYNC_RESYNCING))
		repo->row.changed |= atp_repo_set_sync(repo, repo->head.has_rev || atp_records_any(a, repo->did) ? ATP_SYNC_DESYNCHRONIZED : ATP_SYNC_PARTIAL);
	return atp_hold_fetched(&repo->hold);
}

bool
atp_repo_fetch_is_whole(const AtpRepoState *repo)
{
	return repo->hold.state != ATP_HOLD_RESYNC || atp_repo_is_sync(repo, ATP_SYNC_RESYNCING);
}

static bool
is_deleted(const text *status)
{
	return is_text(status, "deleted");
}

bool
atp_is_deletion(const AtpEvent *event)
{
	return event->kind == ATP_REPOS_ACCOUNT && !event->active && is_deleted(event->status);
}

bool
atp_repo_is_empty(const AtpRepoState *repo)
{
	return !repo->head.has_rev || (repo->account.deleted && repo->account.deleted_rev == repo->head.rev);
}

bool
atp_repo_is_audited(const AtpRepoState *repo)
{
	return atp_repo_is_sync(repo, ATP_SYNC_UNPROVEN) && (repo->refill.sync == NULL || repo->refill.by == NULL) && repo->head.data != NULL &&
		!(repo->head.has_rev && repo->account.deleted && repo->account.deleted_rev == repo->head.rev);
}

bool
atp_repo_is_deleted(const AtpRepoState *repo)
{
	return !repo->account.active && is_deleted(repo->account.status) && atp_repo_is_empty(repo);
}

AtpStanding
atp_repos_standing(AtpRepos *s, int index)
{
	const AtpEvent *event = &s->apply->batch->events[index];
	const AtpRepoState *repo = s->of_event[index - s->first];

	if (event->kind != ATP_REPOS_COMMIT && event->kind != ATP_REPOS_SYNC)
		return ATP_STANDING_NEW;
	if (!repo->account.active)
		return atp_repo_is_deleted(repo) ? ATP_STANDING_OBSOLETE : ATP_STANDING_INACTIVE;
	/* records of a deleted account do not come back when the account begins again */
	if (repo->account.deleted && event->rev <= repo->account.deleted_rev)
		return ATP_STANDING_OBSOLETE;
	if (!repo->head.has_rev || event->rev > repo->head.rev) /* T-12 */
		return ATP_STANDING_NEW;
	if (event->kind == ATP_REPOS_SYNC)
		return ATP_STANDING_OBSOLETE;
	return event->rev == repo->head.rev ? ATP_STANDING_LAST : ATP_STANDING_LATE;
}

bool
atp_repo_has_status_of(const AtpRepoState *repo, const text *endpoint)
{
	const AtpRepoAccount *account = &repo->account;

	return endpoint != NULL && account->status_endpoint != NULL && account->has_status_seq &&
		atp_same_bytes(account->status_endpoint, endpoint);
}

void
atp_repo_doubt(const AtpRepoState *repo, AtpEvent *event)
{
	event->effects.doubts = true;
	event->effects.has_status = repo->account.has_status;
	event->effects.status_at = repo->account.status_at;
	event->effects.has_status_seq = repo->account.has_status_seq;
	event->effects.status_seq = repo->account.status_seq;
}

void
atp_repo_note_break(AtpRepos *s, AtpRepoState *repo)
{
	s->apply->skips[ATP_SKIP_BREAK]++;
	repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
}


uint64
atp_event_first(const AtpEvent *event)
{
	return event->rev + (event->kind == ATP_REPOS_SYNC);
}

void
atp_repo_note_first(AtpRepoState *repo, uint64 first)
{
	repo->head.first_rev = repo->head.has_first ? Min(repo->head.first_rev, first) : first;
	repo->head.has_first = true;
}

bool
atp_repos_came_by_others(const AtpRepos *s, const AtpEvent *event)
{
	return event->held != NULL && !atp_same_bytes(event->held->subscription, s->subscription);
}

bool
atp_repo_is_forked(const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->head.has_rev && event->rev == repo->head.rev && event->commit != NULL && repo->head.commit != NULL &&
		!atp_same_bytes(event->commit, repo->head.commit);
}

bool
atp_repo_is_old(const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->head.has_rev && (event->rev < repo->head.rev ||
								  (event->rev == repo->head.rev && (repo->head.rev_paths == NULL || event->kind != ATP_REPOS_COMMIT)));
}

uint64
atp_repo_floor(const AtpRepoState *repo)
{
	return repo->head.has_first && !repo->account.deleted &&
		!atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED) && !atp_repo_is_sync(repo, ATP_SYNC_RESYNCING)
		? repo->head.first_rev : 0;
}

AtpVerify
atp_event_level(const AtpRepos *s, const AtpEvent *event)
{
	return event->held != NULL ? event->held->level : s->apply->sub->settings.verify;
}

bool
atp_repo_is_inactive(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	const AtpHeldRow *held = event->held;

	/* a deletion removes all earlier records, so a held event must not bring them back */
	if (repo->account.active || held == NULL || atp_repo_is_deleted(repo))
		return !repo->account.active;
	if (atp_repo_has_status_of(repo, held->endpoint) && held->source->rewind == 0)
		return event->seq >= repo->account.status_seq;
	/* events of different streams, or with positions that are times, can only be compared by time (is_old_status) */
	return event->time == 0 || !repo->account.has_status || atp_foreign_time(event->time) >= repo->account.status_at;
}

/* A second source may have more commits than ours had, or a replay may go further back. */
bool
atp_repo_lacks(const AtpRepoState *repo, const AtpEvent *event)
{
	return event->kind == ATP_REPOS_COMMIT && event->rev < atp_repo_floor(repo);
}

/* A source without a chain may miss a commit and deliver the next commit without showing a gap. */
bool
atp_repo_is_overtaken(const AtpRepoState *repo, const AtpEvent *event)
{
	return !event->partial && repo->head.has_rev && repo->head.rev_paths != NULL &&
		event->rev < repo->head.rev && !(repo->account.deleted && event->rev <= repo->account.deleted_rev);
}
