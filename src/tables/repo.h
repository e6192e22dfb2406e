/*
 * repo.h
 *		States of repositories: read, moved by events, written.
 */
#ifndef ATP_REPO_H
#define ATP_REPO_H

#include "tables/sink.h"

typedef struct AtpRepoStates AtpRepoStates;

/* What an event does besides changing the state. */
typedef struct AtpVerdict
{
	bool		rows;			/* its rows are applied */
	bool		again;			/* they were before: read again, after atproto.refill() */
	bool		erase;			/* all records of the repository go */
	bool		has_rev;		/* up to this revision; unless it is known, up to the last */
	uint64		rev;
} AtpVerdict;

/* Those of the repositories of events [lo, hi). */
extern AtpRepoStates *atp_repo_states_load(AtpApply *apply, int lo, int hi);

/* One of these events, not an ignored one, moves the state of its repository. */
extern AtpVerdict atp_repo_states_take(AtpRepoStates *states, int event);

/* How such an event stands to the state as it was read. */
extern AtpAgain atp_repo_states_standing(AtpRepoStates *states, int event);

/* Once, before anything else is written: who gets the rows first may write the records. */
extern void atp_repo_states_store(AtpRepoStates *states);

/* F-15: the account is gone for good. */
extern bool atp_is_deletion(const AtpEvent *event);

#endif							/* ATP_REPO_H */
