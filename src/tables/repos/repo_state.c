/*
 * repo_state.c
 *		How events move the states of repositories.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/spi.h"
#include "source.h"
#include "stream/stream_time.h"
#include "tables/repos/admission.h"
#include "tables/records/record.h"
#include "tables/repos/repo_paths.h"
#include "tables/repos/repo_state.h"
#include "tables/repos/status_request.h"
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
	/* what went with a deleted account does not come back with the next one */
	if (repo->deleted && event->rev <= repo->deleted_rev)
		return ATP_STANDING_OBSOLETE;
	if (!repo->has_rev || event->rev > repo->rev)
		return ATP_STANDING_NEW;
	if (event->kind == ATP_REPOS_SYNC)
		return ATP_STANDING_OBSOLETE;
	return event->rev == repo->rev ? ATP_STANDING_LAST : ATP_STANDING_LATE;
}

/*
 * The time of an #account or #identity event as far as it orders events: never later than this
 * machine's time of day, or one event of a wrong clock would make all that follow it old.  Where
 * positions are times, the events of one account are ordered by this time first.  There it must be
 * the same when the event comes again, so it may lie as far ahead as a clock may be wrong.
 */
static TimestampTz
own_time(const AtpRepos *s, const AtpEvent *event)
{
	TimestampTz now = atp_time_of_day();

	if (event->time == 0)
		return now;
	if (s->apply->sub->source->rewind > 0 && !atp_is_ahead(event->time))
		return event->time - ATP_UNIX_TO_POSTGRES;
	return Min(now, event->time - ATP_UNIX_TO_POSTGRES);
}

/*
 * Is what the table says of the account newer than the event?  In a stream whose positions are
 * numbers the position decides, whatever the clock of the events' server does.  A position that is
 * a time (Jetstream's first version) may go back from one event of an account to the next, but by no
 * more than the source's rewind: an event whose position is later by more than that is newer.  The
 * events' own times cannot tell that, because a former server's clock may be ahead of the present one's.
 * Where the positions are closer, or went back, the events' own time decides, and the position between events
 * of the same time.  Between streams there is nothing but the time.  A deletion that is old must not remove
 * what came after it.
 */
