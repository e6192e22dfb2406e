/*
 * record_value.c
 *		A record's block as the jsonb of a result row.
 */
#include "postgres.h"

#include "data/jsonb_write.h"
#include "data/record_value.h"

Datum
atp_record_value(AtpBytes block, bool *isnull)
{
	AtpErr		err;
	size_t		at;
	Jsonb	   *value = atp_jsonb_from_record(block, &err, &at);

	*isnull = value == NULL;
	return PointerGetDatum(value);
}
