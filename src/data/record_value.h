/*
 * record_value.h
 *		A record's block as the jsonb of a result row.
 */
#ifndef ATP_RECORD_VALUE_H
#define ATP_RECORD_VALUE_H

#include "postgres.h"

#include "core/atp.h"

/* SQL NULL when the record is invalid (B-20 to B-28), or jsonb cannot hold it. */
extern Datum atp_record_value(AtpBytes block, bool *isnull);

#endif							/* ATP_RECORD_VALUE_H */
