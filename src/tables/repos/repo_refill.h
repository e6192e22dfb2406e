/*
 * repo_refill.h
 *		The effect of events that atproto.refill() has the stream send again.  Private to src/tables/repos and src/tables/export.
 *
 * A refill adds records that are missing from the tables.  Its events are not newer than the repository's state, so they
 * change only the progress of the refill (AtpRepoRefill), sync and first_rev; the repository's revision stays.
 */
#ifndef ATP_REPO_REFILL_H
#define ATP_REPO_REFILL_H

#include "tables/repos/repo_state.h"

/* Is the repository being refilled by the subscription that received the event (atproto.refill())? */
extern bool atp_repo_is_refilled(const AtpRepos *s, const AtpRepoState *repo, const AtpEvent *event);

/* Is the event read again by atproto.refill()?  If so, move refill_rev to the event's revision. */
extern bool atp_repo_take_reread(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect);

/*
 * S-13: a message that the refill reads again is passed over, and may have removed records that the refill has written.  After
 * a whole commit the next commit shows the break; after the last one, or after a message with only a part of its commit,
 * nothing does.
 */
extern void atp_repo_pass_reread(AtpRepos *s, AtpRepoState *repo, const AtpEvent *event, AtpEffect *effect);

/* End the refill of the repository. */
extern void atp_repo_forget_refill(AtpRepoState *repo);

#endif							/* ATP_REPO_REFILL_H */
