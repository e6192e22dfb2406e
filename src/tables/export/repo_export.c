/*
 * repo_export.c
 *		Changes the row of table repo when an export is fetched, fails, or was written (R-50,
 *		
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/clock.h"
#include "core/syntax/tid.h"
#include "identity/identity_log.h"
#include "stream/rev_cache.h"
#include "tables/repos/held.h"
#include "tables/repos/dead_letter.h"
#include "tables/export/repo_export.h"
#include "tables/repos/proved_claim.h"
#include "tables/base/proved_set.h"
#include "tables/repos/repo_refill.h"
#include "tables/repos/repo_state.h"
#include "tables/repos/status_request.h"
#include "types/types.h"
#include "utils/builtins.h"

struct AtpRepoExport
{
	AtpApply   *apply;
	AtpRepos   *repos;
	AtpRepoState *repo;
	AtpBatch	batch;
	AtpEvent	event;			/* stands for the export; never judged as an event */
};

AtpRepoExport *
atp_repo_export_begin(AtpApply *a, struct varlena *did)
{
	AtpRepoExport *r = palloc0(sizeof(AtpRepoExport));
	AtpBatch   *batch = a->batch;

	/* before the row: a session that changes a filter has this lock first, and then locks rows */
	atp_proved_lock(atp_target(a->statements), false);
	r->apply = a;
	r->event.kind = ATP_REPOS_IDENTITY;
	r->event.did = did;
	r->batch = (AtpBatch) {.cxt = CurrentMemoryContext, .events = &r->event, .nevents = 1};
	a->batch = &r->batch;
	r->repos = atp_repos_load(a, 0, 1, true);
	a->batch = batch;
	r->repo = r->repos->of_event[0];
	return r;
}

AtpRefusal
atp_repo_export_refused(AtpRepoExport *r, const AtpCommit *commit, bool force, bool held, const char **why)
{
	const AtpRepoState *repo = r->repo;
	char		rev[ATP_TID_TEXT];

	if (!repo->account.active)
	{
		*why = repo->account.status == NULL ? "the account is not active"
			: psprintf("the account is not active: %s", text_to_cstring(repo->account.status));
		return ATP_REFUSED_INACTIVE;
	}
	/*
	 * before a fetch (no commit yet), hold = resync was left by a fetcher that ended, and
	 * does not matter
	 */
	if (repo->hold.waits && !((held || commit == NULL) && repo->hold.state == ATP_HOLD_RESYNC))
	{
		*why = psprintf("events of the repository wait: %s", text_to_cstring(repo->hold.word));
		return ATP_REFUSED_WAITING;
	}
	if (held && repo->hold.state == ATP_HOLD_NONE)
	{
		*why = "somebody has let the repository's events go";
		return ATP_REFUSED_WAITING;
	}
	if (atp_repo_is_purged(r->apply, repo->did))
	{
		*why = "records of the account, which was deleted, are still being removed";
		return ATP_REFUSED_WAITING;
	}
	if (commit != NULL && repo->account.deleted && commit->rev <= repo->account.deleted_rev)
	{
		*why = "the export is from before the account was deleted";
		return ATP_REFUSED_OLD;
	}
	if (commit != NULL && repo->head.has_rev && commit->rev < repo->head.rev && !force)
	{
		atp_tid_format(repo->head.rev, rev);
		*why = psprintf("the export is older than the repository's revision %.*s", ATP_TID_TEXT, rev);
		return ATP_REFUSED_OLD;
	}
	/* H-43: the archive's reader has deleted a record that the export still has, or is going to; a later export has neither */
	if (commit != NULL && repo->head.has_history && commit->rev < repo->head.history_rev && !force && r->apply->sweep != ATP_SWEEP_NONE)
	{
		atp_tid_format(repo->head.history_rev, rev);
		*why = psprintf("the export is older than revision %.*s, which the archive has shown", ATP_TID_TEXT, rev);
		return ATP_REFUSED_BEHIND;
	}
	return ATP_REFUSED_NOT;
}

uint64
atp_repo_export_rev(const AtpRepoExport *r)
{
	return r->repo->head.has_rev ? r->repo->head.rev : 0;
}

void
atp_repo_export_differs(AtpRepoExport *r)
{
	AtpRepoState *repo = r->repo;

	if (!atp_repo_is_sync(repo, ATP_SYNC_SYNCHRONIZED) && !atp_repo_is_sync(repo, ATP_SYNC_UNPROVEN))
		return;
	repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	atp_repos_store(r->repos);
}

AtpAccountSaid
atp_repo_export_account(const AtpRepoExport *r)
{
	const AtpRepoState *repo = r->repo;

	return (AtpAccountSaid) {repo->account.has_status, repo->account.has_status ? repo->account.status_at : 0,
							 repo->account.has_status_seq, repo->account.has_status_seq ? repo->account.status_seq : 0};
}

