/*
 * backlinks.c
 *		SQL: atproto.backlinks(), backlink_count() and backlink_dids(): who links to
 *		something, by the table link.
 *
 * With the caller's rights.  A source that is none is an error, one that no record
 * has had is not: nothing links from there.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "core/link.h"
#include "core/nsid.h"
#include "core/uri.h"
#include "fmgr.h"
#include "tables/table.h"
#include "types/types.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_backlinks);
PG_FUNCTION_INFO_V1(atp_backlink_count);
PG_FUNCTION_INFO_V1(atp_backlink_dids);

/* The links to $1 from source $2, $3: the source is looked up first, so that they come in the order of the key. */
#define BACKLINKS \
	" FROM #.link l WHERE l.target OPERATOR(@.=) $1 AND l.source = (SELECT s.id FROM #.link_source s" \
	" WHERE s.collection OPERATOR(@.=) $2 AND s.path = $3)"

#define NEWEST_FIRST	" ORDER BY l.rkey USING OPERATOR(@.>), l.did USING OPERATOR(@.>) LIMIT $4"

/* "collection:path" */
typedef struct Source
{
	AtpSpan		collection;
	AtpSpan		path;
} Source;

static void
require(FunctionCallInfo fcinfo, int i, const char *name)
{
	if (PG_ARGISNULL(i))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name)));
}

static Source
source_of(const text *source)
{
	AtpSpan		whole = {VARDATA_ANY(source), VARSIZE_ANY_EXHDR(source)};
	const char *colon = memchr(whole.ptr, ':', whole.len);
	size_t		n = colon == NULL ? whole.len : (size_t) (colon - whole.ptr);
	size_t		at;

	if (colon == NULL || atp_nsid_check(whole.ptr, n, &at) != ATP_OK ||
		!atp_link_path_is_valid((AtpSpan) {colon + 1, whole.len - n - 1}))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid source of links: \"%s\"", text_to_cstring(source)),
				 errhint("Use a collection and a path, such as app.bsky.feed.like:subject.uri.")));
	return (Source) {{whole.ptr, n}, {whole.ptr + n + 1, whole.len - n - 1}};
}

static AtpArg
arg_of(struct varlena *value, const char *type)
{
	return (AtpArg) {PointerGetDatum(value), atp_type(type), value == NULL};
}

/* The parameters that all have: target, collection and path; target is the first argument, and the source the second. */
static Source
bind_source(FunctionCallInfo fcinfo, AtpArg *args)
{
	Source		source;

	require(fcinfo, 0, "target");
	require(fcinfo, 1, "source");
	source = source_of(PG_GETARG_TEXT_PP(1));
	args[0] = ATP_FUNCTION_ARG(0, atp_type("aturi"));
	args[1] = arg_of(atp_nsid_make(source.collection.ptr, source.collection.len), "nsid");
	args[2] = (AtpArg) {PointerGetDatum(atp_varlena(source.path.ptr, source.path.len)), TEXTOID, false};
	return source;
}

static const char *
tables_of(FunctionCallInfo fcinfo, int i)
{
	const char *tables;

	require(fcinfo, i, "tables");
	tables = NameStr(*PG_GETARG_NAME(i));
	(void) atp_table_in(tables, "link");
	return tables;
}

/* How many; null: all of them. */
static AtpArg
max_of(FunctionCallInfo fcinfo, int i)
{
	if (!PG_ARGISNULL(i) && PG_GETARG_INT32(i) < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("max must not be negative")));
	return ATP_FUNCTION_ARG(i, INT4OID);
}

/* The record that is the last one of the page before: its key and DID. */
static void
bind_after(FunctionCallInfo fcinfo, int i, Source source, AtpArg *args)
{
	struct varlena *stored = PG_GETARG_VARLENA_PP(i);
	char	   *buf = palloc(ATP_URI_MAX + 1);
	size_t		n = atp_uri_text(ATP_SCHEME_AT, (const uint8_t *) VARDATA_ANY(stored), VARSIZE_ANY_EXHDR(stored), buf);
	AtpUri		uri;
	size_t		at;

	buf[n] = '\0';
	if (atp_uri_parse(ATP_SCHEME_AT, buf, n, &uri, &at) != ATP_OK || atp_uri_check_record(&uri, buf, &at) != ATP_OK ||
		uri.collection.len != source.collection.len ||
		memcmp(uri.collection.ptr, source.collection.ptr, source.collection.len) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("after \"%s\" no page can begin", buf),
				 errdetail("It is not the URI of a record of collection %.*s.", (int) source.collection.len, source.collection.ptr),
				 errhint("Use the last \"uri\" of the page before.")));
	args[0] = arg_of(atp_rkey_make(uri.rkey.ptr, uri.rkey.len), "recordkey");
	args[1] = arg_of(atp_did_make(uri.authority.ptr, uri.authority.len), "did");
}

/* SQL: atproto.backlinks(target, source, max, after, tables) */
Datum
atp_backlinks(PG_FUNCTION_ARGS)
{
	static const char first[] = "SELECT @.aturi(l.did, $2, l.rkey) AS uri, l.did, l.rkey" BACKLINKS NEWEST_FIRST;
	static const char next[] = "SELECT @.aturi(l.did, $2, l.rkey) AS uri, l.did, l.rkey" BACKLINKS
		" AND ROW(l.rkey, l.did) OPERATOR(@.<) ROW($5, $6)" NEWEST_FIRST;
	AtpArg		args[6];
	Source		source = bind_source(fcinfo, args);
	const char *tables = tables_of(fcinfo, 4);

	args[3] = max_of(fcinfo, 2);
	if (!PG_ARGISNULL(3))
		bind_after(fcinfo, 3, source, &args[4]);
	atp_return_query(fcinfo, atp_expand_sql(PG_ARGISNULL(3) ? first : next, tables), args, PG_ARGISNULL(3) ? 4 : 6, true);
	return (Datum) 0;
}

/* SQL: atproto.backlink_count(target, source, tables) */
Datum
atp_backlink_count(PG_FUNCTION_ARGS)
{
	const char *tables;
	AtpArg		args[3];
	AtpResult	found;
	int64		n;

	(void) bind_source(fcinfo, args);
	tables = tables_of(fcinfo, 2);
	SPI_connect();
	found = atp_query(atp_expand_sql("SELECT count(*) AS n" BACKLINKS, tables), args, lengthof(args));
	n = atp_get_int8(atp_result_row(found, 0), "n");
	SPI_finish();
	PG_RETURN_INT64(n);
}

/* SQL: atproto.backlink_dids(target, source, max, after, tables) */
Datum
atp_backlink_dids(PG_FUNCTION_ARGS)
{
	const char *tables;
	AtpArg		args[5];

	(void) bind_source(fcinfo, args);
	tables = tables_of(fcinfo, 4);
	args[3] = max_of(fcinfo, 2);
	args[4] = ATP_FUNCTION_ARG(3, atp_type("did"));
	atp_return_query(fcinfo,
					 atp_expand_sql("SELECT l.did" BACKLINKS " AND ($5 IS NULL OR l.did OPERATOR(@.>) $5)"
									" GROUP BY l.did ORDER BY l.did USING OPERATOR(@.<) LIMIT $4", tables),
					 args, lengthof(args), true);
	return (Datum) 0;
}
