/*
 * plc_log_sql.c
 *		SQL functions atproto.plc_log() and atproto.plc_export(): the operations of an account, unpacked (M-20).
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "fmgr.h"
#include "tables/plc/plc_tables.h"

PG_FUNCTION_INFO_V1(atp_plc_log);
PG_FUNCTION_INFO_V1(atp_plc_export);

#define SIGNED	"LATERAL (SELECT " ATP_PLC_UNPACKED("o.packed", "p.cid") ") s (signed)"

#define OF_ACCOUNT \
	" FROM #.plc_operation o LEFT JOIN #.plc_operation p ON p.did OPERATOR(@.=) o.did AND p.n = o.prev, " SIGNED \
	" WHERE o.did OPERATOR(@.=) $1 ORDER BY o.n"

/* Returns the rows of a query about an account; caller's rights. */
static Datum
return_log(FunctionCallInfo fcinfo, const char *sql)
{
	const AtpArg did = ATP_FUNCTION_ARG(0, atp_type("did"));

	atp_return_query(fcinfo, atp_expand_sql(sql, NameStr(*PG_GETARG_NAME(1))), &did, 1, false);
	return (Datum) 0;
}

/* SQL: atproto.plc_log(did, target) */
Datum
atp_plc_log(PG_FUNCTION_ARGS)
{
	return return_log(fcinfo, "SELECT o.n, o.cid, o.prev, o.nullified_by,"
					  " CASE WHEN octet_length(o.packed) > 0 THEN get_byte(o.packed, 0) END, o.created_at, o.seq,"
					  " atproto.plc_json(s.signed), s.signed" OF_ACCOUNT);
}

/* SQL: atproto.plc_export(did, target) */
Datum
atp_plc_export(PG_FUNCTION_ARGS)
{
	return return_log(fcinfo, "SELECT jsonb_build_object('type', 'sequenced_op', 'did', o.did, 'operation', atproto.plc_json(s.signed),"
					  " 'cid', o.cid, 'createdAt', to_char(o.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"'), 'seq', o.seq)"
					  OF_ACCOUNT);
}
