/*
 * admission.c
 *		Which events of repositories are taken, and which wait (V-11 to V-15, V-40 to V-44).
 */
#include "postgres.h"

#include "common/clock.h"
#include "tables/repos/held.h"
#include "tables/repos/admission.h"
#include "tables/repos/admission_after.h"
#include "tables/repos/repo_state.h"
#include "tables/repos/status_request.h"
#include "tables/repos/multi_source.h"
#include "types/types.h"
#include "utils/builtins.h"

/* V-44: whose account is elsewhere is not looked up anew for each of its events. */
#define ELSEWHERE_US	(USECS_PER_HOUR)

static bool
is_of_repo(const AtpEvent *event)
{
	return event->kind == ATP_REPOS_COMMIT || event->kind == ATP_REPOS_SYNC;
}

/* W-31: does the account say that its identity has changed? */
static bool
is_announcement(const AtpEvent *event)
{
	return event->kind == ATP_REPOS_IDENTITY && !event->ignored;
}

/* ------------------------------------------------------------------------
 * What is to be known
 * ------------------------------------------------------------------------
 */

/* Of repositories that say that events of theirs are held: are there any?  Who removed them need not have said so. */
static void
find_held(AtpRepos *s)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(s->nrepos, 1));
	AtpRepoState **waiting = palloc(sizeof(AtpRepoState *) * Max(s->nrepos, 1));
	AtpHeldCount *counts;
	int			n = 0;

	for (int i = 0; i < s->nrepos; i++)
		if (s->repos[i].hold != NULL)
		{
			waiting[n] = &s->repos[i];
			dids[n++] = s->repos[i].did;
		}
	if (n == 0)
		return;
	counts = palloc(sizeof(AtpHeldCount) * n);
	atp_held_count(s->apply, dids, n, counts);
	for (int i = 0; i < n; i++)
	{
		AtpRepoState *repo = waiting[i];

		repo->nheld = repo->nunread = counts[i].n;
		repo->nown = counts[i].own;
		repo->nothers = counts[i].all - counts[i].n;
		repo->any_gap = counts[i].any_gap;
		repo->first_held = counts[i].first_rev;
		repo->waits = counts[i].n > 0 || atp_repo_is_held(repo, "resync");
		repo->gap = counts[i].only_gap && !atp_repo_is_held(repo, "resync");
		/* who held them may be gone */
		s->apply->batch->held |= repo->gap;
	}
}

/* A batch that is full ends with a repository whose later events may have had no room in it. */
static void
note_beyond(AtpRepos *s)
{
	const AtpBatch *batch = s->apply->batch;
	const AtpEvent *last = batch->nevents > 0 ? &batch->events[batch->nevents - 1] : NULL;
	AtpRepoState *repo = last != NULL && last->held != NULL && atp_batch_full(batch) ? atp_repo_of(s, last->held->did) : NULL;

	if (repo == NULL)
		return;
	repo->nbeyond = repo->nunread;
	repo->nunread = 0;
}

/*
 * Events that have waited are taken in the order of their revisions: where another
 * came meanwhile that is before them, or one of them goes on waiting, so do the
 * others.  Some may have been taken in this transaction already; and what of the stream
 * is to wait is in the table only when the transaction ends.
 */
static void
follow_released(AtpRepos *s, int lo, int hi)
{
	const AtpApply *a = s->apply;

	for (int i = a->lo; i < hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];
		AtpRepoState *repo = event->held != NULL ? atp_repo_of(s, event->held->did)
			: i < lo && !event->ignored && atp_judged_waits_from_now(event) ? atp_repo_of(s, event->did) : NULL;

		if (repo == NULL)
			continue;
		if (event->held == NULL)
		{
			atp_repo_note_held(repo, event);
			continue;
		}
		if (!repo->follows && (repo->nheld == 0 || event->held->rev != repo->first_held))
			repo->stays = true;
		repo->follows = true;
		if (i >= lo)
			continue;
		if (event->judged == ATP_JUDGED_HELD)
			repo->stays = true;
		else
			repo->nheld--;
	}
	for (int i = a->lo; i < a->batch->nevents; i++)
	{
		const AtpEvent *event = &a->batch->events[i];
		AtpRepoState *repo = event->held != NULL ? atp_repo_of(s, event->held->did) : NULL;

		if (repo != NULL)
			repo->nunread--;
	}
	note_beyond(s);
	for (int i = 0; i < s->nrepos; i++)
		s->repos[i].stays |= s->repos[i].follows && atp_repo_is_held(&s->repos[i], "resync");
}

