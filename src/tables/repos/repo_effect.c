/*
 * repo_effect.c
 *		How commits change the state of a repository; which effect an event has.
 *
 * Whether an event is admitted is decided in admission.c; events that atproto.refill() has sent again are in
 * repo_refill.c; #account and #identity in repo_account.c; the rows are read and written in repo.c.  Invariant: the revision of a repository never goes back.
 */
#include "postgres.h"

#include "core/syntax/tid.h"
#include "tables/records/record.h"
#include "tables/repos/admission.h"
#include "tables/repos/repo_paths.h"
#include "tables/repos/repo_refill.h"
#include "tables/repos/repo_state.h"
#include "types/foreign_time.h"
#include "types/types.h"

/*
 * F-08, V-31, V-32, V-33: a commit that does not continue the stored commit shows that commits were missed.  The root of
 * the tree decides; if a root is unknown, the revision decides.
 */
static void
check_continuity(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	bool		rev_fits = event->has_since && event->since == repo->head.rev;
	bool		known = event->prev_data != NULL && repo->head.data != NULL;
	bool		data_fits = known && atp_same_bytes(event->prev_data, repo->head.data);

	if (atp_repo_is_empty(repo))
	{
		rev_fits = !event->has_since;
		known = data_fits = false;
	}
	if (rev_fits && (data_fits || !known))
		return;
	if (data_fits)
		s->apply->skips[ATP_SKIP_SKIPPED_REVS]++;
	else
		atp_repo_note_break(s, repo);
}

/*
 * Did the repository begin anew with a #sync whose records follow in separate messages?  No message tells which record
 * is the last.
 */
static bool
begins_anew(const AtpRepoState *repo)
{
	return repo->head.rev_paths != NULL && (repo->head.data != NULL || atp_paths_are_anew(repo->head.rev_paths));
}

/*
 * F-15: is the commit older than the status of a second stream, which has deleted the account since the last commit?  Then the
 * commit may be of the deleted repository: this stream has its deletion later, and passes it over (pass_deletion()).
 */
static bool
is_of_deleted(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	const AtpRepoAccount *account = &repo->account;

	return account->deleted && atp_repo_is_empty(repo) && account->has_status && event->time != 0 &&
		!atp_repo_has_status_of(repo, event->held != NULL ? event->held->endpoint : s->endpoint) &&
		atp_foreign_time(event->time) < account->status_at;
}

/* Set sync by a newer commit. */
static void
judge_commit(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	if (is_of_deleted(s, repo, event))
		(void) atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	/* V-35: the repository's first commit, of which all operations are proven */
	else if (event->proven == ATP_OPS_PROVEN_FIRST && atp_repo_is_empty(repo))
	{
		/* H-43: what an archive has brought is of another life of the account, or of later commits */
		if (!atp_repo_has_remains(s, repo) && !repo->head.has_history)
			(void) atp_repo_set_sync(repo, ATP_SYNC_SYNCHRONIZED);
	}
	/* F-42: the rest of the records after the #sync would be older than this commit, and so ignored */
	else if (!event->partial && begins_anew(repo))
		atp_repo_note_break(s, repo);
	/* an event with only a part of its commit does not name the commit before it */
	else if (repo->head.has_rev && !event->partial)
		check_continuity(s, repo, event);
	if (event->proven == ATP_OPS_INCOMPLETE)
		s->apply->skips[ATP_SKIP_INCOMPLETE]++;
	/* V-27; at level hash the operations are not checked, so the records are true, but may not be all */
	if (event->proven == ATP_NOT_ASKED && (atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED) || atp_repo_is_sync(repo, ATP_SYNC_UNPROVEN)))
		(void) atp_repo_set_sync(repo, ATP_SYNC_PARTIAL);
	else if ((event->proven == ATP_OPS_INCOMPLETE || event->lacking) && atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED))
		(void) atp_repo_set_sync(repo, ATP_SYNC_UNPROVEN);
}

/* V-17, V-26: the account has made a commit, but its operations are unknown.  The dead letter of the commit tells and counts it. */
static void
take_refuted(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	if (event->mismatch)
		s->apply->skips[ATP_SKIP_MISMATCH]++;
	if (!atp_repo_is_deleted(repo) && (!repo->head.has_rev || event->rev > repo->head.rev))
		repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
}

/* F-12, V-36: does a #sync announce a tree that may differ from the tables? */
static bool
announces_others(const AtpRepoState *repo, const AtpEvent *event)
{
	if (atp_repo_is_empty(repo))
		return repo->head.has_rev || event->proven != ATP_NOT_ASKED;
	/* after events with only a part of their commit the stored root is unknown */
	return repo->head.data == NULL || !atp_same_bytes(repo->head.data, event->data);
}

