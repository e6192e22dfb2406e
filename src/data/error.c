/*
 * error.c
 *		Raises faults that src/core found in a value as errors of PostgreSQL:
 *		see error.h.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "miscadmin.h"

#include "data/error.h"

/* Bytes that break a rule are 22P03, like an invalid binary value of a type. */
static int
sqlstate_of(AtpErr err)
{
	switch (err)
	{
		case ATP_E_JSON_NUL:
			return ERRCODE_UNTRANSLATABLE_CHARACTER;
		case ATP_E_JSON_AMBIGUOUS:
		case ATP_E_DATA_FLOAT:
			return ERRCODE_DATA_EXCEPTION;
		case ATP_E_JSON_INTEGER:
			return ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE;
		case ATP_E_JSON_FRACTION:
		case ATP_E_JSON_NUMBER:
		case ATP_E_JSON_SURROGATE:
		case ATP_E_JSON_TWICE:
		case ATP_E_JSON_LINK:
		case ATP_E_JSON_BYTES:
			return ERRCODE_INVALID_PARAMETER_VALUE;
		case ATP_E_JSON_SIZE:
		case ATP_E_JSON_LARGE:
		case ATP_E_JSON_DEPTH:
		case ATP_E_CBOR_DEPTH:
			return ERRCODE_PROGRAM_LIMIT_EXCEEDED;
		default:
			return ERRCODE_INVALID_BINARY_REPRESENTATION;
	}
}

void
atp_data_error(const char *what, AtpErr err, size_t at)
{
	if (at == ATP_NO_OFFSET)
		ereport(ERROR,
				(errcode(sqlstate_of(err)),
				 errmsg("%s", what),
				 errdetail("%s", atp_err_text(err))));
	ereport(ERROR,
			(errcode(sqlstate_of(err)),
			 errmsg("%s at byte %zu", what, atp_byte_number(at)),
			 errdetail("%s", atp_err_text(err))));
}

void
atp_require_utf8(void)
{
	if (GetDatabaseEncoding() != PG_UTF8)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the AT Protocol's data model needs a database with encoding UTF8"),
				 errdetail("The encoding of this database is %s.", GetDatabaseEncodingName())));
}

void
atp_data_tick(void)
{
	CHECK_FOR_INTERRUPTS();
}
