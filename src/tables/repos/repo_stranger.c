/*
 * repo_stranger.c
 *		Which events make a row of table repo, for an account of which the tables have nothing yet (H-34).
 */
#include "postgres.h"

#include "source.h"
#include "tables/repos/multi_source.h"
#include "tables/repos/repo_state.h"

/*
 * F-15: does an active status make a row?  Without the row, an older status, of a stream that is behind or read again, would count as the
 * newest status, and an old deletion would remove the records that came after the deletion.  A relay names few accounts without a commit.
 */
static bool
keeps_active(AtpRepos *s)
{
	if (!s->asked_filled)
		s->filled = s->apply->sub->source->has_chain || atp_multi_source_is_filled(s->apply);
	s->asked_filled = true;
	return s->filled;
}

bool
atp_repo_makes_row(AtpRepos *s, const AtpEvent *event)
{
	const AtpSubscription *sub = s->apply->sub;

	if (sub->settings.ncollections < 0 || sub->settings.ndids >= 0 || event->nrows > 0 || event->lacking || event->held != NULL)
		return true;
	if (event->of_archive)
		return false;
	if (sub->settings.backfill == ATP_BACKFILL_SEEN || sub->settings.backfill == ATP_BACKFILL_NETWORK)
		return true;
	return event->kind != ATP_REPOS_IDENTITY && (event->kind != ATP_REPOS_ACCOUNT || !event->active || keeps_active(s));
}

bool
atp_repo_is_stranger(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	repo->row.wanted |= (repo->row.found && !repo->row.added) || (repo->row.needed && atp_repo_makes_row(s, event));
	return !repo->row.wanted;
}
