/*
 * backlinks.c
 *		SQL: atproto.backlinks(), backlink_count() and backlink_dids(): which records and accounts
 *		link to a target, by the table link.
 *
 * The functions use the caller's rights.  A malformed source is an error; a well-formed source
 * without records returns no rows.  If links are distributed by the target's authority, the query
 * goes to a single node.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/option.h"
#include "config/spi.h"
#include "core/syntax/uri.h"
#include "fmgr.h"
#include "tables/commands/link_name.h"
#include "tables/records/table_link.h"
#include "types/type_uri.h"
#include "types/types.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_backlinks);
PG_FUNCTION_INFO_V1(atp_backlink_count);
PG_FUNCTION_INFO_V1(atp_backlink_dids);

/*
 * The links to $1 from source $2, $3.  The source's id is a subselect, so that the index returns
 * the links in order.
 */
#define BACKLINKS \
	" FROM #.link l WHERE l.target OPERATOR(@.=) $1 AND l.source = (SELECT s.id FROM #.link_source s" \
	" WHERE s.collection OPERATOR(@.=) $2 AND s.path = $3)"
/* The target's authority, $4: the distribution column of Citus. */
#define AUTHORITY	" AND l.authority OPERATOR(@.=) $4"
#define PARAMETERS	4			/* number of parameters above; $4 is bound even if the table has no
								 * column authority */

#define NEWEST_FIRST	" ORDER BY l.rkey USING OPERATOR(@.>), l.did USING OPERATOR(@.>) LIMIT $5"

static void
require_arg(FunctionCallInfo fcinfo, int i, const char *name)
{
	if (PG_ARGISNULL(i))
		atp_argument_is_null(name);
}

static AtpArg
arg_of(struct varlena *value, const char *type)
{
	return (AtpArg) {PointerGetDatum(value), atp_type(type), value == NULL};
}

/* Bind target, collection, path and authority from the first two arguments, target and source. */
static AtpLinkName
bind_source(FunctionCallInfo fcinfo, AtpArg *args)
{
	AtpLinkName source;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("target must not be null"),
				 errhint("Give the AT URI of what is linked to, such as at://did:web:example.com/app.bsky.feed.post/3l2eqkkbzi22u.")));
	require_arg(fcinfo, 1, "source");
	source = atp_link_name(PG_GETARG_TEXT_PP(1));
	args[0] = ATP_FUNCTION_ARG(0, atp_type("aturi"));
	args[1] = arg_of(atp_nsid_make(source.collection.ptr, source.collection.len), "nsid");
	args[2] = (AtpArg) {PointerGetDatum(atp_varlena(source.path.ptr, source.path.len)), TEXTOID, false};
	args[3] = arg_of(atp_link_authority(PG_GETARG_VARLENA_PP(0)), "aturi");
	return source;
}

/* AUTHORITY, if the links of this schema are divided by it. */
static const char *
authority_of(const char *tables)
{
	return atp_has_shard_column(&atp_link_table, atp_table_in(tables, atp_link_table.name)) ? AUTHORITY : "";
}

/* The SQL on the tables of the schema that argument i names: select, BACKLINKS, rest. */
static const char *
sql_of(FunctionCallInfo fcinfo, int i, const char *select, const char *rest)
{
	const char *tables;

	require_arg(fcinfo, i, "tables");
	tables = NameStr(*PG_GETARG_NAME(i));
	return atp_expand_sql(psprintf("%s" BACKLINKS "%s%s", select, authority_of(tables), rest), tables);
}

/* The page size; null: no limit. */
static AtpArg
max_of(FunctionCallInfo fcinfo, int i)
{
	if (!PG_ARGISNULL(i) && PG_GETARG_INT32(i) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max must not be negative"),
				 errhint("Use the number of rows of a page, such as 50, or NULL for all rows.")));
	return ATP_FUNCTION_ARG(i, INT4OID);
}

