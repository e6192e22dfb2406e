/*
 * plc_answer.h
 *		Logs of accounts, as a did:plc directory has answered, on the way into the tables (M-11, M-14).
 *
 * A subscription's consumer calls atp_plc_answers_apply() between two batches of its stream, so that one process writes the
 * operations of an account.  A log is judged together with the account's entries that wait in plc_refused, in the order of
 * their references, by the sink for the stream's entries; what holds, and the end of the request, are one transaction.
 */
#ifndef ATP_PLC_ANSWER_H
#define ATP_PLC_ANSWER_H

#include "postgres.h"

#include "common/clock.h"
#include "config/subscription.h"
#include "stream/batch.h"
#include "tables/apply/apply.h"

typedef struct AtpPlcAnswers
{
	bool		waits;			/* requests may be open: look for answers now and again */
	bool		always;			/* other processes make requests, too */
	bool		more;			/* the last look found answers, so the next look is due at once */
	AtpTime		look;
	int64		uncounted[ATP_SKIP_COUNT];	/* skips that are not written to the table yet (skips.h) */
} AtpPlcAnswers;

/* Milliseconds until atp_plc_answers_apply() is due; -1: no request is open. */
extern long atp_plc_answers_due(const AtpPlcAnswers *r, AtpTime now);

/* Have answers come?  Opens a transaction. */
extern bool atp_plc_answers_look(AtpPlcAnswers *r, const AtpSubscription *sub);

/*
 * Apply some answers at most.  layout: of the subscription's cursor, as this process knows it.  Sets skips to the counts of
 * this step; the result is that of atp_apply(), with the reason in cxt.
 */
extern AtpApplied atp_plc_answers_apply(AtpPlcAnswers *r, const AtpSubscription *sub, AtpStatements *set, int layout,
										MemoryContext cxt, int64 *skips, const char **reason);

#endif							/* ATP_PLC_ANSWER_H */
