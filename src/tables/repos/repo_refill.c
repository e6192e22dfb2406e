/*
 * repo_refill.c
 *		The effect of events that atproto.refill() has the stream send again.
 *
 * tables/commands/refill.c begins a refill.  Invariant: a refill that has written records leaves the repository
 * synchronized only if the refill's events form a chain up to the repository's revision.
 */
#include "postgres.h"

#include "config/spi.h"
#include "tables/repos/repo_refill.h"
#include "utils/builtins.h"

/* Is this the id of the subscription with this name?  Dumps of earlier versions store the name in place of the id. */
static bool
is_known_as(text *name, text *id)
{
	AtpCaller	caller = atp_as_table_owner("subscription");
	bool		any = atp_run("SELECT FROM atproto.subscription WHERE name = $1 AND $2 IN (id::text, name)",
							  ATP_ARGS(atp_text_arg(text_to_cstring(name)), atp_text_arg(text_to_cstring(id)))) > 0;

	atp_owner_end(caller);
	return any;
}

bool
atp_repo_is_refilled(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event)
{
	if (repo->refill.by == NULL)
		return false;
	if (atp_repos_came_by_others(s, event))
		return is_known_as(event->held->subscription, repo->refill.by);
	return atp_same_bytes(repo->refill.by, s->subscription_id) || atp_same_bytes(repo->refill.by, s->subscription);
}

void
atp_repo_forget_refill(AtpRepoState *repo)
{
	repo->refill = (AtpRepoRefill) {0};
}

/*
 * The refill writes records.  A later commit, up to the repository's revision, may have removed such a record; the
 * refill finds this commit before it ends.  Until the refill reaches the repository's revision, the repository is
 * unproven.
 */
static void
begin_refill(AtpRepoState *repo)
{
	if (!atp_repo_is_sync(repo, ATP_SYNC_UNPROVEN) || repo->refill.sync == NULL)
		repo->refill.sync = repo->sync.word;
	if (atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED) || atp_repo_is_sync(repo, ATP_SYNC_PARTIAL))
		(void) atp_repo_set_sync(repo, ATP_SYNC_UNPROVEN);
}

/*
 * The refill ends.  If it has come to the repository's revision, the tables have all commits since the refill's first one.
 * After an export there is no first_rev, and a refill makes none, because the tables have all commits.  Restore sync.
 */
static void
end_refill(AtpRepoState *repo)
{
	if (repo->refill.has_first && repo->refill.has_rev && repo->head.has_rev && repo->refill.rev >= repo->head.rev)
		repo->head.first_rev = Min(repo->head.first_rev, repo->refill.first);
	if (repo->refill.sync != NULL && atp_repo_is_sync(repo, ATP_SYNC_UNPROVEN))
		repo->sync.word = repo->refill.sync;
	atp_repo_forget_refill(repo);
}

/* Delete the records that the refill has written. */
static void
undo_refill(const AtpRepoState *repo, AtpEffect *effect)
{
	effect->undo = repo->refill.has_to && repo->refill.has_at;
	effect->undo_rev = Min(repo->refill.rev, repo->refill.to);
	effect->undo_since = repo->refill.at;
}

/*
 * V-33: a commit is missing between the last event of the refill and this event.  The missing commit may have removed
 * records that the refill has written, so delete these records (effect->undo).
 */
static void
break_refill(AtpRepos *s, AtpRepoState *repo, AtpEffect *effect)
{
	atp_repo_note_break(s, repo);
	repo->refill.sync = repo->sync.word;
	undo_refill(repo, effect);
}

/* V-31, V-32: does the event continue the refill's chain?  The rule is that of check_continuity() for new events. */
static bool
continues_refill(const AtpRepoState *repo, const AtpEvent *event)
{
	bool		sync = event->kind == ATP_REPOS_SYNC;
	const struct varlena *before = sync ? event->data : event->prev_data;

	if (before != NULL && repo->refill.data != NULL)
		return atp_same_bytes(before, repo->refill.data);
	return !sync && event->has_since && event->since == repo->refill.rev;
}

