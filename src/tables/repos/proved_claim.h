/*
 * proved_claim.h
 *		Which collections of a repository are proven, and up to which revision (P-40 to P-42).  Private to
 *		src/tables/repos and src/tables/export.
 */
#ifndef ATP_PROVED_CLAIM_H
#define ATP_PROVED_CLAIM_H

#include "tables/repos/repo_state.h"

/*
 * Called for each state before it is written.  While the repository is synchronized, proved_rev is its revision.  A
 * repository that has become synchronized in this transaction gets the set of collections, or becomes partial if a
 * subscription that follows the repository wants more.
 */
extern void atp_proved_judge(AtpRepos *s, AtpRepoState *repo);

/* P-40: the records of the subscription's filter are those of the repository's present revision. */
extern void atp_proved_fetched(AtpRepoState *repo, const AtpSettings *settings);

#endif							/* ATP_PROVED_CLAIM_H */
