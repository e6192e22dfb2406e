/*
 * proved_claim.c
 *		Which collections of a repository are proven, and up to which revision (P-40 to P-42).
 *
 * Invariant: a synchronized repository has exactly the account's records, as of its revision, in the collections of each
 * running subscription that follows the repository.  No event sets proved_rev by itself: proved_rev follows sync, so a
 * commit that came without its records, or an event of a Jetstream, leaves proved_rev where it was.  The claim is made when
 * a batch stores its repositories: one that becomes synchronized and loses that within the batch gets none.
 */
#include "postgres.h"

#include "identity/identity.h"
#include "stream/format.h"
#include "tables/repos/multi_source.h"
#include "tables/repos/proved_claim.h"
#include "tables/base/proved_set.h"

static void
set_claim(AtpRepoState *repo, const AtpProvedSet *set)
{
	repo->proved.has_set = repo->proved.has_rev = set->n > 0;
	repo->proved.set = set->n > 0 ? atp_proved_id(set) : 0;
	repo->proved.rev = set->n > 0 ? repo->head.rev : 0;
}

void
atp_proved_fetched(AtpRepoState *repo, const AtpSettings *settings)
{
	AtpProvedSet set = atp_proved_kept(settings);

	set_claim(repo, &set);
}

/*
 * The running subscriptions of the target, and the subscription of this transaction, which may be paused, and may have another
 * filter by now.  The lock keeps sessions from changing filters until this transaction ends: a session with the lock looks for
 * synchronized repositories, and would overlook the repositories of this transaction.
 */
static const List *
lock_subscriptions(AtpRepos *s)
{
	const char *target = atp_target(s->apply->statements);
	AtpSubscription *own;
	AtpCaller	caller;

	if (s->followers != NIL)
		return s->followers;
	caller = atp_as_table_owner("subscription");
	atp_proved_lock(target, false);
	own = atp_subscription_get(s->apply->sub->name, CurrentMemoryContext);
	atp_owner_end(caller);
	s->followers = atp_running_subscriptions(target);
	if (own != NULL && strcmp(own->target, target) == 0)
		s->followers = lappend(s->followers, own);
	return s->followers;
}

/*
 * The repository has become synchronized by the events, or the export, of this subscription.  A second subscription that
 * follows the repository may process a commit first: so only the collections of both filters are proven.
 */
static void
claim_filter(AtpRepos *s, AtpRepoState *repo)
{
	AtpProvedSet set = atp_proved_kept(&s->apply->sub->settings);
	const List *subs = lock_subscriptions(s);
	const ListCell *lc;

	foreach(lc, subs)
	{
		const AtpSubscription *sub = lfirst(lc);
		AtpProvedSet kept = atp_proved_kept(&sub->settings);

		if (atp_wants_did(&sub->settings, repo->did))
			set = atp_proved_common(&set, &kept);
	}
	foreach(lc, subs)
	{
		const AtpSubscription *sub = lfirst(lc);
		AtpProvedSet kept = atp_proved_kept(&sub->settings);

		if (atp_wants_did(&sub->settings, repo->did) && !atp_proved_covers(&set, &kept))
		{
			(void) atp_repo_set_sync(repo, ATP_SYNC_PARTIAL);
			return;
		}
	}
	set_claim(repo, &set);
}

void
atp_proved_judge(AtpRepos *s, AtpRepoState *repo)
{
	/* P-41, P-42: an incomplete commit, a break, an event of a Jetstream */
	if (!atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED))
		return;
	if (!repo->row.synchronized)
		claim_filter(s, repo);
	else if (repo->proved.has_set)
		repo->proved.rev = repo->head.rev;
}
