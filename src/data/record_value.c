/*
 * record_value.c
 *		A record's block as the jsonb of a result row, and a stored record as its block again: see record_value.h.
 */
#include "postgres.h"

#include "common/compat.h"
#include "data/dagcbor_value.h"
#include "data/jsonb_read.h"
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

static AtpBytes
contents_of(const struct varlena *v)
{
	return (AtpBytes) {(const uint8_t *) VARDATA_ANY(v), VARSIZE_ANY_EXHDR(v)};
}

bool
atp_record_dagcbor(Datum value, bool packed, AtpBytes *cbor)
{
	bytea	   *made;

	if (packed)
		return atp_dagcbor_try_unpack(contents_of(PG_DETOAST_DATUM_PACKED(value)), cbor);
	if (atp_dagcbor_of_jsonb(DatumGetJsonbP(value), &made) != ATP_OK)
		return false;
	*cbor = contents_of(made);
	return true;
}
