/*
 * repo_state.c
 *		How events move the states of repositories.
 */
#include "postgres.h"

#include "clock.h"
#include "source.h"
#include "stream/stream_time.h"
#include "tables/judge.h"
#include "tables/record.h"
#include "tables/repo_paths.h"
#include "tables/repo_state.h"
#include "tables/status_wish.h"
#include "types/types.h"
#include "utils/builtins.h"

static bool
same_bytes(const struct varlena *a, const struct varlena *b)
{
	return VARSIZE_ANY_EXHDR(a) == VARSIZE_ANY_EXHDR(b) &&
		memcmp(VARDATA_ANY(a), VARDATA_ANY(b), VARSIZE_ANY_EXHDR(a)) == 0;
}

static const char *const sync_names[] = {
	[ATP_SYNC_PARTIAL] = "partial",
	[ATP_SYNC_UNPROVEN] = "unproven",
	[ATP_SYNC_DESYNCHRONIZED] = "desynchronized",
	[ATP_SYNC_RESYNCING] = "resyncing",
	[ATP_SYNC_SYNCHRONIZED] = "synchronized",
};

/* A user may have dropped the constraint by which it is not null. */
static bool
is_text(const text *value, const char *name)
{
	return value != NULL && VARSIZE_ANY_EXHDR(value) == strlen(name) &&
		memcmp(VARDATA_ANY(value), name, strlen(name)) == 0;
}

static bool
is_sync(const AtpRepoState *repo, AtpSync sync)
{
	return is_text(repo->sync, sync_names[sync]);
}

bool
atp_repo_is_held(const AtpRepoState *repo, const char *why)
{
	return is_text(repo->hold, why);
}

