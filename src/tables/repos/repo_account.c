/*
 * repo_account.c
 *		How #account and #identity events change the state of a repository: status, deletion, handle (F-15).
 *
 * Events of different streams are ordered by their times, those of one stream by their positions.
 */
#include "postgres.h"

#include "common/clock.h"
#include "core/syntax/tid.h"
#include "source.h"
#include "stream/stream_time.h"
#include "tables/records/record.h"
#include "tables/repos/repo_refill.h"
#include "tables/repos/repo_state.h"
#include "tables/repos/status_request.h"
#include "types/foreign_time.h"
#include "types/types.h"
#include "utils/builtins.h"

/*
 * The time of an #account or #identity event, limited for the order of events.  The result is never later than
 * this machine's time of day: otherwise one event with a wrong clock would make all later events old.
 *
 * In a stream whose positions are times, this time is the first key of the order of an account's events.  There the
 * result must be equal when the event is received again, so a time that is ahead by no more than the allowed error
 * of clocks is kept.
 */
static TimestampTz
own_time(const AtpRepos *s, const AtpEvent *event)
{
	TimestampTz now = atp_time_of_day();

	if (event->time == 0)
		return now;
	/* H-43: a relay has the event earlier than the archive's server */
	if (event->archived)
		return Min(now, atp_foreign_time(atp_repo_written_at(event)));
	if (s->apply->sub->source->rewind > 0 && !atp_is_ahead(event->time))
		return atp_foreign_time(event->time);
	return Min(now, atp_foreign_time(event->time));
}

/*
 * Is the stored status newer than the event?  An old deletion must not remove records that came after it.
 *
 * In a stream whose positions are sequence numbers, the position decides, whatever the clock of the events' server
 * says.  A position that is a time (version 1 of Jetstream) may go back from one event of an account to the next,
 * but by no more than the source's rewind: an event whose position is later by more than the rewind is newer.  The
 * times of the events cannot show this, because the clock of the account's former server may be ahead of the present
 * server's clock.  If the positions are closer, or went back, the times of the events decide, and then the position.
 * Events of different streams can only be compared by their times.
 */
static bool
is_old_status(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event, TimestampTz status_at)
{
	bool		same_stream = atp_repo_has_status_of(repo, s->endpoint);
	int64		rewind = s->apply->sub->source->rewind;

	/* H-42: a later status stays when events are read again.  After a crash of the server, a later event may have a smaller number. */
	if (same_stream && event->archived)
		return event->seq < repo->account.status_seq && status_at < repo->account.status_at;
	if (same_stream && rewind == 0)
		return event->seq <= repo->account.status_seq;
	if (same_stream && event->seq > repo->account.status_seq && event->seq - repo->account.status_seq > rewind)
		return false;
	if (!repo->account.has_status || status_at > repo->account.status_at)
		return false;
	return status_at < repo->account.status_at || (same_stream && event->seq < repo->account.status_seq);
}

bool
atp_repo_has_remains(AtpRepos *s, const AtpRepoState *repo)
{
	uint64		last;

	if (!atp_repo_is_empty(repo) || !atp_repo_is_sync(repo, ATP_SYNC_DESYNCHRONIZED))
		return false;
	if (atp_repo_is_purged(s->apply, repo->did))
		return true;
	return repo->head.has_rev ? atp_records_last_rev(s->apply, repo->did, &last) && last > repo->head.rev
		: atp_records_any(s->apply, repo->did);
}

void
atp_repo_erase(const AtpRepoState *repo, AtpEffect *effect)
{
	effect->has_rev = repo->head.has_rev;
	effect->rev = repo->head.rev;
	effect->beyond = atp_repo_is_sync(repo, ATP_SYNC_DESYNCHRONIZED) || atp_repo_is_sync(repo, ATP_SYNC_RESYNCING);
}

/*
 * F-15: a deletion is passed over, because a second stream has sent a later status.  The second stream may have lacked the
 * commits before the deletion, and this stream has brought these commits: they were held when the later status came, or
 * came afterwards.  The held commits are dropped.  Whether the stored commit is from before the deletion, only the time
 * in the revision tells.  The account has chosen this time, so it decides no more than the mark.
 */
static void
pass_deletion(AtpRepos *s, AtpRepoState *repo, AtpEvent *event)
{
	const AtpRepoHold *hold = &repo->hold;

	/* this stream has sent the deletion again, and the events that wait may be newer */
	if (atp_repo_has_status_of(repo, s->endpoint) || s->apply->replay)
		return;
	/* rewind: the place of a held event in the stream is not known */
	event->effects.drops_older = s->apply->sub->source->rewind == 0 && (hold->nheld > 0 || hold->adds);
	if (event->effects.drops_older || (!atp_repo_is_empty(repo) && (int64) atp_tid_micros(repo->head.rev) <= event->time))
		repo->row.changed |= atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	/* the row is the lock of the held events */
	repo->row.changed |= event->effects.drops_older;
}

