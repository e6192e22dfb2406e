/*
 * admission.h
 *		Which events of repositories are taken, and which wait: the order of each
 *		repository's events, and at level full who has signed them.
 *
 * The verdict on a #commit or #sync is an AtpJudged, in the event:
 *
 *		true		it goes on to repo_state.c
 *		ignored		it has no effect, and is counted
 *		false		a dead letter, stage signature; nothing else follows from it
 *		held		it is kept (held.h), and comes again by release.c
 */
#ifndef ATP_ADMISSION_H
#define ATP_ADMISSION_H

#include "tables/repos/repo.h"

/* What is to be known of these repositories, whose states have just been read. */
extern void atp_judge_begin(AtpRepos *repos, int lo, int hi);

/* The verdict on one of the events, in their order. */
extern void atp_judge(AtpRepos *repos, int event);

/* Events [lo, hi) have been taken: do the repositories wait?  Their states say so from now on. */
extern void atp_judge_end(AtpRepos *repos, int lo, int hi);

/* Dead letters of the events [a->lo, a->hi) that are false. */
extern void atp_judge_condemn(AtpApply *a);

/* Of the events [a->lo, a->hi), those that are in doubt: servers are asked. */
extern void atp_judge_ask(AtpApply *a);

/* What else follows from the verdicts on them besides rows and letters: they are held, identities asked for. */
extern void atp_judge_conclude(AtpApply *a);

/* Why an event that comes once more is not taken. */
extern const char *atp_judge_reason(const AtpEvent *event);

#endif							/* ATP_ADMISSION_H */
