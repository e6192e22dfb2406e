/*
 * links_sql.c
 *		The SQL function record_links(): the links of a record, and where they stand.
 */
#include "postgres.h"

#include "data/links.h"
#include "fmgr.h"
#include "funcapi.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_record_links);

static void
put_link(AtpLinkWalk *walk, AtpSpan target, const AtpUri *uri)
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

Datum
atp_pg_record_links(PG_FUNCTION_ARGS)
{
	AtpLinkWalk *walk = palloc(sizeof(AtpLinkWalk));

	InitMaterializedSRF(fcinfo, 0);
	atp_link_walk_begin(walk, put_link, fcinfo->resultinfo);
	atp_link_walk_jsonb(walk, &PG_GETARG_JSONB_P(0)->root);
	return (Datum) 0;
}
