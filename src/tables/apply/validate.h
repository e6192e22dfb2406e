/*
 * validate.h
 *		Records by their Lexicons, where the subscription asks for that (L-34).
 *
 * A record that is not what its Lexicon says is flagged, in the column record.fault, which is
 * written with it, replaced with it, and goes with it; or it is a dead letter, as one
 * that breaks the data model.  One whose Lexicon is lacking, or faulty, or that jsonb
 * cannot hold, is neither.
 */
#ifndef ATP_TABLES_VALIDATE_H
#define ATP_TABLES_VALIDATE_H

#include "config/subscription.h"
#include "stream/batch.h"

/* All of these: in a transaction. */

/* Judge a record that is to be put: sets its fault.  False: it is to be a dead letter. */
extern bool atp_validate_row(const AtpSettings *settings, AtpRecordRow *row);

/* The letter; event NULL: it is of no event. */
extern AtpLetter *atp_validate_letter(AtpBatch *batch, AtpBytes message, AtpEvent *event, const AtpRow *row);

/* All rows of a batch: those that are dead letters are taken out. */
extern void atp_validate_batch(const AtpSubscription *sub, AtpBatch *batch);

#endif							/* ATP_TABLES_VALIDATE_H */