/* Does the event change nothing, because newer events, or the event itself, were applied before? */
static bool
is_applied(const AtpRepoState *repo, const AtpEvent *event)
{
	return atp_repo_is_old(repo, event) ||
		(event->partial && repo->head.has_rev && event->rev == repo->head.rev && atp_paths_have(repo->head.rev_paths, event->path));
}

/* Mark the rows of a whole commit whose operations were applied already from separate messages, so that no row is applied twice. */
static void
note_known(AtpBatch *batch, const AtpEvent *event, const bytea *paths)
{
	for (int r = event->first_row; r < event->first_row + event->nrows; r++)
		batch->rows[r].known = paths != NULL && !event->partial && atp_paths_have(paths, atp_path_hash(batch->rows[r].path));
}

/* F-42: all records of the repository follow this #sync, so delete the stored records. */
static void
begin_anew(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	if (s->apply->sweep == ATP_SWEEP_SHARED && event->rev > 0)
	{
		/* H-43: an archive may have brought later records */
		effect->replace = true;
		effect->rev = event->rev - 1;
	}
	else
	{
		effect->erase = repo->head.has_rev;
		atp_repo_erase(repo, effect);
	}
	if (!atp_repo_is_sync(repo, ATP_SYNC_RESYNCING) && !atp_repo_has_remains(s, repo))
		(void) atp_repo_set_sync(repo, ATP_SYNC_PARTIAL);
}

/* The value of rev_paths after the event; rest: operations of the event's revision were applied before. */
static bytea *
paths_with(const AtpRepoState *repo, const AtpEvent *event, bool rest)
{
	bytea	   *paths = rest ? repo->head.rev_paths : NULL;

	if (!event->partial)
		return NULL;
	/* the #sync of a Jetstream names no tree: begins_anew() needs the mark */
	if (event->kind == ATP_REPOS_SYNC && event->data == NULL)
		return atp_paths_anew();
	/* an operation whose record failed the check was not applied: leave out the path, because a second source may have the record */
	if (event->kind == ATP_REPOS_SYNC || (event->lacking && event->nrows == 0))
		return paths != NULL && event->kind != ATP_REPOS_SYNC ? paths : atp_paths_none();
	return atp_paths_add(paths, event->path);
}

/*
 * Does an old event show that the tables lack records?  An event older than first_rev without wanted operations cannot
 * be compared with the tables, and counts as a loss.
 */
static bool
tells_of_loss(AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	if (!event->partial && atp_repo_lacks(repo, event))
		return event->nrows == 0 || atp_records_lack(s->apply, event);
	return !s->apply->replay && atp_repo_is_overtaken(repo, event) &&
		(event->kind == ATP_REPOS_SYNC || atp_records_lack(s->apply, event));
}

bool
atp_repo_misses(AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	if (atp_repo_is_deleted(repo))
		return false;
	if (is_applied(repo, event))
		return tells_of_loss(s, repo, event);
	return event->kind == ATP_REPOS_COMMIT || event->partial || announces_others(repo, event);
}

