/*
 * admission.c
 *		Admission of a repository's events: apply, hold or reject an event (V-11 to V-15, V-40 to V-44).
 *
 * The effect of an admitted event on the repository's state is repo_effect.c's task.  Invariant: events of one
 * repository take effect in the order of their revisions, so an event waits when an earlier event waits.
 */
#include "postgres.h"

#include "common/clock.h"
#include "config/spi.h"
#include "identity/identity_log.h"
#include "tables/repos/admission.h"
#include "tables/repos/admission_after.h"
#include "tables/repos/confirm.h"
#include "tables/repos/repo_refill.h"
#include "tables/repos/repo_state.h"
#include "tables/repos/status_request.h"
#include "tables/repos/multi_source.h"
#include "types/types.h"
#include "utils/builtins.h"

/* V-44: an account hosted elsewhere is looked up at most once in this time, not for each of its events. */
#define ELSEWHERE_US	(USECS_PER_HOUR)

static bool
is_of_repo(const AtpEvent *event)
{
	return event->kind == ATP_REPOS_COMMIT || event->kind == ATP_REPOS_SYNC;
}

/* W-31: is the event an #identity, by which the account announces a change of its identity? */
static bool
is_announcement(const AtpEvent *event)
{
	return event->kind == ATP_REPOS_IDENTITY && !event->ignored;
}

/* ------------------------------------------------------------------------
 * Held events and identities of the repositories
 * ------------------------------------------------------------------------
 */

/*
 * Count the held events of the repositories whose rows have a hold.  The rows alone are not enough: held events may
 * have been deleted without a change of the repository's row.
 */
static void
find_held(AtpRepos *s)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(s->nrepos, 1));
	AtpRepoState **waiting = palloc(sizeof(AtpRepoState *) * Max(s->nrepos, 1));
	AtpHeldCount *counts;
	int			n = 0;

	for (int i = 0; i < s->nrepos; i++)
		if (s->repos[i].hold.state != ATP_HOLD_NONE)
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
		atp_hold_count(&waiting[i]->hold, &counts[i]);
		/* the subscription that held the events may be gone: this consumer has to look for their time limit */
		s->apply->batch->held |= waiting[i]->hold.gap;
	}
}

/*
 * A full batch of held events ends with a repository of which later held events may have found no room.  These
 * events follow the batch's events, so nunread, the number of events that may come before, must not include them.
 */
static void
note_beyond(AtpRepos *s)
{
	const AtpBatch *batch = s->apply->batch;
	const AtpEvent *last = batch->nevents > 0 ? &batch->events[batch->nevents - 1] : NULL;
	AtpRepoState *repo = last != NULL && last->held != NULL && atp_batch_full(batch) ? atp_repo_of(s, last->held->did) : NULL;

	if (repo != NULL)
		atp_hold_note_beyond(&repo->hold);
}

/*
 * Held events of a repository are applied in the order of their revisions.  If an earlier event was held after the
 * batch was read, or an event of the batch must wait on, then the repository's later events wait on, too.
 *
 * The loop starts at a->lo, not at lo: this transaction may have judged events [a->lo, lo) in an earlier step, and
 * newly held events of the stream are not in the table before the end of the transaction.
 */
static void
follow_released(AtpRepos *s, int lo, int hi)
{
	const AtpApply *a = s->apply;

	for (int i = a->lo; i < hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];
		AtpRepoState *repo = event->held != NULL ? atp_repo_of(s, event->held->did)
			: i < lo && !event->ignored && atp_admission_waits_from_now(event) ? atp_repo_of(s, event->did) : NULL;

		if (repo == NULL)
			continue;
		if (event->held == NULL)
		{
			atp_hold_note_held(&repo->hold, event);
			continue;
		}
		atp_hold_follow(&repo->hold, event, i < lo);
	}
	for (int i = a->lo; i < a->batch->nevents; i++)
	{
		const AtpEvent *event = &a->batch->events[i];
		AtpRepoState *repo = event->held != NULL ? atp_repo_of(s, event->held->did) : NULL;

		if (repo != NULL)
			repo->hold.nunread--;
	}
	note_beyond(s);
	for (int i = 0; i < s->nrepos; i++)
		atp_hold_followed(&s->repos[i].hold);
}

