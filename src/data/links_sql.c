/*
 * links_sql.c
 *		The SQL functions record_links(), of a jsonb or a dagcbor, and dagcbor_links(): the links of a record, with their paths;
 *		and stored_links(), of a row of the table record.
 *
 * stored_links() is for queries that go through whole tables: where the value of a row is damaged, record_links() would end the
 * query with an error.  stored_links() finds the links that the consumer would find (link_rows.c), and a warning names the row.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "data/dagcbor_value.h"
#include "data/error.h"
#include "data/links.h"
#include "fmgr.h"
#include "funcapi.h"
#include "types/glue.h"
#include "types/types.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_pg_record_links);
PG_FUNCTION_INFO_V1(atp_pg_record_links_packed);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_links);
PG_FUNCTION_INFO_V1(atp_pg_stored_links_packed);
PG_FUNCTION_INFO_V1(atp_pg_stored_links_raw);

/* A statement names so many damaged rows, each once: check() names all. */
#define NAMED_MAX	10

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

/* Has a warning of this statement named the record already, or have the warnings named enough records? */
static bool
is_named(uint64 record)
{
	static TimestampTz statement;
	static uint64 named[NAMED_MAX];
	static int	n;

	if (statement != GetCurrentStatementStartTimestamp())
		n = 0;
	statement = GetCurrentStatementStartTimestamp();
	for (int i = 0; i < n; i++)
		if (named[i] == record)
			return true;
	if (n == NAMED_MAX)
		return true;
	named[n++] = record;
	return false;
}

/* The arguments 1 to 3 are the key of the row. */
static void
warn_of_damage(FunctionCallInfo fcinfo)
{
	char		did[ATP_DID_MAX];
	char		rkey[ATP_RKEY_MAX];
	int			did_len = (int) atp_did_copy(PG_GETARG_VARLENA_PP(1), did);
	AtpSpan		collection = atp_nsid_span(PG_GETARG_VARLENA_PP(2));
	int			rkey_len = (int) atp_rkey_copy(PG_GETARG_VARLENA_PP(3), rkey);
	char	   *uri = psprintf("at://%.*s/%.*s/%.*s", did_len, did, (int) collection.len, collection.ptr, rkey_len, rkey);

	if (!is_named(hash_bytes_extended((const unsigned char *) uri, strlen(uri), 0)))
		ereport(WARNING,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("the stored record %s is damaged, and has no links, or not all", uri),
				 errhint("atproto.check() names all such records, and says what to do.")));
	pfree(uri);
}

static void
walk_stored(FunctionCallInfo fcinfo, AtpBytes cbor)
{
	AtpLinkWalk *walk = begin_walk(fcinfo);
	size_t		at;

	walk->tick = atp_data_tick;
	if (atp_link_walk_dagcbor(walk, cbor.ptr, cbor.len, &at) != ATP_OK)
		warn_of_damage(fcinfo);
}

Datum
atp_pg_stored_links_packed(PG_FUNCTION_ARGS)
{
	AtpBytes	cbor;

	if (atp_dagcbor_try_unpack(atp_arg_bytes(fcinfo, 0), &cbor))
		walk_stored(fcinfo, cbor);
	else
	{
		(void) begin_walk(fcinfo);
		warn_of_damage(fcinfo);
	}
	return (Datum) 0;
}

Datum
atp_pg_stored_links_raw(PG_FUNCTION_ARGS)
{
	atp_require_utf8();
	walk_stored(fcinfo, atp_arg_bytes(fcinfo, 0));
	return (Datum) 0;
}