/* Is one of the events judged by the account's key? */
static bool
needs_identities(const AtpRepos *s, int lo, int hi)
{
	for (int i = lo; i < hi; i++)
		if (atp_event_level(s, &s->apply->batch->events[i]) == ATP_VERIFY_FULL)
			return true;
	return false;
}

void
atp_judge_begin(AtpRepos *s, int lo, int hi)
{
	struct varlena **dids;

	find_held(s);
	follow_released(s, lo, hi);
	if (s->nrepos == 0 || !needs_identities(s, lo, hi))
		return;
	dids = palloc(sizeof(struct varlena *) * s->nrepos);
	for (int i = 0; i < s->nrepos; i++)
		dids[i] = s->repos[i].did;
	s->identities = palloc(sizeof(AtpIdentity) * s->nrepos);
	atp_identities_read(dids, s->nrepos, s->identities);
	s->now = atp_time_of_day();
	/* tell_identities() writes these doubts when the transaction ends */
	for (int i = s->apply->lo; i < hi; i++)
	{
		const AtpEvent *event = &s->apply->batch->events[i];
		AtpRepoState *repo = is_announcement(event) ? atp_repo_of(s, event->did) : NULL;

		if (repo != NULL && s->identities[repo - s->repos].state != ATP_IDENTITY_UNKNOWN)
			s->identities[repo - s->repos].doubted_by = lappend_oid(s->identities[repo - s->repos].doubted_by, s->apply->sub->owner);
	}
}

/* ------------------------------------------------------------------------
 * Verdicts
 * ------------------------------------------------------------------------
 */
/* V-44: the identity's PDS, as atproto.identity has it, is the stream's server: both names are in one spelling (core/syntax/host_port.h). */
static bool
is_here(const AtpEndpoint *ep, const char *pds)
{
	const char *here = ep->tls ? ep->authority : psprintf("http://%s", ep->authority);

	return pds == NULL || strcmp(pds, here) == 0;
}

static bool
is_elsewhere(const AtpRepos *s, AtpEvent *event, const AtpIdentity *who)
{
	const AtpEndpoint *ep = s->apply->sub->ep;

	if (!s->apply->sub->settings.host_is_pds)
		return false;
	/* what came from another server says nothing of this one; that its account has signed it is enough */
	if (atp_repos_came_by_others(s, event))
		return false;
	/* the server that sent the event is meant, also when the subscription follows another one by now */
	if (event->held != NULL)
		ep = atp_endpoint_parse(text_to_cstring(event->held->endpoint));
	if (is_here(ep, who->pds))
		return false;
	atp_judged_ignore(event, ATP_SKIP_OTHER_HOST);
	if (who->asked_at == DT_NOBEGIN || who->asked_at > s->now || who->asked_at < s->now - ELSEWHERE_US)
		atp_judged_wish(event, true);
	return true;
}

/* At level full: is it the account's? */
static void
judge_signature(AtpRepos *s, AtpEvent *event, const AtpIdentity *who)
{
	if (atp_judged_known(s->apply, event, who, s->now) && !is_elsewhere(s, event, who))
		atp_judged_signed(event, who, atp_signed_fits(event->signature, who->key));
}

/* V-13: can anything follow from an event that is not newer than what is known? */
static bool
matters(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	if (atp_repo_is_refilled(s, repo, event))
		return true;
	return atp_repo_is_forked(repo, event) || atp_repo_lacks(repo, event) || atp_repo_is_overtaken(repo, event);
}

/*
 * V-39: who signs a commit is active, whatever the stream has said.  An event that has
 * waited, or is tried again, is of another time.
 */
static void
judge_inactive(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event)
{
	const AtpIdentity *who = &s->identities[repo - s->repos];

	/* V-14: nothing follows from one of the future */
	if (event->kind != ATP_REPOS_COMMIT || event->proven == ATP_REV_AHEAD || event->held != NULL || s->apply->again)
		return;
	if (atp_identity_is_due(who, s->now))
		atp_judged_wish(event, who->stale);
	if (atp_judged_is_doubtful(s->apply, event, who) || !atp_identity_is_usable(who, s->now) || !atp_signed_fits(event->signature, who->key))
		return;
	atp_repo_doubt(repo, event);
}

/* Is it to wait because others of its repository do? */
static bool
waits_behind(const AtpRepoState *repo, const AtpEvent *event)
{
	if (repo->stays || !repo->waits || event->held != NULL)
		return repo->stays;
	/* where these wait for a commit, it may be that one; or one that says that there is none */
	return !repo->gap || !(event->rev <= repo->first_held || (event->has_since && event->since == repo->rev));
}