/*
 * F-15: is the deletion older than the stored commit?  A stream that is read again, from before its first event in the
 * tables, brings a deletion that the account has survived; the records go all the same, since only the time in the revision
 * tells.  The account has chosen this time, so it decides no more than the mark.  A second: some servers write times without
 * fractions.
 */
static bool
is_older_deletion(const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->head.has_rev && event->time != 0 && (int64) atp_tid_micros(repo->head.rev) - event->time > USECS_PER_SEC;
}

int64
atp_repo_written_at(const AtpEvent *event)
{
	return event->written_at > 0 ? Min(event->written_at, event->time) : event->time;
}

uint64
atp_repo_event_bound(const AtpEvent *event)
{
	int64		now = atp_time_of_day() + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;
	int64		written = atp_repo_written_at(event);
	int64		time = written == 0 ? now : Max(Min(written, now), 0);

	return atp_tid_make(time, ATP_TID_MAX_CLOCK);
}

bool
atp_repo_take_status(AtpRepos *s, AtpRepoState *repo, AtpEvent *event)
{
	TimestampTz status_at = own_time(s, event);

	if (is_old_status(s, repo, event, status_at))
		return false;
	repo->account.active = event->active;
	repo->account.status = event->status;
	repo->account.status_at = status_at;
	repo->account.has_status = true;
	repo->account.status_endpoint = s->endpoint;
	repo->account.status_seq = event->seq;
	/* do not store a position that is a future time: all later events of the account would be old */
	repo->account.has_status_seq = s->apply->sub->source->rewind == 0 || !atp_is_ahead(event->seq);
	repo->account.host = cstring_to_text(atp_apply_endpoint(s->apply)->host);
	repo->row.changed = true;
	return true;
}

void
atp_repo_take_account(AtpRepos *s, AtpRepoState *repo, AtpEvent *event, AtpEffect *effect)
{
	bool		full = s->apply->sub->settings.verify == ATP_VERIFY_FULL;
	bool		is_doubted = full && atp_purge_after_s > 0 && atp_is_deletion(event);

	/* V-47; a repository that is being fetched for the first time, or whose first fetch was given up, may have records without a revision */
	bool		has_some = !atp_repo_is_empty(repo) || repo->hold.state == ATP_HOLD_RESYNC || (full && !event->active && atp_repo_has_remains(s, repo));

	event->effects.unconfirmed = is_doubted && has_some;
	/* the events of nothers stay, and are ignored when they are judged */
	event->effects.drops_held = is_doubted && !has_some && (repo->hold.nheld > 0 || repo->hold.nothers > 0 || repo->hold.adds);
	if (!atp_repo_take_status(s, repo, event))
	{
		s->apply->skips[ATP_SKIP_OLD]++;
		event->effects.passed = true;
		event->effects.drops_held = false;
		if (atp_is_deletion(event))
			pass_deletion(s, repo, event);
		/* H-43: the later status may be of an archive, which lacks this deletion: what the deletion says of older records stays true */
		effect->erase = (s->apply->sweep == ATP_SWEEP_SHARED || event->archived) && atp_is_deletion(event) && !is_doubted;
		return;
	}
	/* release events that wait for a missing commit: the account is inactive, and held events must not outlive a deletion */
	event->effects.closes = repo->hold.any_gap && !repo->account.active;
	/* a second source can bring the missing commits only after this event, when they have no effect */
	if (event->effects.closes && !atp_is_deletion(event))
		atp_repo_note_break(s, repo);
	if (event->effects.unconfirmed || event->effects.drops_held || (event->verdict.by_stranger && !repo->account.active && has_some))
		atp_repo_doubt(repo, event);
	if (event->effects.unconfirmed || !atp_is_deletion(event))
		return;
	effect->erase = true;
	atp_repo_erase(repo, effect);
	if (is_older_deletion(repo, event))
		(void) atp_repo_set_sync(repo, ATP_SYNC_DESYNCHRONIZED);
	/* the deleted records must not come back by a refill: note deleted_rev, and end the refill */
	if (repo->head.has_rev)
	{
		repo->account.deleted = true;
		repo->account.deleted_rev = repo->head.rev;
		repo->head.rev_paths = NULL;
	}
	atp_repo_forget_refill(repo);
	atp_hold_erase(&repo->hold);
}

/*
 * F-15: the handle is a hint, and unverified.  In a stream whose positions are times, an older handle must not replace a newer one, nor may
 * a handle of an archive replace the newer handle that another stream has brought (H-43).
 */
void
atp_repo_take_identity(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event)
{
	TimestampTz handle_at = own_time(s, event);
	bool		may_be_older = s->apply->sub->source->rewind > 0 || (event->archived && s->apply->sweep == ATP_SWEEP_SHARED);

	if (may_be_older && repo->account.has_handle_at && handle_at < repo->account.handle_at)
	{
		s->apply->skips[ATP_SKIP_OLD]++;
		return;
	}
	if (event->handle != NULL)
	{
		repo->account.handle = event->handle;
		repo->account.handle_at = handle_at;
		repo->account.has_handle_at = true;
	}
	repo->row.changed = true;
}
