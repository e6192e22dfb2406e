/*
 * hold.c
 *		Why the events of a repository wait: the states, each way between them, and what leads there (hold.h has the
 *		table in words).
 *
 * Whether a single event waits is decided in admission.c.  Invariant: the column hold changes only by the functions of
 * this file, or by the SQL texts of hold.h.
 */
#include "postgres.h"

#include "tables/repos/hold.h"
#include "utils/builtins.h"

#define FROM(state)		(1 << ATP_HOLD_##state)
/* the states in which events wait, outside of a fetch */
#define WAITING			(FROM(IDENTITY) | FROM(GAP) | FROM(RELEASE) | FROM(UNKNOWN))

static const struct
{
	const char *word;			/* in the column; NULL: null, or an unknown word */
	int			from;			/* bit mask of the states before it */
}			states[ATP_HOLD_COUNT] = {
	/* the last held event has gone, or the account was deleted; a fetch has ended, and no events are held */
	[ATP_HOLD_NONE] = {NULL, WAITING | FROM(RESYNC)},
	/* an event waits for a key or a signature, or behind an event that does */
	[ATP_HOLD_IDENTITY] = {ATP_WORD_IDENTITY, FROM(NONE) | (WAITING & ~FROM(IDENTITY))},
	/* an event waits for a missing commit */
	[ATP_HOLD_GAP] = {ATP_WORD_GAP, FROM(NONE) | (WAITING & ~FROM(GAP))},
	/* a fetch begins, or a fetch whose process has ended begins again */
	[ATP_HOLD_RESYNC] = {ATP_WORD_RESYNC, FROM(NONE) | WAITING | FROM(RESYNC)},
	/* a fetch has ended, and events are held */
	[ATP_HOLD_RELEASE] = {ATP_WORD_RELEASE, FROM(RESYNC)},
	/* no way leads to a user's word */
	[ATP_HOLD_UNKNOWN] = {NULL, 0},
};

/* ------------------------------------------------------------------------
 * The ways
 * ------------------------------------------------------------------------
 */
static void
enter_hold(AtpRepoHold *h, AtpHold state)
{
	Assert((states[state].from & (1 << h->state)) != 0);
	h->state = state;
	h->word = states[state].word == NULL ? NULL : cstring_to_text(states[state].word);
}

/* The first held event waits for a key or a signature. */
static void
wait_for_identity(AtpRepoHold *h)
{
	enter_hold(h, ATP_HOLD_IDENTITY);
}

/* The first held event waits for a missing commit. */
static void
wait_for_commit(AtpRepoHold *h)
{
	enter_hold(h, ATP_HOLD_GAP);
}

void
atp_hold_fetch(AtpRepoHold *h)
{
	/* atp_repo_export_refused(): events that the fetching subscription may take do not wait for anything else */
	Assert(h->state == ATP_HOLD_RESYNC || h->nheld == 0);
	enter_hold(h, ATP_HOLD_RESYNC);
}

/* The fetch has ended, and events are held: consumers judge them again. */
static void
release_held(AtpRepoHold *h)
{
	Assert(h->nheld + h->nothers > 0);
	enter_hold(h, ATP_HOLD_RELEASE);
}

/* No event is held any more. */
static void
end_hold(AtpRepoHold *h)
{
	/* nheld is below 0 if a session has deleted held events that are in the release batch: the transaction will be aborted */
	Assert(h->nheld <= 0 && h->nothers == 0);
	enter_hold(h, ATP_HOLD_NONE);
}

/* ------------------------------------------------------------------------
 * What is known of the held events
 * ------------------------------------------------------------------------
 */
void
atp_hold_read(AtpRepoHold *h)
{
	h->state = h->word == NULL ? ATP_HOLD_NONE : ATP_HOLD_UNKNOWN;
	for (int i = 0; i < ATP_HOLD_COUNT && h->word != NULL; i++)
		if (states[i].word != NULL && VARSIZE_ANY_EXHDR(h->word) == strlen(states[i].word) &&
			memcmp(VARDATA_ANY(h->word), states[i].word, strlen(states[i].word)) == 0)
			h->state = i;
}

void
atp_hold_count(AtpRepoHold *h, const AtpHeldCount *count)
{
	h->nheld = h->nunread = count->n;
	h->nown = count->own;
	h->nothers = count->all - count->n;
	h->any_gap = count->any_gap;
	h->first_rev = count->first_rev;
	h->waits = count->n > 0 || h->state == ATP_HOLD_RESYNC;
	h->gap = count->awaits_commit && h->state != ATP_HOLD_RESYNC;
}