/* Is one of the events judged at level full, where the account's key is needed? */
static bool
needs_identities(const AtpRepos *s, int lo, int hi)
{
	for (int i = lo; i < hi; i++)
		if (atp_event_level(s, &s->apply->batch->events[i]) == ATP_VERIFY_FULL)
			return true;
	return false;
}

void
atp_admission_begin(AtpRepos *s, int lo, int hi)
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
	/* tell_identities() writes the doubts of #identity events at the end of the transaction: add these doubts here */
	for (int i = s->apply->lo; i < hi; i++)
	{
		const AtpEvent *event = &s->apply->batch->events[i];
		AtpRepoState *repo = is_announcement(event) ? atp_repo_of(s, event->did) : NULL;

		if (repo != NULL && s->identities[repo - s->repos].state != ATP_IDENTITY_UNKNOWN)
			s->identities[repo - s->repos].doubted_by = lappend_oid(s->identities[repo - s->repos].doubted_by, s->apply->sub->owner);
	}
	/* M-31: an #identity is a hint that a fresh log does not need */
	atp_identities_complete(dids, s->nrepos, s->identities, s->now);
}

/* ------------------------------------------------------------------------
 * Verdicts
 * ------------------------------------------------------------------------
 */
/*
 * V-44: is the PDS of the account's identity the stream's server?  Both names are in the normal form of
 * core/syntax/host_port.h, so a comparison of bytes is enough.
 */
static bool
is_here(const AtpEndpoint *ep, const char *pds)
{
	const char *here = ep->tls ? ep->authority : psprintf("http://%s", ep->authority);

	return pds == NULL || strcmp(pds, here) == 0;
}

/* V-44, F-06: at a PDS's own stream, ignore an event of an account whose identity names a different PDS. */
static bool
is_elsewhere(const AtpRepos *s, AtpEvent *event, const AtpIdentity *who)
{
	const AtpEndpoint *ep = s->apply->sub->ep;

	if (!s->apply->sub->settings.host_is_pds)
		return false;
	/* the event came by a different subscription, so this stream's server is irrelevant: the account's signature is enough */
	if (atp_repos_came_by_others(s, event))
		return false;
	/* compare with the server that sent the held event; the subscription may follow a different server by now */
	if (event->held != NULL)
		ep = atp_endpoint_parse(text_to_cstring(event->held->endpoint));
	if (is_here(ep, who->pds))
		return false;
	atp_admission_ignore(event, ATP_SKIP_OTHER_HOST);
	if (who->asked_at == DT_NOBEGIN || who->asked_at > s->now || who->asked_at < s->now - ELSEWHERE_US)
		atp_admission_request_identity(event, true);
	return true;
}

/* F-04, V-10, B-61, B-62: at level full, set the verdict by the account's key, of its DID document, and by its server. */
static void
judge_signature(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event)
{
	const AtpIdentity *who = &s->identities[repo - s->repos];
	bool		fits;

	if (!atp_admission_has_key(s->apply, event, who, s->now) || is_elsewhere(s, event, who))
		return;
	/* M-40: an export may have brought the commit of a letter since, with its former key */
	fits = atp_signed_fits(event->signature, who->key) || (s->apply->replay && repo->head.former_key != NULL && atp_is_verified_commit(repo, event));
	/* M-40 */
	if (!fits)
		event->verdict.former_key = atp_confirmed_key(s, repo, event, who->key);
	atp_admission_by_signature(event, who, fits || event->verdict.former_key != NULL);
	if (event->verdict.judged == ATP_JUDGED_FALSE || (s->apply->replay && event->verdict.judged == ATP_JUDGED_HELD))
		event->verdict.refusal = atp_unconfirmed_text(s, repo, event);
	/* the letter names the key that was tried last */
	if (event->verdict.judged == ATP_JUDGED_FALSE && event->verdict.refusal == NULL)
		(void) atp_signed_fits(event->signature, who->key);
}

