/*
 * replay.h
 *		Replay of a message: apply a stored message again through its source's format and sink.
 *
 * The replay runs with the rights of the subscription's owner: triggers of the owner's tables must not run with
 * the rights of a more powerful caller.  The message is late, so each record is compared with the table's
 * present rows, with the repository's row locked.  Invariant: a replay overwrites no newer row, and brings back no
 * removed record.
 */
#ifndef ATP_REPLAY_H
#define ATP_REPLAY_H

#include "tables/base/sink.h"

typedef enum AtpOutcome
{
	ATP_OUTCOME_APPLIED,
	ATP_OUTCOME_OBSOLETE,		/* newer events have made the message obsolete */
	ATP_OUTCOME_STAYS			/* the message cannot be applied, so the letter stays */
} AtpOutcome;

typedef struct AtpReplay
{
	const AtpSubscription *sub;
	AtpStatements *statements;
	AtpBytes	message;
	const struct AtpStreamKind *source; /* the kind of stream that the message came from */
	const AtpEndpoint *from;	/* the stream that the message came from; NULL: the subscription's present stream */
	/*
	 * Apply only the row with this path; len 0: the whole event.  The record of the path has not been removed
	 * since, because the removal would have deleted or marked the letter (drop_superseded_letters() in sink.h).
	 */
	AtpSpan		path;
	/*
	 * Called after the repository's row is locked, and before the first write.  Returns the revision up to which
	 * later commits or exports have superseded the message; 0: not superseded.
	 */
	uint64		(*locked) (void *arg);
	void	   *arg;
} AtpReplay;

/* Replay the message.  The caller has SPI connected.  *why is set if the result is ATP_OUTCOME_STAYS. */
extern AtpOutcome atp_replay(const AtpReplay *replay, const char **why);

#endif							/* ATP_REPLAY_H */
