/*
 * record_value.h
 *		A record's block as the jsonb of a result row, and a stored record as its block again.
 */
#ifndef ATP_RECORD_VALUE_H
#define ATP_RECORD_VALUE_H

#include "postgres.h"

#include "core/atp.h"

/* SQL NULL when the record is invalid (B-20 to B-28), or jsonb cannot hold it. */
extern Datum atp_record_value(AtpBytes block, bool *isnull);

/*
 * The DAG-CBOR of a record that a column keeps as jsonb, or packed as dagcbor; palloc'd.  False: the jsonb is no value of the data
 * model, or the packed value is damaged.
 */
extern bool atp_record_dagcbor(Datum value, bool packed, AtpBytes *cbor);

#endif							/* ATP_RECORD_VALUE_H */
