/*
 * validate.h
 *		Validation of records by their Lexicons, only for subscriptions with the option validate (L-34, F-18).
 *
 * An invalid record is stored with the violation in the column record.fault, or becomes a dead letter, as the
 * option says.  A record is accepted without a check if its Lexicon is missing or faulty, or if jsonb cannot hold the
 * record.
 */
#ifndef ATP_TABLES_VALIDATE_H
#define ATP_TABLES_VALIDATE_H

#include "config/subscription.h"
#include "stream/batch.h"

/* The caller is in a transaction. */

/* What the settings say about records of a collection. */
extern AtpValidate atp_validate_how(const AtpSettings *settings, AtpSpan collection);

/* Validate a record that is to be written, and set row->fault if it is invalid.  False: write a dead letter in place of the record. */
extern bool atp_validate_row(const AtpSettings *settings, AtpRecordRow *row);

/* Add the dead letter of an invalid record to the batch; event NULL: the record comes from an export. */
extern AtpDeadLetter *atp_validate_dead_letter(AtpBatch *batch, AtpBytes message, AtpEvent *event, const AtpRow *row);

/* Validate all rows of a batch.  Rows that become dead letters are removed from the batch. */
extern void atp_validate_batch(const AtpSubscription *sub, AtpBatch *batch);

#endif							/* ATP_TABLES_VALIDATE_H */