void
atp_hold_follow(AtpRepoHold *h, const AtpEvent *event, bool judged)
{
	atp_held_order_follow(&h->order, event->held, h->nheld, h->first_rev);
	h->judged |= !event->ignored;
	if (!judged)
		return;
	if (atp_hold_is_gone(event))
		h->nheld--;
	else
		h->order.stays = true;
}

void
atp_hold_note_beyond(AtpRepoHold *h)
{
	h->nbeyond = h->nunread;
	h->nunread = 0;
}

void
atp_hold_followed(AtpRepoHold *h)
{
	h->order.stays |= h->order.follows && h->state == ATP_HOLD_RESYNC;
}

bool
atp_hold_stops(const AtpRepoHold *h, const AtpEvent *event, uint64 rev)
{
	bool		continues = event->has_since && event->since == rev;

	if (h->order.stays || !h->waits)
		return h->order.stays;
	/* an event that was held after the batch was read may come before any event but the first, unless the chain is complete */
	if (event->held != NULL)
		return h->nunread > 0 && event->rev > h->first_rev && !continues;
	/* the held events may wait for exactly this commit, or this commit may prove the chain complete */
	return !h->gap || !(event->rev <= h->first_rev || continues);
}

void
atp_hold_note_held(AtpRepoHold *h, const AtpEvent *event)
{
	bool		gap = event->verdict.why_held == ATP_HELD_GAP;

	if (event->held == NULL)
	{
		h->adds = true;
		h->any_gap |= gap;
		if (gap)
			h->first_rev = h->waits ? Min(h->first_rev, event->rev) : event->rev;
	}
	if (event->verdict.why_held != ATP_HELD_ORDER)
		h->gap = gap;
	h->waits = true;
	/* events of the stream waiting for a missing commit must not hold back the commit */
	h->order.stays |= event->held != NULL || !h->gap;
}

bool
atp_hold_is_gone(const AtpEvent *event)
{
	return event->ignored || event->verdict.judged != ATP_JUDGED_HELD;
}

bool
atp_hold_take_verdict(AtpRepoHold *h, const AtpEvent *event)
{
	if (atp_hold_is_gone(event))
		h->nheld--;
	/*
	 * Held events outside the batch may have waited behind this event, or this event may wait for one of them.  No row
	 * of atproto.held_release need name the repository, because atp_release() also reads repositories whose gap has
	 * timed out; without this, their events would be forgotten.
	 */
	return (h->gap && h->nunread > 0) || (atp_hold_is_gone(event) && (h->nunread > 0 || h->nbeyond > 0 || h->nothers > 0));
}

bool
atp_hold_is_touched(const AtpRepoHold *h)
{
	return h->order.stays || h->adds || h->order.follows;
}

/* ------------------------------------------------------------------------
 * Which way is taken
 * ------------------------------------------------------------------------
 */

/* Events wait after this transaction. */
static bool
go_on_waiting(AtpRepoHold *h)
{
	/* the release that is due will judge the held events, and set hold to the reason of a further wait */
	if (h->state == ATP_HOLD_RELEASE && !h->order.follows)
		return false;
	if (h->state == (h->gap ? ATP_HOLD_GAP : ATP_HOLD_IDENTITY))
		return false;
	if (h->gap)
		wait_for_commit(h);
	else
		wait_for_identity(h);
	return true;
}

bool
atp_hold_update(AtpRepoHold *h, bool *lost)
{
	*lost = false;
	if (h->state == ATP_HOLD_RESYNC)
		return false;
	if (h->order.stays || h->adds || h->nheld > 0)
		return go_on_waiting(h);
	/* events that this subscription may not take are still held */
	if (h->state == ATP_HOLD_NONE || h->nothers > 0)
		return false;
	*lost = h->state == ATP_HOLD_GAP && !h->judged;
	end_hold(h);
	return true;
}

void
atp_hold_erase(AtpRepoHold *h)
{
	if (h->state == ATP_HOLD_RESYNC)
		return;
	h->nheld = h->nown = h->nunread = h->nbeyond = 0;
	h->waits = h->adds = h->order.stays = h->gap = false;
	if (h->nothers > 0)
		return;
	h->any_gap = false;
	if (h->state != ATP_HOLD_NONE)
		end_hold(h);
}

bool
atp_hold_fetched(AtpRepoHold *h)
{
	if (h->state != ATP_HOLD_RESYNC)
		return false;
	if (h->nheld + h->nothers > 0)
		release_held(h);
	else
		end_hold(h);
	return true;
}