static void
take_commit(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	int64	   *skips = s->apply->skips;
	bool		rest;			/* the event has the stored revision, of which some operations were applied */

	if (event->proven == ATP_OPS_REFUTED)
		take_refuted(s, repo, event);
	if (event->proven == ATP_OPS_REFUTED || event->proven == ATP_REV_AHEAD)
		return;
	effect->reread = event->effects.reread = atp_repo_take_reread(s, repo, event, effect);
	effect->rows = effect->reread && event->nrows > 0;
	if (effect->reread)
		return;
	/* F-05, F-03 */
	if (atp_repo_is_inactive(s, repo, event))
	{
		skips[ATP_SKIP_INACTIVE]++;
		/* retry() must not write a single record of the event later */
		event->effects.passed = true;
		if (!s->apply->replay && atp_repo_misses(s, repo, event))
			repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
		return;
	}
	rest = repo->head.has_rev && event->rev == repo->head.rev;
	if (is_applied(repo, event))
	{
		skips[ATP_SKIP_OLD]++;
		event->effects.passed = true;
		if (tells_of_loss(s, repo, event))
			atp_repo_note_break(s, repo);
		return;
	}
	note_known(s->apply->batch, event, rest ? repo->head.rev_paths : NULL);
	if (event->kind == ATP_REPOS_COMMIT && !rest)
		judge_commit(s, repo, event);
	/* F-42: also the rest of the records after a #sync of the commit's own revision, which count as applied from now on */
	else if (event->kind == ATP_REPOS_COMMIT && !event->partial && begins_anew(repo))
		atp_repo_note_break(s, repo);
	else if (event->kind == ATP_REPOS_SYNC && event->partial)
		begin_anew(s, repo, event, effect);
	else if (event->kind == ATP_REPOS_SYNC && announces_others(repo, event))
		(void) atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	if (!repo->head.has_rev)
		atp_repo_note_first(repo, atp_event_first(event));
	/* earlier commits came in separate messages, perhaps not all: a whole commit of a second source may still bring the rest */
	else if (repo->head.rev_paths != NULL && !event->partial && event->kind == ATP_REPOS_COMMIT)
	{
		repo->head.first_rev = event->rev;
		repo->head.has_first = true;
	}
	repo->head.has_rev = true;
	repo->head.rev = event->rev;	/* F-13: also without operations */
	event->effects.closes = repo->hold.any_gap && event->held == NULL;
	if (!rest || !event->partial)
	{
		repo->head.commit = event->commit;
		repo->head.data = event->data;
		repo->head.sig = event->sig;
		repo->head.commit_block = event->commit_block;
		repo->head.verified = event->signature != NULL;
		repo->head.former_key = event->verdict.former_key;
	}
	repo->head.rev_paths = paths_with(repo, event, rest);
	repo->row.changed = true;
	effect->rows = event->nrows > 0;
}

/*
 * A row of an archive, where no other source fills the tables: an operation on a record, or a #sync.  H-33: the number of the row
 * alone tells what came before, because an account's host may have been restored, and then revisions fall.  H-31: after a
 * #sync all records of the account follow.
 */
static void
take_archived(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	/*
	 * F-05, by the numbers of this stream.  A status of another stream, or of a list, is of a later time than most rows of the archive.  The
	 * stored status may be of a later row of this stream, too, if the row is read again.
	 */
	if (atp_repo_is_inactive(s, repo, event) && atp_repo_has_status_of(repo, s->endpoint) && repo->account.status_seq <= event->seq)
	{
		s->apply->skips[ATP_SKIP_INACTIVE]++;
		event->effects.passed = true;
		/* as on a stream: the account may become active again, and the row does not come again */
		if (!atp_repo_is_deleted(repo))
			repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
		return;
	}
	if (!atp_repo_note_archived(s, repo, event, event->rev))
		return;
	effect->rows = event->nrows > 0;
	/* the attempt before may have found the rows behind a #sync (H-32) */
	note_known(s->apply->batch, event, NULL);
	if (event->kind == ATP_REPOS_SYNC)
	{
		effect->replace = true;
		effect->rev = ATP_TID_MAX_CANONICAL;
	}
	if (repo->head.data != NULL || (repo->head.has_rev && event->rev <= repo->head.rev))
		return;
	/* first_rev stays: an archive has no chain of commits */
	repo->head.has_rev = true;
	repo->head.rev = event->rev;
	/* the stream may go on with further operations of the same commit */
	repo->head.rev_paths = atp_paths_none();
}

/*
 * R-01, F-10: does the event demand a fetch of the repository, because the repository is desynchronized, or because its
 * earlier records are unknown?  At level full a whole commit gets here only with a verified signature: a forged
 * event must not cause fetches.
 */
static AtpFetchWhy
why_fetched(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	AtpBackfill backfill = s->apply->sub->settings.backfill;

	if (backfill == ATP_BACKFILL_NONE || !repo->account.active || (event->kind != ATP_REPOS_COMMIT && event->kind != ATP_REPOS_SYNC))
		return ATP_FETCH_NOT;
	if (atp_repo_is_sync(repo, ATP_SYNC_DESYNCHRONIZED))
		return event->proven == ATP_OPS_REFUTED ? ATP_FETCH_MISMATCH
			: event->verdict.judged == ATP_JUDGED_IGNORED && !event->qualifies ? ATP_FETCH_FORK
			: event->kind == ATP_REPOS_SYNC ? ATP_FETCH_SYNC : ATP_FETCH_BREAK;
	/* has_synced: at level hash a repository stays partial after its fetch, and would be fetched with every event */
	return backfill >= ATP_BACKFILL_SEEN && atp_repo_is_sync(repo, ATP_SYNC_PARTIAL) && !repo->sync.has_synced
		? ATP_FETCH_SEEN : ATP_FETCH_NOT;
}