bool
atp_repo_export_inactive(AtpRepoExport *r, const AtpAccountSaid *then, const char *status, const char *host)
{
	AtpRepoState *repo = r->repo;
	AtpAccountSaid now = atp_repo_export_account(r);
	bool		deleted = strcmp(status, "deleted") == 0;
	bool		confirm = deleted && r->apply->sub->settings.verify == ATP_VERIFY_FULL;

	if (now.has_at != then->has_at || now.at != then->at || now.has_seq != then->has_seq || now.seq != then->seq)
		return repo->account.active;
	if (confirm && atp_status_is_answered(r->apply, repo->did))
		return repo->account.active;
	repo->account.active = false;
	repo->account.status = cstring_to_text(status);
	repo->account.host = cstring_to_text(host);
	/*
	 * V-47: as for a deletion in a stream, the deletion must be confirmed; requested even without a
	 * revision, since an interrupted export may have left records
	 */
	if (confirm)
	{
		AtpEvent   *event = &r->event;

		event->effects.unconfirmed = true;
		atp_repo_doubt(repo, event);
		atp_request_statuses(r->apply, &event, 1);
	}
	return false;
}

void
atp_repo_export_hold(AtpRepoExport *r)
{
	atp_hold_fetch(&r->repo->hold);
	(void) atp_repo_set_sync(r->repo, ATP_SYNC_RESYNCING);
	r->repo->row.changed = true;
	atp_repos_store(r->repos);
}

void
atp_repo_export_release(AtpRepoExport *r, uint64 rev)
{
	AtpRepoState *repo = r->repo;

	/* V-47: records of a deletion that is still to be confirmed stay; task_status.c purges them */
	bool		deleted = atp_repo_is_deleted(repo) && !atp_status_is_asked(r->apply, repo->did);

	/* consumers release the held events */
	if (atp_repo_give_up(r->apply, repo))
		atp_held_release(&repo->did, 1);
	repo->row.changed = true;
	atp_repos_store(r->repos);
	if (deleted && rev > 0)
		(void) atp_repo_leave_to_purge(r->apply, &r->event, rev);
}

/*
 * An account that came by an export has announced no handle: its document claims one, if a look-up or a followed log has
 * brought the document.  A handle that an event announces replaces it.
 */
static void
fill_handle(AtpRepoState *repo)
{
	AtpIdentity identity;

	if (repo->account.handle != NULL)
		return;
	atp_identities_read(&repo->did, 1, &identity);
	atp_identities_complete(&repo->did, 1, &identity, atp_time_of_day());
	repo->account.handle = identity.handle;
}

bool
atp_repo_export_end(AtpRepoExport *r, const AtpExport *e, bool verified, const uint8_t *former_key)
{
	AtpRepoState *repo = r->repo;
	const AtpCommit *commit = atp_export_head(e);
	AtpBytes	cid = atp_export_head_cid(e);

	/*
	 * false if a held event was dropped during the fetch, or if two commits have the
	 * same revision
	 */
	bool		whole = atp_repo_fetch_is_whole(repo);

	/*
	 * the repository goes back to an older revision; the cache of newest revisions would
	 * still drop events in between as old
	 */
	if (repo->head.has_rev && commit->rev < repo->head.rev)
		atp_rev_cache_forget_at_commit();
	repo->head.has_rev = true;
	repo->head.rev = commit->rev;
	repo->head.rev_paths = NULL;
	repo->head.commit = atp_cidlink_make(cid.ptr, cid.len);
	repo->head.data = atp_cidlink_make(commit->data.ptr, commit->data.len);
	repo->head.sig = atp_export_head_keep(e, &repo->head.commit_block);
	repo->head.verified = verified;
	repo->head.former_key = former_key == NULL ? NULL : (bytea *) atp_varlena(former_key, ATP_MULTIKEY_LEN);
	atp_proved_fetched(repo, &r->apply->sub->settings);
	(void) atp_repo_set_sync(repo, whole ? ATP_SYNC_SYNCHRONIZED : ATP_SYNC_DESYNCHRONIZED);
	repo->sync.has_synced = true;
	repo->sync.synced_at = GetCurrentTransactionStartTimestamp();
	/* consumers release the held events */
	if (atp_hold_fetched(&repo->hold))
		atp_held_release(&repo->did, 1);
	/*
	 * an export leaves nothing unknown before its revision, so neither the first revision nor a
	 * refill counts any more
	 */
	repo->head.has_first = false;
	atp_repo_forget_refill(repo);
	fill_handle(repo);
	repo->row.changed = true;
	atp_repos_store(r->repos);
	/*
	 * letters of further subscriptions to the target; this subscription's letters were deleted when
	 * the merge began
	 */
	atp_dead_letters_supersede_repo(r->apply, repo->did, commit->rev);
	return whole;
}