/* Bind key and DID of the last record of the page before. */
static void
bind_after(FunctionCallInfo fcinfo, int i, AtpLinkName source, AtpArg *args)
{
	AtpSpan		text = atp_uri_arg_text(fcinfo, i, ATP_SCHEME_AT);
	AtpUri		uri;
	size_t		at;

	if (atp_uri_parse(ATP_SCHEME_AT, text.ptr, text.len, &uri, &at) != ATP_OK || atp_uri_check_record(&uri, text.ptr, &at) != ATP_OK ||
		uri.collection.len != source.collection.len ||
		memcmp(uri.collection.ptr, source.collection.ptr, source.collection.len) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("after \"%s\" no page can begin", text.ptr),
				 errdetail("It is not the URI of a record of collection %.*s.", (int) source.collection.len, source.collection.ptr),
				 errhint("Use the last \"uri\" of the page before.")));
	args[0] = arg_of(atp_rkey_make(uri.rkey.ptr, uri.rkey.len), "recordkey");
	args[1] = arg_of(atp_did_make(uri.authority.ptr, uri.authority.len), "did");
}

/* SQL: atproto.backlinks(target, source, max, after, tables) */
Datum
atp_backlinks(PG_FUNCTION_ARGS)
{
	bool		next = !PG_ARGISNULL(3);
	AtpArg		args[PARAMETERS + 3];
	AtpLinkName source = bind_source(fcinfo, args);
	const char *sql = sql_of(fcinfo, 4, "SELECT @.aturi(l.did, $2, l.rkey) AS uri, l.did, l.rkey",
							 next ? " AND ROW(l.rkey, l.did) OPERATOR(@.<) ROW($6, $7)" NEWEST_FIRST : NEWEST_FIRST);

	args[PARAMETERS] = max_of(fcinfo, 2);
	if (next)
		bind_after(fcinfo, 3, source, &args[PARAMETERS + 1]);
	atp_return_query(fcinfo, sql, args, next ? PARAMETERS + 3 : PARAMETERS + 1, true);
	return (Datum) 0;
}

/*
 * How many links lead to $1 from source $2, $3: the stored count of a counted source, else the number of rows.  Both are
 * read with one snapshot, so the answer is right while count_links() runs.
 */
#define COUNT \
	"SELECT CASE WHEN s.counted THEN COALESCE((SELECT c.n FROM #.link_count c WHERE c.target OPERATOR(@.=) $1 AND c.source = s.id), 0)" \
	" ELSE (SELECT count(*) FROM #.link l WHERE l.target OPERATOR(@.=) $1 AND l.source = s.id) END AS n" \
	" FROM #.link_source s WHERE s.collection OPERATOR(@.=) $2 AND s.path = $3"

/* Divided links are not counted (link_counted.c), and Citus cannot join them with link_count. */
#define COUNT_DIVIDED	"SELECT count(*) AS n" BACKLINKS AUTHORITY

/* SQL: atproto.backlink_count(target, source, tables) */
Datum
atp_backlink_count(PG_FUNCTION_ARGS)
{
	AtpArg		args[PARAMETERS];
	const char *tables;
	bool		is_divided;
	AtpResult	found;
	int64		n;

	(void) bind_source(fcinfo, args);
	require_arg(fcinfo, 2, "tables");
	tables = NameStr(*PG_GETARG_NAME(2));
	is_divided = authority_of(tables)[0] != '\0';
	(void) atp_table_in(tables, atp_link_count_table.name);
	SPI_connect();
	found = atp_query_kept(atp_expand_sql(is_divided ? COUNT_DIVIDED : COUNT, tables), args, PARAMETERS);
	n = found.n > 0 ? atp_get_int8(atp_result_row(found, 0), "n") : 0;
	SPI_finish();
	PG_RETURN_INT64(n);
}

/* SQL: atproto.backlink_dids(target, source, max, after, tables) */
Datum
atp_backlink_dids(PG_FUNCTION_ARGS)
{
	AtpArg		args[PARAMETERS + 2];
	const char *sql;

	(void) bind_source(fcinfo, args);
	sql = sql_of(fcinfo, 4, "SELECT l.did", " AND ($6 IS NULL OR l.did OPERATOR(@.>) $6)"
				 " GROUP BY l.did ORDER BY l.did USING OPERATOR(@.<) LIMIT $5");
	args[PARAMETERS] = max_of(fcinfo, 2);
	args[PARAMETERS + 1] = ATP_FUNCTION_ARG(3, atp_type("did"));
	atp_return_query(fcinfo, sql, args, lengthof(args), true);
	return (Datum) 0;
}