/* Is a commit missing before it? */
static bool
leaves_gap(const AtpRepoState *repo, const AtpEvent *event)
{
	return event->kind == ATP_REPOS_COMMIT && repo->has_rev && event->has_since &&
		!(event->since <= repo->rev || event->since >= event->rev);
}

/*
 * Is it to wait for what another source of these tables may still bring: the missing commit, or, where it
 * comes in parts, the whole of it and what was before?
 */
static bool
awaits_others(AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	const AtpApply *a = s->apply;
	bool		part = event->partial && (!repo->has_rev || event->rev > repo->rev);

	if (a->again || !repo->active || !(part || leaves_gap(repo, event)))
		return false;
	/* where there is no room to wait, it is not dropped for that */
	if (event->held == NULL && repo->nown >= a->sub->settings.max_held)
		return false;
	return (event->held == NULL || repo->nunread > 0 || atp_union_goes_on(event->held->held_at)) &&
		atp_union_has_other(a, &s->others, event);
}

static void
judge_event(AtpRepos *s, AtpRepoState *repo, AtpEvent *event)
{
	/* what comes in parts nobody has signed */
	bool		full = atp_event_level(s, event) == ATP_VERIFY_FULL && !event->partial;
	bool		old = atp_repo_is_old(repo, event) && !s->apply->again;

	/* V-38; below level full repo_state.c does it */
	if (full && atp_repo_is_inactive(s, repo, event))
	{
		atp_judged_ignore(event, ATP_SKIP_INACTIVE);
		if (!old)
			judge_inactive(s, repo, event);
	}
	else if (full && old && !matters(s, repo, event))
		atp_judged_ignore(event, ATP_SKIP_OLD);
	/* V-42; what is read again has an order, too */
	else if ((!old || atp_repo_is_refilled(s, repo, event)) && waits_behind(repo, event))
		atp_judged_hold(event, atp_repo_is_held(repo, "resync") ? ATP_HELD_RESYNC : ATP_HELD_ORDER);
	else if (full)
		judge_signature(s, event, &s->identities[repo - s->repos]);
	/* F-08: who is not believed keeps nobody waiting */
	if (!old && event->judged == ATP_JUDGED_TRUE && awaits_others(s, repo, event))
		atp_judged_hold(event, ATP_HELD_GAP);
	/* nobody waits for what is known */
	if (old && event->judged != ATP_JUDGED_TRUE && !atp_repo_is_refilled(s, repo, event))
		atp_judged_ignore(event, ATP_SKIP_OLD);
	else if (full && old && event->judged == ATP_JUDGED_TRUE && atp_repo_is_forked(repo, event))
		atp_judged_ignore(event, ATP_SKIP_FORKED);
}

void
atp_judge(AtpRepos *s, int index)
{
	AtpEvent   *event = &s->apply->batch->events[index];
	AtpRepoState *repo = s->of_event[index - s->first];

	event->judged = ATP_JUDGED_TRUE;
	event->wish = event->refresh = event->doubts = false;
	if (is_of_repo(event))
		judge_event(s, repo, event);
	else if (event->kind == ATP_REPOS_ACCOUNT && s->apply->sub->settings.verify == ATP_VERIFY_FULL)
	{
		const AtpIdentity *who = &s->identities[repo - s->repos];

		/*
		 * V-44: the account may have come to this server since its document was read, which cannot be read again yet.
		 * Where its records are hidden, its server is asked when it can.
		 */
		if (is_elsewhere(s, event, who) && event->active && repo->found && !repo->active)
			atp_repo_doubt(repo, event);
		event->by_stranger = s->apply->sub->settings.host_is_pds && who->pds == NULL;
	}
	event->asked_at = s->identities != NULL ? s->identities[repo - s->repos].asked_at : DT_NOBEGIN;
}

/* ------------------------------------------------------------------------
 * What follows
 * ------------------------------------------------------------------------
 */

/* Does one that has waited do so no longer? */
static bool
is_gone(const AtpEvent *event)
{
	return event->ignored || event->judged != ATP_JUDGED_HELD;
}

