/*
 * dagcbor_sql.c
 *		SQL functions that convert between DAG-CBOR and jsonb or JSON.
 */
#include "postgres.h"

#include "fmgr.h"
#include "utils/builtins.h"

#include "common/compat.h"
#include "data/error.h"
#include "data/json_read.h"
#include "data/jsonb_read.h"
#include "data/jsonb_write.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_dagcbor_to_jsonb);
PG_FUNCTION_INFO_V1(atp_pg_jsonb_to_dagcbor);
PG_FUNCTION_INFO_V1(atp_pg_json_to_dagcbor);

Datum
atp_pg_dagcbor_to_jsonb(PG_FUNCTION_ARGS)
{
	bytea	   *in = PG_GETARG_BYTEA_PP(0);
	AtpErr		err;
	size_t		at;
	Jsonb	   *result;

	atp_require_utf8();
	result = atp_jsonb_from_dagcbor((AtpBytes) {(const uint8_t *) VARDATA_ANY(in), VARSIZE_ANY_EXHDR(in)}, &err, &at);
	if (result == NULL)
		atp_data_error(err == ATP_E_JSON_NUL || err == ATP_E_JSON_AMBIGUOUS ||
					   err == ATP_E_JSON_SIZE || err == ATP_E_DATA_FLOAT ?
					   "cannot convert DAG-CBOR to jsonb" : "invalid DAG-CBOR",
					   err, at);
	PG_FREE_IF_COPY(in, 0);
	PG_RETURN_JSONB_P(result);
}

Datum
atp_pg_jsonb_to_dagcbor(PG_FUNCTION_ARGS)
{
	Jsonb	   *jb = PG_GETARG_JSONB_P(0);
	bytea	   *result;
	AtpErr		err;

	atp_require_utf8();
	if ((err = atp_dagcbor_of_jsonb(jb, &result)) != ATP_OK)
		atp_data_error("cannot convert jsonb to DAG-CBOR", err, ATP_NO_OFFSET);
	PG_FREE_IF_COPY(jb, 0);
	PG_RETURN_BYTEA_P(result);
}

Datum
atp_pg_json_to_dagcbor(PG_FUNCTION_ARGS)
{
	text	   *json = PG_GETARG_TEXT_PP(0);
	uint8_t    *room;
	AtpBytes	cbor;
	bytea	   *result;
	size_t		at;
	AtpErr		err;

	atp_require_utf8();
	err = atp_dagcbor_of_json((AtpSpan) {VARDATA_ANY(json), VARSIZE_ANY_EXHDR(json)}, &room, &cbor, &at);
	if (err != ATP_OK)
		atp_data_error("cannot convert JSON to DAG-CBOR", err, at);
	result = atp_varlena(cbor.ptr, cbor.len);
	pfree(room);
	PG_FREE_IF_COPY(json, 0);
	PG_RETURN_BYTEA_P(result);
}