/*
 * How an #account event changes the fetch of the repository.  was_active: before the event.  What was ignored while the
 * account was not active (V-38) no stream sends again.  For a repository without records, the first commit decides.
 */
static AtpFetchWhy
fetch_of_account(const AtpRepos *s, const AtpRepoState *repo, bool was_active, bool erased)
{
	if (erased)
		return ATP_FETCH_DELETED;
	if (!repo->account.active)
		return ATP_FETCH_INACTIVE;
	return !was_active && s->apply->sub->settings.backfill != ATP_BACKFILL_NONE && !atp_repo_is_empty(repo) &&
		atp_repo_is_sync(repo, ATP_SYNC_DESYNCHRONIZED) ? ATP_FETCH_MISSED : ATP_FETCH_ACTIVE;
}

/* Count an event whose verdict is not true; the event changes no rows (admission.h). */
static void
pass_over(AtpRepos *s, AtpRepoState *repo, AtpEvent *event)
{
	int64	   *skips = s->apply->skips;

	switch (event->verdict.judged)
	{
		case ATP_JUDGED_HELD:
			atp_hold_note_held(&repo->hold, event);
			skips[ATP_SKIP_HELD] += event->held == NULL;
			break;
		case ATP_JUDGED_FALSE:
			skips[ATP_SKIP_BAD_SIGNATURE]++;
			break;
		default:
			skips[event->verdict.ignored_as]++;
			/* V-15: two commits have one revision, and only the account's server knows which is valid */
			if (event->verdict.ignored_as == ATP_SKIP_FORKED)
			{
				repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
				event->effects.fetch = why_fetched(s, repo, event);
			}
			else if (event->effects.missed)
				repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	}
}

/*
 * S-13: a message of the account was passed over, because a member says that it is not of the public repository.  It may
 * have been a commit of the repository all the same, which the tables then lack.
 *
 * The verdict is always "ignored": nothing of the event is kept or written.  marks keeps what the first verdict was,
 * because events that are applied in pieces are taken twice.
 */
static void
take_qualified(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	bool		full = atp_event_level(s, event) == ATP_VERIFY_FULL && !event->partial;

	/* a forged message must cause neither marks nor look-ups */
	if (!s->judged)
		event->effects.marks = !full || (event->verdict.judged == ATP_JUDGED_TRUE && event->signature != NULL);
	event->verdict.request_identity = event->effects.doubts = event->effects.missed = false;
	event->verdict.judged = ATP_JUDGED_IGNORED;
	event->verdict.ignored_as = ATP_SKIP_UNKNOWN;
	if (event->effects.marks)
		atp_repo_pass_reread(s, repo, event, effect);
	/* also an event that a Jetstream sends again: the repository may have been fetched since */
	if (!event->effects.marks || is_applied(repo, event) || atp_repo_is_deleted(repo))
		return;
	repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	event->effects.fetch = why_fetched(s, repo, event);
}

AtpEffect
atp_repos_take(AtpRepos *s, int index)
{
	AtpEvent   *event = &s->apply->batch->events[index];
	AtpRepoState *repo = s->of_event[index - s->first];
	AtpEffect	effect = {0};
	bool		was_active = repo->account.active;

	event->effects.fetch = ATP_FETCH_NOT;
	event->effects.passed = event->effects.reread = false;
	event->effects.closes = false;
	if (atp_repo_is_stranger(s, repo, event))
	{
		event->effects.passed = true;
		return effect;
	}
	if (event->archived && s->apply->sweep == ATP_SWEEP_SHARED)
	{
		atp_repo_take_archived(s, repo, event, &effect);
		return effect;
	}
	atp_repo_revive(s, repo, event);
	if (!s->judged)
		atp_admission_judge(s, index);
	if (event->qualifies)
	{
		take_qualified(s, repo, event, &effect);
		return effect;
	}
	if (event->verdict.judged != ATP_JUDGED_TRUE)
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
			if (event->archived)
				take_archived(s, repo, event, &effect);
			else
				take_commit(s, repo, event, &effect);
			event->effects.fetch = why_fetched(s, repo, event);
			break;
		case ATP_REPOS_IDENTITY:
			atp_repo_take_identity(s, repo, event);
			break;
		case ATP_REPOS_ACCOUNT:
			atp_repo_take_account(s, repo, event, &effect);
			event->effects.fetch = fetch_of_account(s, repo, was_active, effect.erase);
			break;
		case ATP_REPOS_INFO:
		case ATP_REPOS_UNKNOWN:
			break;
	}
	return effect;
}