void
atp_judge_end(AtpRepos *s, int lo, int hi)
{
	for (int i = lo; i < hi; i++)
	{
		AtpEvent   *event = &s->apply->batch->events[i];
		AtpRepoState *repo = event->held != NULL ? atp_repo_of(s, event->held->did) : NULL;

		if (repo == NULL)
			continue;
		if (is_gone(event))
			repo->nheld--;
		/*
		 * Events that the batch does not have wait behind this one, or for nothing any more; or this one waits for
		 * one of them.  Nothing else need name them: a repository is also read because the time of its gap is over.
		 */
		event->closes = (repo->gap && repo->nunread > 0) ||
			(is_gone(event) && (repo->nunread > 0 || repo->nbeyond > 0 || repo->nothers > 0));
	}
	for (int i = 0; i < s->nrepos; i++)
	{
		AtpRepoState *repo = &s->repos[i];
		bool		waits = repo->stays || repo->adds || repo->nheld > 0;
		const char *hold = repo->gap ? "gap" : "identity";

		/* who adds to what is held or takes from it has written the row: so there is never but one */
		repo->changed |= repo->stays || repo->adds || repo->follows;
		if (repo->hold == NULL ? !waits : atp_repo_is_held(repo, "resync") || (waits && atp_repo_is_held(repo, hold)))
			continue;
		/* what others hold goes on waiting, and the row says so */
		if (!waits && repo->nothers > 0)
			continue;
		/* what is about to be taken says then why it goes on waiting */
		if (waits && atp_repo_is_held(repo, "release") && !repo->follows)
			continue;
		/* what waited for a commit has gone, and nobody will bring it again */
		if (!waits && atp_repo_is_held(repo, "gap") && !repo->follows)
			atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
		repo->hold = waits ? cstring_to_text(hold) : NULL;
		repo->changed = true;
	}
}

/* Does it leave no trace in its repository's row, which may have been made for it alone? */
static bool
says_nothing(const AtpEvent *event)
{
	switch (event->judged)
	{
		case ATP_JUDGED_TRUE:
			return event->proven == ATP_REV_AHEAD;
		case ATP_JUDGED_IGNORED:
			return event->held != NULL || event->ignored_as == ATP_SKIP_NO_IDENTITY || event->ignored_as == ATP_SKIP_OTHER_HOST;
		default:
			return event->judged == ATP_JUDGED_FALSE;
	}
}

/* W-31: what is known of an account that says that its identity changed is to be looked at again. */
static void
tell_identities(AtpApply *a)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
		if (is_announcement(&a->batch->events[i]))
			dids[n++] = a->batch->events[i].did;
	atp_identities_doubt(dids, atp_sort_dids(dids, n), a->sub->owner);
}

/* what waits for these, or behind them, is looked at at once. */
static void
release_behind(AtpApply *a)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		if (event->closes)
			dids[n++] = event->held != NULL ? event->held->did : event->did;
	}
	atp_held_release(dids, atp_sort_dids(dids, n));
	a->batch->released |= n > 0;
}

/* V-48: of repositories of which nothing is known but events that are nobody's there is no row. */
static void
forget_repos(AtpApply *a)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		if (!event->ignored && says_nothing(event))
			dids[n++] = event->did;
	}
	if (n > 0)
		atp_repos_forget(a, dids, atp_sort_dids(dids, n));
}

void
atp_judge_condemn(AtpApply *a)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		if (!event->ignored && event->judged == ATP_JUDGED_FALSE)
			(void) atp_judged_letter(a->batch, event, event->did,
									 psprintf("The commit is not signed by the account's key, \\x%s.", atp_signed_key(event->signature)));
	}
	MemoryContextSwitchTo(old);
}

void
atp_judge_ask(AtpApply *a)
{
	AtpEvent  **doubts = palloc(sizeof(AtpEvent *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
		if (!a->batch->events[i].ignored && a->batch->events[i].doubts)
			doubts[n++] = &a->batch->events[i];
	qsort(doubts, n, sizeof(AtpEvent *), atp_judged_compare);
	atp_status_wish(a, doubts, n);
}

void
atp_judge_conclude(AtpApply *a)
{
	AtpEvent  **events = palloc(sizeof(AtpEvent *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
		if (!a->batch->events[i].ignored)
			events[n++] = &a->batch->events[i];
	/* the fetcher has these rows in the same order: wishes first, and of these those for a status */
	atp_judge_ask(a);
	atp_judged_conclude(a, events, n);
	release_behind(a);
	tell_identities(a);
	forget_repos(a);
}

const char *
atp_judge_reason(const AtpEvent *event)
{
	if (event->judged == ATP_JUDGED_IGNORED)
		return "the account's identity does not function, or it is elsewhere";
	switch (event->why_held)
	{
		case ATP_HELD_IDENTITY:
			return "the account's key is not known";
		case ATP_HELD_SIGNATURE:
			return "it is not signed by the account's key";
		default:
			return "other events of the repository wait";
	}
}