/* V-13: can an event that is not newer than the repository still have an effect? */
static bool
may_matter(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	if (atp_repo_is_refilled(s, repo, event))
		return true;
	return atp_repo_is_forked(repo, event) || atp_repo_lacks(repo, event) || atp_repo_is_overtaken(repo, event);
}

/*
 * V-38: a signed event of an inactive account is ignored, so the tables lack its changes.  V-39: a signed commit of an
 * account that the stream called inactive casts doubt on the status, so request a status look-up.  Events that were held
 * in a different stream cast no doubt: the account may have signed them before it became inactive.
 *
 * While the account's key is not known, or in doubt, nobody can tell whether the tables lack something, so the event waits.
 * By the time of the next verdict the account may be active again.  Of a deleted account the tables lack nothing.
 */
static void
judge_inactive(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event, bool old)
{
	const AtpIdentity *who = &s->identities[repo - s->repos];

	/* V-14: a commit with a revision in the future has no effect */
	if (event->proven == ATP_REV_AHEAD || s->apply->replay)
		return;
	if (atp_identity_is_due(who, s->now))
		atp_admission_request_identity(event, who->stale);
	if (atp_repo_is_deleted(repo) ? atp_admission_is_doubtful(s->apply, event, who) || !atp_identity_is_usable(who, s->now)
		: !atp_admission_has_key(s->apply, event, who, s->now))
	{
		if (event->verdict.judged != ATP_JUDGED_HELD)
			atp_admission_ignore(event, ATP_SKIP_INACTIVE);
		return;
	}
	if (!atp_signed_fits(event->signature, who->key))
		return;
	event->effects.missed = atp_repo_misses(s, repo, event);
	/* an old commit tells nothing about the status */
	if (event->kind == ATP_REPOS_COMMIT && !old && (event->held == NULL || atp_repo_has_status_of(repo, event->held->endpoint)))
		atp_repo_doubt(repo, event);
}

/* Does the commit's since show that a commit between the stored revision and this commit is missing? */
static bool
leaves_gap(const AtpRepoState *repo, const AtpEvent *event)
{
	return event->kind == ATP_REPOS_COMMIT && repo->head.has_rev && event->has_since &&
		!(event->since <= repo->head.rev || event->since >= event->rev);
}

/*
 * Does the event wait for commits that a second subscription of the target may still bring?  The wait is for the
 * missing commit; for an event with only a part of its commit, the wait is for the whole commit and its predecessors.
 */
static bool
awaits_others(AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	const AtpApply *a = s->apply;
	bool		part = event->partial && (!repo->head.has_rev || event->rev > repo->head.rev);

	if (a->replay || !repo->account.active || !(part || leaves_gap(repo, event)))
		return false;
	/* at the limit, apply the event as a break: held, the event would be dropped together with all held events of the repository */
	if (event->held == NULL && repo->hold.nown >= a->sub->settings.max_held)
		return false;
	return (event->held == NULL || repo->hold.nunread > 0 || atp_multi_source_may_wait(event->held->held_at)) &&
		atp_multi_source_has_other(a, &s->others, event);
}

static void
judge_event(AtpRepos *s, AtpRepoState *repo, AtpEvent *event)
{
	/* an event with only a part of its commit (Jetstream) has no signature to verify */
	bool		full = atp_event_level(s, event) == ATP_VERIFY_FULL && !event->partial;
	bool		old = atp_repo_is_old(repo, event) && !s->apply->replay;

	/* V-38; below level full, take_commit() of repo_effect.c skips events of inactive accounts */
	if (full && atp_repo_is_inactive(s, repo, event))
	{
		atp_admission_ignore(event, ATP_SKIP_INACTIVE);
		/* an old commit of a second source may show that the tables lack a record */
		if (!old || atp_repo_lacks(repo, event) || atp_repo_is_overtaken(repo, event))
			judge_inactive(s, repo, event, old);
	}
	else if (full && old && !may_matter(s, repo, event))
		atp_admission_ignore(event, ATP_SKIP_OLD);
	/* V-42; events that a refill reads again wait, too, because a refill needs their order */
	else if ((!old || atp_repo_is_refilled(s, repo, event)) && atp_hold_stops(&repo->hold, event, repo->head.rev))
		atp_admission_hold(event, repo->hold.state == ATP_HOLD_RESYNC ? ATP_HELD_RESYNC : ATP_HELD_ORDER);
	else if (full)
		judge_signature(s, repo, event);
	/* F-08: only a verified commit may wait for a missing commit; a forged one would make all later events wait */
	if (!old && event->verdict.judged == ATP_JUDGED_TRUE && awaits_others(s, repo, event))
		atp_admission_hold(event, ATP_HELD_GAP);
	/* an old event has no new information: ignore the event rather than hold it or write a letter */
	if (old && event->verdict.judged != ATP_JUDGED_TRUE && !atp_repo_is_refilled(s, repo, event))
		atp_admission_ignore(event, ATP_SKIP_OLD);
	else if (full && old && event->verdict.judged == ATP_JUDGED_TRUE && atp_repo_is_forked(repo, event))
		atp_admission_ignore(event, ATP_SKIP_FORKED);
}

