/*
 * confirm.c
 *		M-40: commits signed by a former key of the account, and confirmed by later events: see confirm.h.
 */
#include "postgres.h"

#include "identity/former_key.h"
#include "tables/repos/admission_after.h"
#include "tables/repos/confirm.h"
#include "types/types.h"
#include "utils/timestamp.h"

#define NAMED_MAX	16			/* former keys tried for the text of a letter */

/* The former keys of a repository, and the confirmed ones of its held events in the batch. */
struct AtpConfirmation
{
	AtpFormerKeys former;
	int			first;			/* index of the repository's first event in the batch; -1: not looked at yet */
	int			n;
	const AtpFormerKey **by;	/* for each event: the key, if the event is confirmed */
};

static AtpConfirmation *
confirmation_of(AtpRepos *s, const AtpRepoState *repo)
{
	AtpConfirmation **at;

	if (s->confirmations == NULL)
		s->confirmations = palloc0(sizeof(AtpConfirmation *) * s->nrepos);
	at = &s->confirmations[repo - s->repos];
	if (*at == NULL)
	{
		*at = palloc0(sizeof(AtpConfirmation));
		(*at)->former = atp_former_keys(repo->did);
		(*at)->first = -1;
	}
	return *at;
}

static bool
are_same(const struct varlena *a, const struct varlena *b)
{
	return a != NULL && b != NULL && atp_same_bytes(a, b);
}

/* Is the event a commit or #sync with a proof of how its tree follows from the tree before? */
static bool
is_proven(const AtpEvent *event)
{
	return (event->kind == ATP_REPOS_COMMIT || event->kind == ATP_REPOS_SYNC) && !event->partial && event->signature != NULL &&
		(event->proven == ATP_OPS_PROVEN || event->proven == ATP_OPS_PROVEN_FIRST);
}

static const AtpFormerKey *
signer_of(const AtpFormerKeys *former, const AtpEvent *event)
{
	for (int i = 0; i < former->n; i++)
		if (atp_former_key_is_of(&former->keys[i], event->rev) && atp_signed_fits(event->signature, former->keys[i].key))
			return &former->keys[i];
	return NULL;
}

/*
 * Does the next event begin with the tree of the event?  If the event is applied, the next event must not be left out: the next
 * event may undo what a thief has inserted.  So both came by the same stream, and the next event waits for no missing commit.
 */
static bool
is_continued(const AtpEvent *event, const AtpEvent *next)
{
	if (!are_same(next->held->subscription, event->held->subscription) || !are_same(next->held->endpoint, event->held->endpoint))
		return false;
	if (next->kind == ATP_REPOS_SYNC)
		return are_same(next->data, event->data);
	return next->has_since && next->since == event->rev && are_same(next->prev_data, event->data);
}

bool
atp_is_verified_commit(const AtpRepoState *repo, const AtpEvent *event)
{
	return repo->head.verified && repo->head.has_rev && event->rev == repo->head.rev && are_same(event->commit, repo->head.commit);
}

static bool
is_held_of(const AtpEvent *event, const struct varlena *did)
{
	return event->held != NULL && atp_same_bytes(event->held->did, did);
}

/* Look at the held events from the last to the first.  They stand together in the batch, in the order of their revisions. */
static void
confirm_events(AtpRepos *s, AtpConfirmation *c, const AtpRepoState *repo, int index, const uint8_t *present)
{
	const AtpBatch *batch = s->apply->batch;
	const AtpEvent *next = NULL;	/* the next genuine event; forged events between are passed over */
	int			hi = index + 1;

	c->first = index;
	while (c->first > 0 && is_held_of(&batch->events[c->first - 1], repo->did))
		c->first--;
	while (hi < batch->nevents && is_held_of(&batch->events[hi], repo->did))
		hi++;
	c->n = hi - c->first;
	c->by = palloc0(sizeof(AtpFormerKey *) * c->n);
	for (int i = c->n - 1; i >= 0; i--)
	{
		const AtpEvent *event = &batch->events[c->first + i];

		if (event->ignored || !is_proven(event) || atp_repo_is_inactive(s, repo, event))
			continue;
		if (!atp_signed_fits(event->signature, present))
		{
			if (atp_is_verified_commit(repo, event) || (next != NULL && is_continued(event, next)))
				c->by[i] = signer_of(&c->former, event);
			if (c->by[i] == NULL)
				continue;
		}
		next = event;
	}
}

/* A filter by actions may leave out the very operation that undoes what a thief has inserted. */
static bool
keeps_all_actions(const AtpSettings *settings)
{
	return settings->actions[ATP_CREATE] && settings->actions[ATP_UPDATE] && settings->actions[ATP_DELETE];
}

bytea *
atp_confirmed_key(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event, const uint8_t present[ATP_MULTIKEY_LEN])
{
	AtpBatch   *batch = s->apply->batch;
	int			index = event - batch->events;
	AtpConfirmation *c;
	MemoryContext old;
	bytea	   *key;

	if (event->held == NULL || !is_proven(event) || !keeps_all_actions(&s->apply->sub->settings))
		return NULL;
	c = confirmation_of(s, repo);
	if (c->former.n == 0)
		return NULL;
	if (c->first < 0)
		confirm_events(s, c, repo, index, present);
	/* a user may have altered the row of an event, which then does not stand beside the account's other events */
	if (index < c->first || index >= c->first + c->n || c->by[index - c->first] == NULL)
		return NULL;
	old = MemoryContextSwitchTo(batch->cxt);
	key = (bytea *) atp_varlena(c->by[index - c->first]->key, ATP_MULTIKEY_LEN);
	MemoryContextSwitchTo(old);
	return key;
}

const char *
atp_unconfirmed_text(AtpRepos *s, const AtpRepoState *repo, AtpEvent *event)
{
	const AtpFormerKeys *former = &confirmation_of(s, repo)->former;
	const AtpFormerKey *key = NULL;
	MemoryContext old;
	char	   *text;

	if (event->signature == NULL)
		return NULL;
	for (int i = 0; key == NULL && i < Min(former->n, NAMED_MAX); i++)
		if (atp_signed_fits(event->signature, former->keys[i].key))
			key = &former->keys[i];
	if (key == NULL)
		return NULL;
	old = MemoryContextSwitchTo(s->apply->batch->cxt);
	text = psprintf("The commit is signed by a former key of the account, \\x%s, which was its key until %s%s.",
					atp_signed_key(event->signature), timestamptz_to_str(key->until),
					!atp_former_key_is_of(key, event->rev) ? ""
					: keeps_all_actions(&s->apply->sub->settings) ? ", and nothing newer confirms the commit"
					: ", and with some of the actions only, no former key counts");
	MemoryContextSwitchTo(old);
	return text;
}
