/*
 * record_value.c
 *		A record's block as the jsonb of a result row.
 */
#include "postgres.h"

#include "core/record.h"
#include "data/jsonb_write.h"
#include "data/record_value.h"

Datum
atp_record_value(AtpBytes block, bool *isnull)
{
	Jsonb	   *value = NULL;
	AtpErr		err;
	size_t		at;

	if (atp_record_check(block.ptr, block.len, &at) == ATP_OK)
		value = atp_jsonb_from_dagcbor(block.ptr, block.len, &err, &at);
	*isnull = value == NULL;
	return PointerGetDatum(value);
}
