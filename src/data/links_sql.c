/*
 * links_sql.c
 *		The SQL functions record_links(), of a jsonb or a dagcbor, and dagcbor_links(): the links of a record, with their paths.
 */
#include "postgres.h"

#include "data/dagcbor_value.h"
#include "data/error.h"
#include "data/links.h"
#include "fmgr.h"
#include "funcapi.h"
#include "types/glue.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_pg_record_links);
PG_FUNCTION_INFO_V1(atp_pg_record_links_packed);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_links);

static void
return_link(AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri)
{
	ReturnSetInfo *result = walk->arg;
	Datum		values[2] = {
		PointerGetDatum(atp_varlena(walk->path.text, walk->path.len)),
		PointerGetDatum(atp_aturi_make(target.ptr, target.len))
	};
	bool		nulls[2] = {false, false};

	tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	pfree(DatumGetPointer(values[0]));
	pfree(DatumGetPointer(values[1]));
}

static AtpLinkWalk *
begin_walk(FunctionCallInfo fcinfo)
{
	AtpLinkWalk *walk = palloc(sizeof(AtpLinkWalk));

	/* without the flag, each call would keep memory until the query ends: PostgreSQL looks up the result's columns then */
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	atp_link_walk_begin(walk, return_link, fcinfo->resultinfo);
	return walk;
}

Datum
atp_pg_record_links(PG_FUNCTION_ARGS)
{
	atp_link_walk_jsonb(begin_walk(fcinfo), &PG_GETARG_JSONB_P(0)->root);
	return (Datum) 0;
}

Datum
atp_pg_record_links_packed(PG_FUNCTION_ARGS)
{
	AtpPackedPart whole = atp_dagcbor_whole(atp_arg_bytes(fcinfo, 0));
	AtpBytes	cbor = atp_dagcbor_unpack(&whole);
	AtpLinkWalk *walk = begin_walk(fcinfo);
	size_t		at;

	walk->tick = atp_data_tick;
	atp_dagcbor_require(atp_link_walk_dagcbor(walk, cbor.ptr, cbor.len, &at));
	return (Datum) 0;
}

Datum
atp_pg_dagcbor_links(PG_FUNCTION_ARGS)
{
	AtpBytes	in = atp_arg_bytes(fcinfo, 0);
	AtpLinkWalk *walk = begin_walk(fcinfo);
	size_t		at;
	AtpErr		err;

	atp_require_utf8();
	walk->tick = atp_data_tick;
	err = atp_link_walk_dagcbor(walk, in.ptr, in.len, &at);
	if (err != ATP_OK)
		atp_data_error("invalid DAG-CBOR", err, at);
	return (Datum) 0;
}
