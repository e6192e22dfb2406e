/*
 * repo.h
 *		States of repositories: read, moved by events, written.
 */
#ifndef ATP_REPO_H
#define ATP_REPO_H

#include "tables/base/sink.h"

typedef struct AtpRepos AtpRepos;

/* What an event does besides changing the state. */
typedef struct AtpEffect
{
	bool		rows;			/* its rows are applied */
	bool		again;			/* they were before: read again, after atproto.refill() */
	bool		erase;			/* all records of the repository go */
	bool		has_rev;		/* up to this revision; unless it is known, up to the last */
	uint64		rev;
	bool		undo;			/* records that the refill has written up to here are removed: their chain is broken */
	uint64		undo_rev;
	TimestampTz undo_since;		/* when the refill was asked for */
} AtpEffect;

/* Those of the repositories of events [lo, hi). */
extern AtpRepos *atp_repos_load(AtpApply *apply, int lo, int hi);

/* The verdicts on the events (judge.h) stand from before, in this transaction. */
extern void atp_repos_judged(AtpRepos *states);

/* One of these events, not an ignored one, is judged, and moves the state of its repository. */
extern AtpEffect atp_repos_take(AtpRepos *states, int event);

/* How such an event stands to the state as it was read. */
extern AtpStanding atp_repos_standing(AtpRepos *states, int event);

/* Once, before anything else is written: who gets the rows first may write the records. */
extern void atp_repos_store(AtpRepos *states);

/* F-15: the account is gone for good. */
extern bool atp_is_deletion(const AtpEvent *event);

/* What the tables have of the repository is not what the network has. */
extern void atp_repo_mark(AtpApply *a, struct varlena *did);

/*
 * Events of these repositories that were held are about to be dropped.  Leaves those whose rows nobody else
 * has, which are locked then; how many.  *marked, sorted, are those of which something was stored, or is being
 * fetched: their rows say from now on that they lack something.
 */
extern int	atp_repos_mark_dropped(AtpApply *a, struct varlena **dids, int n, struct varlena ***marked, int *nmarked);

/* Whoever has these rows has come to an end; then those of which something was stored are marked likewise, and counted. */
extern int	atp_repos_mark_left(AtpApply *a, struct varlena *const *dids, int n, struct varlena ***marked);

/* Of these nothing is known any more, unless somebody else has told something. */
extern void atp_repos_forget(AtpApply *a, struct varlena *const *dids, int n);

/* They say that events wait, of which there are none: not any more.  NULL: all that say so. */
extern void atp_repos_unhold(AtpApply *a, struct varlena *const *dids, int n);

/* Some whose held events are to be taken, as their rows say; how many. */
extern int	atp_repos_released(const AtpSubscription *sub, AtpStatements *set, struct varlena **dids, int max);

/* Records up to this revision go later; false: there are none. */
extern bool atp_repo_leave_to_purge(AtpApply *a, const AtpEvent *event, uint64 rev);

/* Of those of which no record is left that was to go. */
extern void atp_repo_end_purge(AtpApply *a);

/* Are records of it, when the account was deleted, still about to go? */
extern bool atp_repo_is_purged(AtpApply *a, struct varlena *did);

#endif							/* ATP_REPO_H */
