/*
 * published.c
 *		load_published(): loads Lexicons from the records that an account has published.
 *
 * Anybody can publish a record under any name.  The DNS says which account may define a name, but is not
 * asked here: the caller must choose the account, and the names that it may define.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "core/syntax/nsid.h"
#include "data/error.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lexicon/compile.h"
#include "lexicon/document.h"
#include "miscadmin.h"
#include "types/glue.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

PG_FUNCTION_INFO_V1(atp_load_published);

/* Documents loaded by one call: each is read and compared. */
#define DOCUMENTS_MAX	1000

typedef struct Publisher
{
	AtpArg		did;
	const char *record;			/* the target's table of records, qualified */
	bool		replace;
} Publisher;

/* In a statement @ stands for the extension's schema, # for the table of records. */
static char *
expand_statement(const Publisher *publisher, const char *sql)
{
	const char *ours = atp_extension_schema();
	StringInfoData out;

	initStringInfo(&out);
	for (; *sql != '\0'; sql++)
	{
		if (*sql == '@')
			appendStringInfoString(&out, ours);
		else if (*sql == '#')
			appendStringInfoString(&out, publisher->record);
		else
			appendStringInfoChar(&out, *sql);
	}
	return out.data;
}

static AtpResult
published_ids(const Publisher *publisher, AtpArg pattern)
{
	AtpResult	ids = atp_query(expand_statement(publisher,
												 "SELECT rkey::text AS id FROM # WHERE did OPERATOR(@.=) $1"
												 " AND collection OPERATOR(@.=) 'com.atproto.lexicon.schema'::@.nsid"
												 " AND @.nsid_matches(@.try_nsid(rkey::text), $2) ORDER BY rkey USING OPERATOR(@.<)"
												 " LIMIT " CppAsString2(DOCUMENTS_MAX) " + 1"),
								ATP_ARGS(publisher->did, pattern));

	if (ids.n > DOCUMENTS_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("the account has published more than %d such Lexicons", DOCUMENTS_MAX),
				 errhint("Load them with narrower patterns.")));
	return ids;
}

static AtpResult
published_document(const Publisher *publisher, AtpArg name)
{
	return atp_query(expand_statement(publisher,
									  "SELECT value - '$type' AS doc, cid, indexed_at FROM #"
									  " WHERE did OPERATOR(@.=) $1 AND collection OPERATOR(@.=) 'com.atproto.lexicon.schema'::@.nsid"
									  " AND rkey OPERATOR(@.=) $2::@.recordkey AND jsonb_typeof(value) = 'object'"),
					 ATP_ARGS(publisher->did, name));
}

/* Is the known document of this name the account's own, or is none known? */
static bool
is_its_own(const Publisher *publisher, AtpArg name, bool *known)
{
	AtpResult	rows = atp_query(expand_statement(publisher,
												  "SELECT (did OPERATOR(@.=) $2) IS TRUE AS own FROM atproto.lexicon WHERE id OPERATOR(@.=) $1::@.nsid"),
								 ATP_ARGS(name, publisher->did));

	bool		own = rows.n == 0 || atp_get_bool(atp_result_row(rows, 0), "own");

	*known = rows.n > 0;
	atp_result_free(rows);
	return own;
}

static bool
put_document(const Publisher *publisher, AtpArg name, AtpTuple row)
{
	return atp_run(expand_statement(publisher,
									"INSERT INTO atproto.lexicon_loaded AS l (id, doc, did, cid, indexed_at) VALUES ($1::@.nsid, $2, $3, $4, $5)"
									" ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, did = excluded.did, cid = excluded.cid,"
									" indexed_at = excluded.indexed_at, loaded_at = now()"
									" WHERE (l.did OPERATOR(@.=) excluded.did AND l.cid OPERATOR(@.=) excluded.cid) IS NOT TRUE"),
				   ATP_ARGS(name, atp_get_arg(row, "doc", JSONBOID), publisher->did, atp_get_arg(row, "cid", atp_type("cidlink")),
							atp_get_arg(row, "indexed_at", TIMESTAMPTZOID))) > 0;
}

/* Loads one document; returns the outcome. */
static const char *
load_document(const Publisher *publisher, const char *id, AtpTuple row)
{
	AtpArg		name = atp_text_arg(id);
	Jsonb	   *doc = DatumGetJsonbP(atp_get_arg(row, "doc", JSONBOID).value);
	char	   *fault;
	bool		known;

	if (atp_lexicon_compile(doc, &fault) == NULL)
		return psprintf("refused: %s", fault);
	if (strcmp(atp_lexicon_id(doc, NULL), id) != 0)
		return "refused: its id is not the record key";
	if (!is_its_own(publisher, name, &known) && !publisher->replace)
		return "refused: another one is known, which only replace => true replaces";
	return put_document(publisher, name, row) ? known ? "replaced" : "new" : "same";
}

static const char *
load_one(const Publisher *publisher, const char *id)
{
	AtpResult	rows = published_document(publisher, atp_text_arg(id));
	const char *outcome = rows.n == 0 ? "refused: the record is no object" : load_document(publisher, id, atp_result_row(rows, 0));

	atp_result_free(rows);
	return outcome;
}

/* SQL: atproto.load_published(did, pattern, target, replace) */
Datum
atp_load_published(PG_FUNCTION_ARGS)
{
	const char *target = NameStr(*PG_GETARG_NAME(2));
	Publisher	publisher = {.replace = PG_GETARG_BOOL(3)};
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	AtpSpan		pattern = atp_arg_span(fcinfo, 1);
	AtpErr		err;
	size_t		at;
	AtpResult	ids;

	atp_require_utf8();
	err = atp_nsid_pattern_check(pattern.ptr, pattern.len, &at);
	if (err != ATP_OK)
		atp_argument_error("pattern of NSIDs", pattern.ptr, pattern.len, err, at);
	(void) atp_table_in(target, "record");
	InitMaterializedSRF(fcinfo, 0);
	SPI_connect();
	publisher.did = ATP_FUNCTION_ARG(0, atp_type("did"));
	publisher.record = quote_qualified_identifier(target, "record");
	ids = published_ids(&publisher, ATP_FUNCTION_ARG(1, TEXTOID));
	for (uint64 i = 0; i < ids.n; i++)
	{
		MemoryContext cxt = AllocSetContextCreate(CurrentMemoryContext, "atproto Lexicon", ALLOCSET_DEFAULT_SIZES);
		MemoryContext old = MemoryContextSwitchTo(cxt);
		const char *id = atp_get_text(atp_result_row(ids, i), "id");
		Datum		values[2];
		bool		nulls[2] = {false, false};

		CHECK_FOR_INTERRUPTS();
		values[1] = CStringGetTextDatum(load_one(&publisher, id));
		values[0] = PointerGetDatum(atp_nsid_make(id, strlen(id)));
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
		MemoryContextSwitchTo(old);
		MemoryContextDelete(cxt);
	}
	SPI_finish();
	return (Datum) 0;
}
