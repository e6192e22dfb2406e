/*
 * admission.h
 *		Admission of a repository's events: apply an event now, hold the event, or reject the event.
 *
 * Admission checks the order of each repository's events and, at level full, their signatures.  The effect
 * of an admitted event on the repository's state is repo_effect.c's task.  The verdict on a #commit or #sync
 * is stored in AtpEvent.judged:
 *
 *		true		repo_effect.c applies the event
 *		ignored		the event has no effect, and is counted
 *		false		the event becomes a dead letter of stage signature, and has no other effect
 *		held		the event is kept in atproto.held_event (held.h); release.c judges the event again
 */
#ifndef ATP_ADMISSION_H
#define ATP_ADMISSION_H

#include "tables/repos/repo.h"

/* Read held events and identities of the repositories whose states have just been read; before the first atp_admission_judge(). */
extern void atp_admission_begin(AtpRepos *repos, int lo, int hi);

/* Set the verdict on one event.  The caller judges the events of a batch in their order. */
extern void atp_admission_judge(AtpRepos *repos, int event);

/* After events [lo, hi) were taken: set the column hold of each repository. */
extern void atp_admission_end(AtpRepos *repos, int lo, int hi);

/* Add a dead letter for each of the events [a->lo, a->hi) whose verdict is false. */
extern void atp_admission_reject_unsigned(AtpApply *a);

/* Request a status look-up for each account with an event in [a->lo, a->hi) whose doubts is set. */
extern void atp_admission_request_statuses(AtpApply *a);

/* Write the remaining results of the verdicts on events [a->lo, a->hi): held events, requests for identities and statuses. */
extern void atp_admission_after_apply(AtpApply *a);

/* Why a replayed event (replay.h) is not applied. */
extern const char *atp_admission_reason(const AtpEvent *event);

#endif							/* ATP_ADMISSION_H */
