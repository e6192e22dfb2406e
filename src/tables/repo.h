/*
 * repo.h
 *		States of repositories: read, moved by events, written.
 */
#ifndef ATP_REPO_H
#define ATP_REPO_H

#include "tables/sink.h"

typedef struct AtpRepos AtpRepos;

/* What an event does besides changing the state. */
typedef struct AtpEffect
{
	bool		rows;			/* its rows are applied */
	bool		again;			/* they were before: read again, after atproto.refill() */
	bool		erase;			/* all records of the repository go */
	bool		has_rev;		/* up to this revision; unless it is known, up to the last */
	uint64		rev;
} AtpEffect;

/* Those of the repositories of events [lo, hi). */
extern AtpRepos *atp_repos_load(AtpApply *apply, int lo, int hi);

/* One of these events, not an ignored one, moves the state of its repository. */
extern AtpEffect atp_repos_take(AtpRepos *states, int event);

/* How such an event stands to the state as it was read. */
extern AtpStanding atp_repos_standing(AtpRepos *states, int event);

/* Once, before anything else is written: who gets the rows first may write the records. */
extern void atp_repos_store(AtpRepos *states);

/* F-15: the account is gone for good. */
extern bool atp_is_deletion(const AtpEvent *event);

/* What the tables have of the repository is not what the network has. */
extern void atp_repo_mark(AtpApply *a, struct varlena *did);

/* Records up to this revision go later; false: there are none. */
extern bool atp_repo_leave_to_purge(AtpApply *a, const AtpEvent *event, uint64 rev);

/* Of those of which no record is left that was to go. */
extern void atp_repo_end_purge(AtpApply *a);

#endif							/* ATP_REPO_H */