void
atp_admission_judge(AtpRepos *s, int index)
{
	AtpEvent   *event = &s->apply->batch->events[index];
	AtpRepoState *repo = s->of_event[index - s->first];

	event->verdict.judged = ATP_JUDGED_TRUE;
	event->verdict.request_identity = event->verdict.refresh = event->effects.doubts = event->effects.drops_held = event->effects.missed = false;
	event->effects.drops_older = false;
	event->verdict.former_key = NULL;
	event->verdict.refusal = NULL;
	/* H-44: a row of an archive has no commit that could be judged, and never waits */
	if (event->archived)
		return;
	if (event->qualifies)
	{
		/* S-13: nothing of the event is applied, so it waits for no other event; its mark needs the account's signature */
		if (atp_event_level(s, event) == ATP_VERIFY_FULL && !event->partial)
			judge_signature(s, repo, event);
	}
	else if (is_of_repo(event))
		judge_event(s, repo, event);
	else if (event->kind == ATP_REPOS_ACCOUNT && s->apply->sub->settings.verify == ATP_VERIFY_FULL)
	{
		const AtpIdentity *who = &s->identities[repo - s->repos];

		/*
		 * V-44: the account may have moved to this server after its document was read.  The document is read again at
		 * most once in ELSEWHERE_US.  If the account's records are hidden, request a status look-up meanwhile.
		 */
		if (is_elsewhere(s, event, who) && event->active && repo->row.found && !repo->account.active)
			atp_repo_doubt(repo, event);
		event->verdict.by_stranger = s->apply->sub->settings.host_is_pds && who->pds == NULL;
	}
	event->verdict.asked_at = s->identities != NULL ? s->identities[repo - s->repos].asked_at : DT_NOBEGIN;
}

/* ------------------------------------------------------------------------
 * Effects of the verdicts on held events and identities
 * ------------------------------------------------------------------------
 */

void
atp_admission_end(AtpRepos *s, int lo, int hi)
{
	for (int i = lo; i < hi; i++)
	{
		AtpEvent   *event = &s->apply->batch->events[i];
		AtpRepoState *repo = event->held != NULL ? atp_repo_of(s, event->held->did) : NULL;

		if (repo != NULL)
			event->effects.closes = atp_hold_take_verdict(&repo->hold, event);
	}
	for (int i = 0; i < s->nrepos; i++)
	{
		AtpRepoState *repo = &s->repos[i];
		bool		lost;

		/*
		 * A transaction that adds or removes held events of a repository also writes the repository's row.  The row
		 * is the lock: two consumers never change the held events of one repository at the same time.
		 */
		repo->row.changed |= atp_hold_is_touched(&repo->hold);
		repo->row.changed |= atp_hold_update(&repo->hold, &lost);
		if (lost)
			(void) atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	}
}

/* Does the event change nothing in its repository's row, which may have been inserted for this event only? */
static bool
says_nothing(const AtpEvent *event)
{
	switch (event->verdict.judged)
	{
		case ATP_JUDGED_TRUE:
			return event->proven == ATP_REV_AHEAD;
		case ATP_JUDGED_IGNORED:
			return event->held != NULL || event->qualifies || event->verdict.ignored_as == ATP_SKIP_NO_IDENTITY ||
				event->verdict.ignored_as == ATP_SKIP_OTHER_HOST;
		default:
			return event->verdict.judged == ATP_JUDGED_FALSE;
	}
}

