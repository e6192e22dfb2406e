/*
 * replay.h
 *		A message once more through its source's format and sink.
 *
 * It goes the same way as from the network, as the subscription's owner, whoever
 * calls: the triggers that run are the owner's.  It comes late, so each record is
 * judged by what is in the tables now, with the repository's state locked;
 * nothing newer is overwritten, and what was removed does not come back.
 */
#ifndef ATP_REPLAY_H
#define ATP_REPLAY_H

#include "tables/base/sink.h"

typedef enum AtpOutcome
{
	ATP_OUTCOME_APPLIED,
	ATP_OUTCOME_OBSOLETE,		/* nothing was left to do */
	ATP_OUTCOME_STAYS			/* it cannot be applied */
} AtpOutcome;

typedef struct AtpAgain
{
	const AtpSubscription *sub;
	AtpStatements *statements;
	AtpBytes	message;
	const struct AtpSource *source; /* what kind of stream it came from */
	/*
	 * Only the row of this path, of which it is known that it was not removed
	 * since (sink.h: settle() would have been told); len 0: the whole event.
	 */
	AtpSpan		path;
	/*
	 * Called when what the message is about is locked, before anything is written: up to which revision
	 * other commits or exports have superseded what the message says; 0: none has.
	 */
	uint64		(*locked) (void *arg);
	void	   *arg;
} AtpAgain;

/* SPI is connected.  *why is set when it stays. */
extern AtpOutcome atp_again(const AtpAgain *again, const char **why);

#endif							/* ATP_REPLAY_H */