static bool
is_old_status(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event, TimestampTz status_at)
{
	bool		same_stream = repo->status_endpoint != NULL && repo->has_status_seq && same_bytes(repo->status_endpoint, s->endpoint);
	int64		rewind = s->apply->sub->source->rewind;

	if (same_stream && rewind == 0)
		return event->seq <= repo->status_seq;
	if (same_stream && event->seq > repo->status_seq && event->seq - repo->status_seq > rewind)
		return false;
	if (!repo->has_status || status_at > repo->status_at)
		return false;
	return status_at < repo->status_at || (same_stream && event->seq < repo->status_seq);
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

/* F-15: what waits came before the deletion, and goes with it (atp_held_erase()), but for events that the subscription does not take. */
static void
forget_held(AtpRepoState *repo)
{
	if (atp_repo_is_held(repo, "resync"))
		return;
	repo->nheld = repo->nown = repo->nunread = repo->nbeyond = 0;
	repo->waits = repo->adds = repo->stays = repo->gap = false;
	if (repo->nothers > 0)
		return;
	repo->any_gap = false;
	repo->hold = NULL;
}

static void
take_account(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	TimestampTz status_at = own_time(s, event);

	/* V-47; of what is being fetched for the first time there may be records, too */
	bool		has_some = !is_empty(repo) || atp_repo_is_held(repo, "resync");

	event->unconfirmed = s->apply->sub->settings.verify == ATP_VERIFY_FULL && atp_purge_after_s > 0 && atp_is_deletion(event) && has_some;
	if (is_old_status(s, repo, event, status_at))
	{
		s->apply->skips[ATP_SKIP_OLD]++;
		event->passed = true;
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
	event->closes = repo->any_gap && !repo->active;
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
	atp_repo_forget_refill(repo);
	forget_held(repo);
}

/* F-15: a hint.  Where positions are times, an older handle must not replace a newer one. */
static void
take_identity(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	TimestampTz handle_at = own_time(s, event);

	if (s->apply->sub->source->rewind > 0 && repo->has_handle_at && handle_at < repo->handle_at)
	{
		s->apply->skips[ATP_SKIP_OLD]++;
		return;
	}
	if (event->handle != NULL)
	{
		repo->handle = event->handle;
		repo->handle_at = handle_at;
		repo->has_handle_at = true;
	}
	repo->changed = true;
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

/* Is that the id of the subscription with this name?  In a dump of old it is the name. */
static bool
is_known_as(text *name, text *id)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	AtpResult	found = atp_query("SELECT FROM atproto.subscription WHERE name = $1 AND $2 IN (id::text, name)",
								  ATP_ARGS(atp_text_arg(text_to_cstring(name)), atp_text_arg(text_to_cstring(id))));

	atp_owner_end(caller);
	atp_result_free(found);
	return found.n > 0;
}

bool
atp_repo_is_refilled(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	if (repo->refill_by == NULL)
		return false;
	if (atp_repos_came_by_others(s, event))
		return is_known_as(event->held->subscription, repo->refill_by);
	return same_bytes(repo->refill_by, s->subscription_id) || same_bytes(repo->refill_by, s->subscription);
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

AtpVerify
atp_event_level(const AtpRepos *s, const AtpEvent *event)
{
	return event->held != NULL ? event->held->level : s->apply->sub->settings.verify;
}

bool
atp_repo_is_inactive(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	const AtpHeldRow *held = event->held;

	/* after a deletion nothing is left of what was before it */
	if (repo->active || held == NULL || atp_repo_is_deleted(repo))
		return !repo->active;
	if (held->endpoint != NULL && repo->status_endpoint != NULL && repo->has_status_seq && held->source->rewind == 0 &&
		same_bytes(held->endpoint, repo->status_endpoint))
		return event->seq >= repo->status_seq;
	/* between streams there is nothing but the time, nor where positions are times (is_old_status) */
	return event->time == 0 || !repo->has_status || event->time - ATP_UNIX_TO_POSTGRES >= repo->status_at;
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

/* ------------------------------------------------------------------------
 * Events that are read again (refill.c)
 * ------------------------------------------------------------------------
 */
void
atp_repo_forget_refill(AtpRepoState *repo)
{
	repo->refill_by = NULL;
	repo->refilled = false;
	repo->refill_data = NULL;
	repo->refill_sync = NULL;
	repo->has_refill_to = false;
	repo->has_refill_at = false;
}

/*
 * A record that is read again may have been removed by a commit between its own and the repository's revision.
 * That is known when the refill has come to that revision: until then the repository is unproven.
 */
static void
begin_refill(AtpRepoState *repo)
{
	if (!is_sync(repo, ATP_SYNC_UNPROVEN) || repo->refill_sync == NULL)
		repo->refill_sync = repo->sync;
	if (is_sync(repo, ATP_SYNC_SYNCHRONIZED) || is_sync(repo, ATP_SYNC_PARTIAL))
		(void) atp_repo_set_sync(repo, ATP_SYNC_UNPROVEN);
}

/* The refill has come to the repository's revision: the state is again what it was. */
static void
end_refill(AtpRepos *s, AtpRepoState *repo)
{
	if (repo->refill_sync != NULL && is_sync(repo, ATP_SYNC_UNPROVEN))
	{
		repo->sync = repo->refill_sync;
		s->unproven |= is_sync(repo, ATP_SYNC_UNPROVEN);
	}
	atp_repo_forget_refill(repo);
}

/* V-33: between what was read again and this event something is missing, which may have removed what the refill has written. */
static void
break_refill(AtpRepos *s, AtpRepoState *repo, AtpEffect *effect)
{
	note_break(s, repo);
	repo->refill_sync = repo->sync;
	effect->undo = repo->has_refill_to && repo->has_refill_at;
	effect->undo_rev = Min(repo->refill_rev, repo->refill_to);
	effect->undo_since = repo->refill_at;
}

/* V-31, V-32: as check_continuity() judges events that are new. */
static bool
continues_refill(const AtpRepoState *repo, const AtpEvent *event)
{
	bool		sync = event->kind == ATP_REPOS_SYNC;
	const struct varlena *before = sync ? event->data : event->prev_data;

	if (before != NULL && repo->refill_data != NULL)
		return same_bytes(before, repo->refill_data);
	return !sync && event->has_since && event->since == repo->refill_rev;
}

static bool
puts_records(const AtpBatch *batch, const AtpEvent *event)
{
	for (int r = event->first_row; r < event->first_row + event->nrows; r++)
		if (batch->rows[r].record.action != ATP_DELETE)
			return true;
	return false;
}

/* V-27: what else the commit did is not known, as of one that is new. */
static void
note_unproven(AtpRepoState *repo, const AtpEvent *event)
{
	if (event->kind != ATP_REPOS_COMMIT || !(is_text(repo->refill_sync, "synchronized") || is_text(repo->refill_sync, "unproven")))
		return;
	if (event->proven == ATP_NOT_ASKED)
		repo->refill_sync = cstring_to_text(sync_names[ATP_SYNC_PARTIAL]);
	else if (event->proven == ATP_OPS_INCOMPLETE || event->lacking)
		repo->refill_sync = cstring_to_text(sync_names[ATP_SYNC_UNPROVEN]);
}

/* The next commit or #sync that is read again, no newer than the repository. */
static void
follow_refill(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	if (repo->refill_sync != NULL && !continues_refill(repo, event))
		break_refill(s, repo, effect);
	if (repo->refill_sync != NULL || puts_records(s->apply->batch, event))
		begin_refill(repo);
	note_unproven(repo, event);
	repo->refill_data = event->data;
	if (event->rev == repo->rev && event->commit != NULL && repo->commit != NULL && !same_bytes(event->commit, repo->commit))
		break_refill(s, repo, effect);
}

/*
 * What comes in parts has no chain.  Where nothing but such parts has made the repository, they are as good
 * as they were the first time; over what a chain or an export has made, nobody can judge them.
 */
static bool
has_own_chain(const AtpRepoState *repo)
{
	return repo->data != NULL || is_sync(repo, ATP_SYNC_SYNCHRONIZED) || is_sync(repo, ATP_SYNC_UNPROVEN);
}

/* Does the event come again because of atproto.refill()?  Then the refill is as far as it. */
static bool
take_again(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	bool		last = !repo->has_rev || event->rev >= repo->rev + event->partial;	/* of a revision there may be more events than one */

	/* a letter that is tried again is not where the stream is */
	if (!atp_repo_is_refilled(s, repo, event) || s->apply->again)
		return false;
	if (!last && repo->refilled && event->rev + event->partial <= repo->refill_rev)
		return false;
	repo->changed = true;
	if (!repo->has_rev || event->rev > repo->rev)
	{
		/* the repository's revision has not come, nor what led to it */
		if (repo->refill_sync != NULL)
			break_refill(s, repo, effect);
		end_refill(s, repo);
		return false;
	}
	if (event->partial && has_own_chain(repo))
	{
		note_break(s, repo);
		end_refill(s, repo);
		return false;
	}
	if (!event->partial)
		follow_refill(s, repo, event, effect);
	repo->refilled = true;
	repo->refill_rev = event->rev;
	note_first(repo, event);
	if (last)
		end_refill(s, repo);
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
	return repo->rev_paths != NULL && (repo->data != NULL || atp_paths_are_anew(repo->rev_paths));
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
	/* what has no tree is known by its mark */
	if (event->kind == ATP_REPOS_SYNC && event->data == NULL)
		return atp_paths_anew();
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
	effect->again = event->again = take_again(s, repo, event, effect);
	effect->rows = effect->again && event->nrows > 0;
	if (effect->again)
		return;
	/* F-05, F-03 */
	if (atp_repo_is_inactive(s, repo, event))
	{
		skips[ATP_SKIP_INACTIVE]++;
		return;
	}
	rest = repo->has_rev && event->rev == repo->rev;
	if (atp_repo_is_old(repo, event) || (rest && event->partial && atp_paths_have(repo->rev_paths, event->path)))
	{
		skips[ATP_SKIP_OLD]++;
		event->passed = true;
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
	event->closes = repo->any_gap && event->held == NULL;
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
		repo->any_gap |= gap;
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
	event->passed = event->again = false;
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
			take_identity(s, repo, event);
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
