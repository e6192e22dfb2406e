/*
 * repo_state.c
 *		How events move the states of repositories.
 */
#include "postgres.h"

#include "clock.h"
#include "tables/repo_state.h"
#include "types/types.h"
#include "utils/builtins.h"

static bool
same_bytes(const struct varlena *a, const struct varlena *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

static bool
is_deleted(const text *status)
{
	return status != NULL && VARSIZE_ANY_EXHDR(status) == 7 && memcmp(VARDATA_ANY(status), "deleted", 7) == 0;
}

bool
atp_is_deletion(const AtpEvent *event)
{
	return event->kind == ATP_REPOS_ACCOUNT && !event->active && is_deleted(event->status);
}

AtpStanding
atp_repos_standing(AtpRepos *s, int index)
{
	const AtpEvent *event = &s->apply->batch->events[index];
	const AtpRepoState *repo = s->of_event[index - s->first];

	if (event->kind != ATP_REPOS_COMMIT && event->kind != ATP_REPOS_SYNC)
		return ATP_STANDING_NEW;
	if (!repo->active)
		return is_deleted(repo->status) ? ATP_STANDING_OBSOLETE : ATP_STANDING_INACTIVE;
	if (!repo->has_rev || event->rev > repo->rev)
		return ATP_STANDING_NEW;
	if (event->kind == ATP_REPOS_SYNC)
		return ATP_STANDING_OBSOLETE;
	return event->rev == repo->rev ? ATP_STANDING_LAST : ATP_STANDING_LATE;
}

/*
 * Is what the table says of the account newer than the event?  In one stream its
 * order tells, whatever its server's clock does; between streams there is nothing
 * but the time.  A deletion that is old must not remove what came after it.
 */
static bool
is_old_status(AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event, TimestampTz status_at)
{
	if (repo->status_endpoint != NULL && repo->has_status_seq && same_bytes(repo->status_endpoint, s->endpoint))
		return event->seq <= repo->status_seq;
	return repo->has_status && status_at < repo->status_at;
}

static void
take_account(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	TimestampTz status_at = atp_time_of_day();

	if (event->time != 0)
		status_at = Min(status_at, event->time - ATP_UNIX_TO_POSTGRES);
	if (is_old_status(s, repo, event, status_at))
	{
		s->apply->skips[ATP_SKIP_OLD]++;
		return;
	}
	repo->active = event->active;
	repo->status = event->status;
	repo->status_at = status_at;
	repo->has_status = true;
	repo->status_endpoint = s->endpoint;
	repo->status_seq = event->seq;
	repo->has_status_seq = true;
	repo->host = cstring_to_text(s->apply->sub->ep->host);
	repo->changed = true;
	if (!atp_is_deletion(event))
		return;
	effect->erase = true;
	effect->has_rev = repo->has_rev;
	effect->rev = repo->rev;
	/* what is gone is not read again, either */
	if (repo->has_rev)
	{
		repo->deleted = true;
		repo->deleted_rev = repo->rev;
	}
	repo->refill_by = NULL;
	repo->refilled = false;
}

/*
 * Of what was before the first event nothing is known.  A #sync (F-12) names its
 * revision, but does not bring what was written there.
 */
static void
note_first(AtpRepoState *repo, const AtpEvent *event)
{
	uint64		first = event->rev + (event->kind == ATP_REPOS_SYNC);

	repo->first_rev = repo->has_first ? Min(repo->first_rev, first) : first;
	repo->has_first = true;
}

/* Does the event come again because of atproto.refill()?  Then the refill is as far as it. */
static bool
take_again(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	if (repo->refill_by == NULL || !same_bytes(repo->refill_by, s->subscription))
		return false;
	repo->changed = true;
	if (!repo->has_rev || event->rev >= repo->rev)
	{
		repo->refill_by = NULL;
		repo->refilled = false;
		if (!repo->has_rev || event->rev > repo->rev)
			return false;
		note_first(repo, event);
		return true;
	}
	if (repo->refilled && event->rev <= repo->refill_rev)
		return false;
	repo->refilled = true;
	repo->refill_rev = event->rev;
	note_first(repo, event);
	return true;
}

/* Commits were missed, and what they wrote. */
static void
note_break(AtpRepos *s, AtpRepoState *repo)
{
	s->apply->skips[ATP_SKIP_BREAK]++;
	repo->changed = repo->changed || !repo->desynchronized;
	repo->desynchronized = true;
}

/*
 * F-08: a commit that does not continue what is known tells that others were
 * missed.  The tree's root decides; where one is not known, the revision.
 */
static void
check_continuity(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	bool		rev_fits = event->has_since && event->since == repo->rev;
	bool		known = event->prev_data != NULL && repo->data != NULL;
	bool		data_fits = known && same_bytes(event->prev_data, repo->data);

	/* after a deletion there are no records: only a repository that begins anew fits */
	if (repo->deleted && repo->deleted_rev == repo->rev)
	{
		rev_fits = !event->has_since;
		known = data_fits = false;
	}
	if (rev_fits && (data_fits || !known))
		return;
	if (data_fits)
		s->apply->skips[ATP_SKIP_BREAK]++;
	else
		note_break(s, repo);
}

static void
take_commit(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	int64	   *skips = s->apply->skips;

	effect->again = take_again(s, repo, event);
	effect->rows = effect->again && event->nrows > 0;
	if (effect->again)
		return;
	/* F-05, F-03 */
	if (!repo->active)
	{
		skips[ATP_SKIP_INACTIVE]++;
		return;
	}
	if (repo->has_rev && event->rev <= repo->rev)
	{
		skips[ATP_SKIP_OLD]++;
		/* another source had more, or a replay goes further back */
		if (event->kind == ATP_REPOS_COMMIT && repo->has_first && event->rev < repo->first_rev && !repo->deleted)
			note_break(s, repo);
		return;
	}
	if (event->kind == ATP_REPOS_COMMIT && repo->has_rev)
		check_continuity(s, repo, event);
	/* F-12: contents that did not come as commits */
	else if (event->kind == ATP_REPOS_SYNC && repo->data != NULL && !same_bytes(repo->data, event->data))
		repo->desynchronized = true;
	if (!repo->has_rev)
		note_first(repo, event);
	repo->has_rev = true;
	repo->rev = event->rev;
	repo->commit = event->commit;
	repo->data = event->data;
	repo->changed = true;
	effect->rows = event->nrows > 0;
}

AtpEffect
atp_repos_take(AtpRepos *s, int index)
{
	const AtpEvent *event = &s->apply->batch->events[index];
	AtpRepoState  *repo = s->of_event[index - s->first];
	AtpEffect	effect = {0};

	switch (event->kind)
	{
		case ATP_REPOS_COMMIT:
		case ATP_REPOS_SYNC:
			take_commit(s, repo, event, &effect);
			break;
		case ATP_REPOS_IDENTITY:
			if (event->handle != NULL)
				repo->handle = event->handle;
			repo->changed = true;
			break;
		case ATP_REPOS_ACCOUNT:
			take_account(s, repo, event, &effect);
			break;
		case ATP_REPOS_INFO:
		case ATP_REPOS_UNKNOWN:
			break;
	}
	return effect;
}
