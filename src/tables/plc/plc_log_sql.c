/*
 * plc_log_sql.c
 *		SQL functions atproto.plc_log() and atproto.plc_export(): the operations of an account, unpacked (M-20); and
 *		atproto.plc_audit(), which judges them again (M-51).
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "fmgr.h"
#include "tables/plc/plc_tables.h"

PG_FUNCTION_INFO_V1(atp_plc_log);
PG_FUNCTION_INFO_V1(atp_plc_export);
PG_FUNCTION_INFO_V1(atp_plc_audit);

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
					  " 'cid', o.cid, 'createdAt', " ATP_PLC_ENTRY_TIME ", 'seq', o.seq)"
					  OF_ACCOUNT);
}

/* The account's rows, numbered by their order, beside what plc_check() says of them as the entries of an audit log. */
#define JUDGED \
	"WITH l AS MATERIALIZED (SELECT row_number() OVER (ORDER BY o.n) AS i, o.n, o.cid, o.prev, p.cid AS prev_cid, o.nullified_by," \
	"  atproto.plc_json(s.signed) AS operation, " ATP_PLC_ENTRY_TIME " AS at" \
	"  FROM #.plc_operation o LEFT JOIN #.plc_operation p ON p.did OPERATOR(@.=) o.did AND p.n = o.prev, " SIGNED \
	"  WHERE o.did OPERATOR(@.=) $1)," \
	" c AS MATERIALIZED (SELECT c.* FROM (SELECT jsonb_agg(jsonb_build_object('did', $1, 'cid', l.cid, 'createdAt', l.at," \
	"   'nullified', l.nullified_by IS NOT NULL, 'operation', COALESCE(l.operation, 'null')) ORDER BY l.i) AS log FROM l) g, atproto.plc_check(g.log) c)," \
	" j AS (SELECT l.n, l.cid, CASE" \
	"  WHEN l.n <> l.i THEN format('the place should be %s', l.i)" \
	"  WHEN l.operation IS NULL THEN 'the operation cannot be unpacked'" \
	"  WHEN c.verdict = 'refused' THEN format('%s: %s', c.reason, c.detail)" \
	"  WHEN c.nullified_by IS DISTINCT FROM l.nullified_by THEN format('nullified by %s', c.nullified_by)" \
	"  WHEN l.prev_cid::text IS DISTINCT FROM l.operation ->> 'prev' THEN format('the operation before is %s', l.operation ->> 'prev')" \
	"  END AS problem FROM l LEFT JOIN c ON c.n = l.i)"

/* SQL: atproto.plc_audit(did, target) */
Datum
atp_plc_audit(PG_FUNCTION_ARGS)
{
	return return_log(fcinfo, JUDGED " SELECT j.n, j.cid, j.problem FROM j WHERE j.problem IS NOT NULL ORDER BY j.n");
}