bool
atp_repo_set_sync(AtpRepoState *repo, AtpSync sync)
{
	if (is_sync(repo, sync))
		return false;
	repo->sync = cstring_to_text(sync_names[sync]);
	return true;
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

/* After a deletion there are no records: only a repository that begins anew continues it. */
static bool
is_empty(const AtpRepoState *repo)
{
	return !repo->has_rev || (repo->deleted && repo->deleted_rev == repo->rev);
}

bool
atp_repo_is_deleted(const AtpRepoState *repo)
{
	return !repo->active && is_deleted(repo->status) && is_empty(repo);
}

AtpStanding
atp_repos_standing(AtpRepos *s, int index)
{
	const AtpEvent *event = &s->apply->batch->events[index];
	const AtpRepoState *repo = s->of_event[index - s->first];

	if (event->kind != ATP_REPOS_COMMIT && event->kind != ATP_REPOS_SYNC)
		return ATP_STANDING_NEW;
	if (!repo->active)
		return atp_repo_is_deleted(repo) ? ATP_STANDING_OBSOLETE : ATP_STANDING_INACTIVE;
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
		/* where positions are times, two events may have the same */
		return event->seq < repo->status_seq || (event->seq == repo->status_seq && s->apply->sub->source->rewind == 0);
	return repo->has_status && status_at < repo->status_at;
}

void
atp_repo_doubt(const AtpRepoState *repo, AtpEvent *event)
{
	event->doubts = true;
	event->has_status = repo->has_status;
	event->status_at = repo->status_at;
	event->has_status_seq = repo->has_status_seq;
	event->status_seq = repo->status_seq;
}

/* Commits were missed, and what they wrote. */
static void
note_break(AtpRepos *s, AtpRepoState *repo)
{
	s->apply->skips[ATP_SKIP_BREAK]++;
	repo->changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
}

static void
take_account(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	TimestampTz status_at = atp_time_of_day();

	/* V-47; of what is being fetched for the first time there may be records, too */
	bool		has_some = !is_empty(repo) || atp_repo_is_held(repo, "resync");

	event->unconfirmed = s->identities != NULL && atp_purge_after_s > 0 && atp_is_deletion(event) && has_some;
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
	/* a position that is a time which has not come tells no order: those that follow would count no more */
	repo->has_status_seq = s->apply->sub->source->rewind == 0 || !atp_is_ahead(event->seq);
	repo->host = cstring_to_text(s->apply->sub->ep->host);
	repo->changed = true;
	/* they are obsolete, and must not outlive a deletion */
	event->closes = repo->gap && !repo->active;
	/* who else has them will bring them too late, or never */
	if (event->closes && !atp_is_deletion(event))
		note_break(s, repo);
	if (event->unconfirmed || (event->by_stranger && !repo->active && has_some))
		atp_repo_doubt(repo, event);
	if (event->unconfirmed || !atp_is_deletion(event))
		return;
	effect->erase = true;
	effect->has_rev = repo->has_rev;
	effect->rev = repo->rev;
	/* what is gone is not read again, either */
	if (repo->has_rev)
	{
		repo->deleted = true;
		repo->deleted_rev = repo->rev;
		repo->rev_paths = NULL;
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

bool
atp_repos_came_by_others(const AtpRepos *s, const AtpEvent *event)
{
	return event->held != NULL && !same_bytes(event->held->subscription, s->subscription);
}

bool
atp_repo_is_refilled(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->refill_by != NULL && same_bytes(repo->refill_by, event->held != NULL ? event->held->subscription : s->subscription);
}

bool
atp_repo_is_forked(const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->has_rev && event->rev == repo->rev && event->commit != NULL && repo->commit != NULL &&
		!same_bytes(event->commit, repo->commit);
}

bool
atp_repo_is_old(const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->has_rev && (event->rev < repo->rev ||
							 (event->rev == repo->rev && (repo->rev_paths == NULL || event->kind != ATP_REPOS_COMMIT)));
}

uint64
atp_repo_floor(const AtpRepoState *repo)
{
	return repo->has_first && !repo->deleted && !is_sync(repo, ATP_SYNC_SYNCHRONIZED) && !is_sync(repo, ATP_SYNC_RESYNCING)
		? repo->first_rev : 0;
}

/* Another source had more, or a replay goes further back. */
bool
atp_repo_lacks(const AtpRepoState *repo, const AtpEvent *event)
{
	return event->kind == ATP_REPOS_COMMIT && event->rev < atp_repo_floor(repo);
}

/* A source that has no chain may lack the one, and have the next one. */
bool
atp_repo_is_overtaken(const AtpRepoState *repo, const AtpEvent *event)
{
	return !event->partial && repo->has_rev && repo->rev_paths != NULL &&
		event->rev < repo->rev && !(repo->deleted && event->rev <= repo->deleted_rev);
}

/* Does the event come again because of atproto.refill()?  Then the refill is as far as it. */
static bool
take_again(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	if (!atp_repo_is_refilled(s, repo, event))
		return false;
	repo->changed = true;
	/* of a revision there may be more events than one */
	if (!repo->has_rev || event->rev >= repo->rev + event->partial)
	{
		repo->refill_by = NULL;
		repo->refilled = false;
		if (!repo->has_rev || event->rev > repo->rev)
			return false;
		note_first(repo, event);
		return true;
	}
	if (repo->refilled && event->rev + event->partial <= repo->refill_rev)
		return false;
	repo->refilled = true;
	repo->refill_rev = event->rev;
	note_first(repo, event);
	return true;
}

/*
 * F-08, V-31 to V-33: a commit that does not continue what is known tells that others
 * were missed.  The tree's root decides; where one is not known, the revision.
 */
static void
check_continuity(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	bool		rev_fits = event->has_since && event->since == repo->rev;
	bool		known = event->prev_data != NULL && repo->data != NULL;
	bool		data_fits = known && same_bytes(event->prev_data, repo->data);

	if (is_empty(repo))
	{
		rev_fits = !event->has_since;
		known = data_fits = false;
	}
	if (rev_fits && (data_fits || !known))
		return;
	if (data_fits)
		s->apply->skips[ATP_SKIP_SKIPPED_REVS]++;
	else
		note_break(s, repo);
}

/* Do the records of a #sync follow?  Nothing says which one is the last; what comes in parts after them has no tree. */
static bool
begins_anew(const AtpRepoState *repo)
{
	return repo->rev_paths != NULL && repo->data != NULL;
}

/* What a commit that is newer says of the records in the tables. */
static void
judge_commit(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	/* V-35: nothing was before it, and we know all that it does */
	if (event->proven == ATP_OPS_PROVEN_FIRST && is_empty(repo))
		(void) atp_repo_set_sync(repo, ATP_SYNC_SYNCHRONIZED);
	/* F-42: the rest of the records would be older now */
	else if (!event->partial && begins_anew(repo))
		note_break(s, repo);
	/* what comes in parts does not say what was before it */
	else if (repo->has_rev && !event->partial)
		check_continuity(s, repo, event);
	if (event->proven == ATP_OPS_INCOMPLETE)
		s->apply->skips[ATP_SKIP_INCOMPLETE]++;
	/* V-27; or it was not asked what else the commit did */
	if (event->proven == ATP_NOT_ASKED && (is_sync(repo, ATP_SYNC_SYNCHRONIZED) || is_sync(repo, ATP_SYNC_UNPROVEN)))
		(void) atp_repo_set_sync(repo, ATP_SYNC_PARTIAL);
	else if ((event->proven == ATP_OPS_INCOMPLETE || event->lacking) && is_sync(repo, ATP_SYNC_SYNCHRONIZED))
		s->unproven |= atp_repo_set_sync(repo, ATP_SYNC_UNPROVEN);
}

/* V-17, V-26: the account has made a commit, but what it did is not known.  Its letter says so, and counts it. */
static void
take_refuted(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	if (event->mismatch)
		s->apply->skips[ATP_SKIP_MISMATCH]++;
	if (repo->active && (!repo->has_rev || event->rev > repo->rev))
		repo->changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
}

/* F-12, V-36: has a #sync other contents than the tables, as far as anybody can tell? */
static bool
announces_others(const AtpRepoState *repo, const AtpEvent *event)
{
	if (is_empty(repo))
		return repo->has_rev || event->proven != ATP_NOT_ASKED;
	/* of what came in parts the tree is not known */
	return repo->data == NULL || !same_bytes(repo->data, event->data);
}

/* Which of a commit's operations have come one by one. */
static void
note_known(AtpBatch *batch, const AtpEvent *event, const bytea *paths)
{
	for (int r = event->first_row; r < event->first_row + event->nrows; r++)
		batch->rows[r].known = paths != NULL && !event->partial && atp_paths_have(paths, atp_path_hash(batch->rows[r].path));
}

/* F-42: the records that follow are those that there are now. */
static void
begin_anew(AtpRepoState *repo, AtpEffect *effect)
{
	effect->erase = repo->has_rev;
	effect->has_rev = repo->has_rev;
	effect->rev = repo->rev;
	if (!is_sync(repo, ATP_SYNC_RESYNCING))
		(void) atp_repo_set_sync(repo, ATP_SYNC_PARTIAL);
}

/* What has been taken of the event's revision, when it has. */
static bytea *
paths_with(const AtpRepoState *repo, const AtpEvent *event, bool rest)
{
	bytea	   *paths = rest ? repo->rev_paths : NULL;

	if (!event->partial)
		return NULL;
	/* a record that is not what its CID says was not taken: another source may have it */
	if (event->kind == ATP_REPOS_SYNC || (event->lacking && event->nrows == 0))
		return paths != NULL && event->kind != ATP_REPOS_SYNC ? paths : atp_paths_none();
	return atp_paths_add(paths, event->path);
}

/* Has an old event something that the tables lack?  Of one without operations that are wanted nobody can tell. */
static bool
tells_of_loss(AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	if (!event->partial && atp_repo_lacks(repo, event))
		return event->nrows == 0 || atp_records_lack(s->apply, event);
	return !s->apply->again && atp_repo_is_overtaken(repo, event) &&
		(event->kind == ATP_REPOS_SYNC || atp_records_lack(s->apply, event));
}

static void
take_commit(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	int64	   *skips = s->apply->skips;
	bool		rest;			/* of a revision of which something has been taken */

	if (event->proven == ATP_OPS_REFUTED)
		take_refuted(s, repo, event);
	if (event->proven == ATP_OPS_REFUTED || event->proven == ATP_REV_AHEAD)
		return;
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
	rest = repo->has_rev && event->rev == repo->rev;
	if (atp_repo_is_old(repo, event) || (rest && event->partial && atp_paths_have(repo->rev_paths, event->path)))
	{
		skips[ATP_SKIP_OLD]++;
		if (tells_of_loss(s, repo, event))
			note_break(s, repo);
		return;
	}
	note_known(s->apply->batch, event, rest ? repo->rev_paths : NULL);
	if (event->kind == ATP_REPOS_COMMIT && !rest)
		judge_commit(s, repo, event);
	else if (event->kind == ATP_REPOS_SYNC && event->partial)
		begin_anew(repo, effect);
	else if (event->kind == ATP_REPOS_SYNC && announces_others(repo, event))
		(void) atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	if (!repo->has_rev)
		note_first(repo, event);
	/* what was before it came in parts, if at all: another source may bring it later */
	else if (repo->rev_paths != NULL && !event->partial && event->kind == ATP_REPOS_COMMIT)
	{
		repo->first_rev = event->rev;
		repo->has_first = true;
	}
	repo->has_rev = true;
	repo->rev = event->rev;
	event->closes = repo->gap && event->held == NULL;
	if (!rest || !event->partial)
	{
		repo->commit = event->commit;
		repo->data = event->data;
		repo->verified = event->signature != NULL;
	}
	repo->rev_paths = paths_with(repo, event, rest);
	repo->changed = true;
	effect->rows = event->nrows > 0;
}

/*
 * what the event tells of a repository that is followed, and not in step; or of which
 * nobody knows what was there before.  At level full only what the account has signed says so.
 */
static AtpFetchWhy
why_fetched(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	AtpBackfill backfill = s->apply->sub->settings.backfill;

	if (backfill == ATP_BACKFILL_NONE || !repo->active || (event->kind != ATP_REPOS_COMMIT && event->kind != ATP_REPOS_SYNC))
		return ATP_FETCH_NOT;
	if (is_sync(repo, ATP_SYNC_DESYNCHRONIZED))
		return event->proven == ATP_OPS_REFUTED ? ATP_FETCH_MISMATCH
			: event->judged == ATP_JUDGED_IGNORED ? ATP_FETCH_FORK
			: event->kind == ATP_REPOS_SYNC ? ATP_FETCH_SYNC : ATP_FETCH_BREAK;
	/* at level hash it stays so */
	return backfill >= ATP_BACKFILL_SEEN && is_sync(repo, ATP_SYNC_PARTIAL) && !repo->has_synced ? ATP_FETCH_SEEN : ATP_FETCH_NOT;
}

void
atp_repo_note_held(AtpRepoState *repo, const AtpEvent *event)
{
	bool		gap = event->why_held == ATP_HELD_GAP;

	if (event->held == NULL)
	{
		repo->adds = true;
		if (gap)
			repo->first_held = repo->waits ? Min(repo->first_held, event->rev) : event->rev;
	}
	if (event->why_held != ATP_HELD_ORDER)
		repo->gap = gap;
	repo->waits = true;
	/* what waits for a commit from the stream does not keep that back */
	repo->stays |= event->held != NULL || !repo->gap;
}

/* It has no effect on rows (judge.h). */
static void
pass_over(AtpRepos *s, AtpRepoState *repo, AtpEvent *event)
{
	int64	   *skips = s->apply->skips;

	switch (event->judged)
	{
		case ATP_JUDGED_HELD:
			atp_repo_note_held(repo, event);
			skips[ATP_SKIP_HELD] += event->held == NULL;
			break;
		case ATP_JUDGED_FALSE:
			skips[ATP_SKIP_BAD_SIGNATURE]++;
			break;
		default:
			skips[event->ignored_as]++;
			/* V-15: which of the two is the account's, only its server knows */
			if (event->ignored_as == ATP_SKIP_FORKED)
			{
				repo->changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
				event->fetch = why_fetched(s, repo, event);
			}
	}
}

AtpEffect
atp_repos_take(AtpRepos *s, int index)
{
	AtpEvent   *event = &s->apply->batch->events[index];
	AtpRepoState  *repo = s->of_event[index - s->first];
	AtpEffect	effect = {0};

	event->fetch = ATP_FETCH_NOT;
	event->closes = false;
	if (!s->judged)
		atp_judge(s, index);
	if (event->judged != ATP_JUDGED_TRUE)
	{
		pass_over(s, repo, event);
		return effect;
	}
	if (event->signature != NULL)
		s->apply->skips[ATP_SKIP_VERIFIED]++;
	switch (event->kind)
	{
		case ATP_REPOS_COMMIT:
		case ATP_REPOS_SYNC:
			take_commit(s, repo, event, &effect);
			event->fetch = why_fetched(s, repo, event);
			break;
		case ATP_REPOS_IDENTITY:
			if (event->handle != NULL)
				repo->handle = event->handle;
			repo->changed = true;
			break;
		case ATP_REPOS_ACCOUNT:
			take_account(s, repo, event, &effect);
			event->fetch = effect.erase ? ATP_FETCH_DELETED : repo->active ? ATP_FETCH_ACTIVE : ATP_FETCH_INACTIVE;
			break;
		case ATP_REPOS_INFO:
		case ATP_REPOS_UNKNOWN:
			break;
	}
	return effect;
}