/*
 * W-31: mark the identities of accounts with an #identity event as doubtful.  The rows of identities belong to all targets:
 * from here to the end of the transaction no function runs that the owner of a target may have written, because other
 * consumers and the fetcher would wait for this function.  So deferred triggers run now.
 */
static void
tell_identities(AtpApply *a)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
		if (is_announcement(&a->batch->events[i]))
			dids[n++] = a->batch->events[i].did;
	if (n == 0 || atp_identities_none())
		return;
	atp_run("SET CONSTRAINTS ALL IMMEDIATE", ATP_NO_ARGS);
	atp_identities_doubt(dids, atp_sort_dids(dids, n), a->sub->owner);
}

/* queue for release the events that wait for, or behind, an event with closes set. */
static void
release_behind(AtpApply *a)
{
	struct varlena **dids = palloc(sizeof(struct varlena *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		if (event->effects.closes)
			dids[n++] = event->held != NULL ? event->held->did : event->did;
	}
	atp_held_release(dids, atp_sort_dids(dids, n));
	a->batch->released |= n > 0;
}

/* F-15: remove the held events that came before a deletion which another stream's status has overtaken. */
static void
erase_older(AtpApply *a)
{
	for (int i = a->lo; i < a->hi; i++)
		if (!a->batch->events[i].ignored && a->batch->events[i].effects.drops_older)
			atp_held_erase_older(a, &a->batch->events[i]);
}

/* V-48: delete the row of a repository of which only events without effect were seen. */
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
		else if (event->ignored && event->held != NULL)
			dids[n++] = event->held->did;
	}
	if (n > 0)
		atp_repos_forget(a, dids, atp_sort_dids(dids, n));
}

void
atp_admission_reject_unsigned(AtpApply *a)
{
	MemoryContext old = MemoryContextSwitchTo(a->batch->cxt);

	for (int i = a->lo; i < a->hi; i++)
	{
		const AtpEvent *event = &a->batch->events[i];

		if (!event->ignored && event->verdict.judged == ATP_JUDGED_FALSE)
			(void) atp_admission_dead_letter(a->batch, event, event->did,
											 event->verdict.refusal != NULL ? event->verdict.refusal
											 : psprintf("The commit is not signed by the account's key, \\x%s.", atp_signed_key(event->signature)));
	}
	MemoryContextSwitchTo(old);
}

void
atp_admission_request_statuses(AtpApply *a)
{
	AtpEvent  **doubts = palloc(sizeof(AtpEvent *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
		if (!a->batch->events[i].ignored && a->batch->events[i].effects.doubts)
			doubts[n++] = &a->batch->events[i];
	qsort(doubts, n, sizeof(AtpEvent *), atp_admission_compare_dids);
	atp_request_statuses(a, doubts, n);
}

void
atp_admission_after_apply(AtpApply *a)
{
	AtpEvent  **events = palloc(sizeof(AtpEvent *) * Max(a->hi - a->lo, 1));
	int			n = 0;

	for (int i = a->lo; i < a->hi; i++)
		if (!a->batch->events[i].ignored)
			events[n++] = &a->batch->events[i];
	/* lock order, which the fetcher follows as well: status requests, identity requests, identities.  A different order could deadlock */
	atp_admission_request_statuses(a);
	atp_admission_write(a, events, n);
	erase_older(a);
	release_behind(a);
	forget_repos(a);
	tell_identities(a);
}

const char *
atp_admission_reason(const AtpEvent *event)
{
	if (event->verdict.judged == ATP_JUDGED_IGNORED)
		return "the account's identity does not function, or it is elsewhere";
	switch (event->verdict.why_held)
	{
		case ATP_HELD_IDENTITY:
			return "the account's key is not known";
		case ATP_HELD_SIGNATURE:
			return event->verdict.refusal != NULL ? event->verdict.refusal : "it is not signed by the account's key";
		default:
			return "other events of the repository wait";
	}
}