static bool
puts_records(const AtpBatch *batch, const AtpEvent *event)
{
	for (int r = event->first_row; r < event->first_row + event->nrows; r++)
		if (batch->rows[r].record.action != ATP_DELETE)
			return true;
	return false;
}

/* V-27: the operations of the commit could not be checked completely: sync after the refill is at most partial or unproven. */
static void
note_unproven(AtpRepoState *repo, const AtpEvent *event)
{
	if (event->kind != ATP_REPOS_COMMIT || !(atp_is_sync_word(repo->refill.sync, ATP_SYNC_SYNCHRONIZED) || atp_is_sync_word(repo->refill.sync, ATP_SYNC_UNPROVEN)))
		return;
	if (event->proven == ATP_NOT_ASKED)
		repo->refill.sync = atp_sync_word(ATP_SYNC_PARTIAL);
	else if (event->proven == ATP_OPS_INCOMPLETE || event->lacking)
		repo->refill.sync = atp_sync_word(ATP_SYNC_UNPROVEN);
}

/* Check the chain of a commit or #sync that the refill reads, and note the root. */
static void
follow_refill(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	bool		continues = continues_refill(repo, event);

	if (repo->refill.sync != NULL && !continues)
		break_refill(s, repo, effect);
	repo->refill.has_first &= continues;
	/* lacking: retry() may write the record before the refill comes to a commit that has removed the record */
	if (repo->refill.sync != NULL || puts_records(s->apply->batch, event) || event->lacking)
		begin_refill(repo);
	note_unproven(repo, event);
	repo->refill.data = event->data;
	if (event->rev == repo->head.rev && event->commit != NULL && repo->head.commit != NULL &&
		!atp_same_bytes(event->commit, repo->head.commit))
		break_refill(s, repo, effect);
}

/*
 * Do the repository's records come from commits with a chain, or from an export?  Events with only a part of a commit
 * have no chain.  A refill by such events is safe only if the same kind of events filled the repository the first
 * time; otherwise no check would show that the refill brings back removed records.
 */
static bool
has_own_chain(const AtpRepoState *repo)
{
	return repo->head.data != NULL || atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED) || atp_repo_is_sync(repo, ATP_SYNC_UNPROVEN);
}

/* Has the refill, which reads the event again, come to later revisions before? */
static bool
has_reread(const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->refill.has_rev && event->rev + event->partial <= repo->refill.rev;
}

void
atp_repo_pass_reread(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	bool		last = repo->head.has_rev && event->rev == repo->head.rev && !event->partial;

	if (!(event->partial || last) || !atp_repo_is_refilled(s, repo, event) || s->apply->replay ||
		!repo->head.has_rev || event->rev > repo->head.rev || has_reread(repo, event))
		return;
	repo->row.changed = true;
	break_refill(s, repo, effect);
	if (last)
		end_refill(repo);
}

bool
atp_repo_take_reread(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect)
{
	/* partial: more events of the revision may follow, so the refill ends only with a later revision */
	bool		last = !repo->head.has_rev || event->rev >= repo->head.rev + event->partial;

	/* a dead letter that is replayed does not show how far the refill has come */
	if (!atp_repo_is_refilled(s, repo, event) || s->apply->replay)
		return false;
	if (!last && has_reread(repo, event))
		return false;
	repo->row.changed = true;
	if (!repo->head.has_rev || event->rev > repo->head.rev)
	{
		/* the stream has passed the repository's revision without the commits up to it */
		if (repo->refill.sync != NULL)
			break_refill(s, repo, effect);
		end_refill(repo);
		return false;
	}
	if (event->partial && has_own_chain(repo))
	{
		atp_repo_note_break(s, repo);
		end_refill(repo);
		return false;
	}
	if (!event->partial)
		follow_refill(s, repo, event, effect);
	/* F-42: all records of the repository follow this #sync, so the earlier ones are not the account's any more */
	else if (event->kind == ATP_REPOS_SYNC && repo->refill.has_rev && event->rev > repo->refill.rev)
		undo_refill(repo, effect);
	if (!repo->refill.has_first)
		repo->refill.first = atp_event_first(event);
	repo->refill.has_first = true;
	repo->refill.has_rev = true;
	repo->refill.rev = event->rev;
	if (last)
		end_refill(repo);
	return true;
}
