/*
 * try.c
 *		Conversions of any text to a type, or to NULL: they never fail, on all
 *		versions of PostgreSQL.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "types/foreign_time.h"
#include "types/glue.h"

#include "core/codec/cid.h"
#include "core/lexicon/datetime.h"
#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri.h"

#define TRY_CHECKED(name, check, make) \
	bool \
	atp_try_##name(const char *s, size_t n, Datum *value) \
	{ \
		size_t		at; \
		if (check(s, n, &at) != ATP_OK) \
			return false; \
		*value = PointerGetDatum(make(s, n)); \
		return true; \
	}

TRY_CHECKED(did, atp_did_check, atp_did_make)
TRY_CHECKED(handle, atp_handle_check, atp_handle_make)
TRY_CHECKED(nsid, atp_nsid_check, atp_nsid_make)
TRY_CHECKED(recordkey, atp_rkey_check, atp_rkey_make)

bool
atp_try_tid(const char *s, size_t n, Datum *value)
{
	uint64_t	tid;
	size_t		at;

	if (atp_tid_parse(s, n, &tid, &at) != ATP_OK)
		return false;
	*value = AtpTidGetDatum(tid);
	return true;
}

bool
atp_try_cidlink(const char *s, size_t n, Datum *value)
{
	uint8_t		bytes[ATP_CID_MAX];
	size_t		len;
	size_t		at;

	if (atp_cid_parse(s, n, bytes, &len, &at) != ATP_OK)
		return false;
	*value = PointerGetDatum(atp_cidlink_make(bytes, len));
	return true;
}

static bool
try_uri(AtpScheme scheme, const char *s, size_t n, Datum *value)
{
	struct varlena *v;
	AtpUri		uri;
	size_t		at;

	if (atp_uri_parse(scheme, s, n, &uri, &at) != ATP_OK)
		return false;
	v = palloc(VARHDRSZ + n);
	SET_VARSIZE(v, VARHDRSZ + atp_uri_store_parsed(&uri, s, n, (uint8_t *) VARDATA(v)));
	*value = PointerGetDatum(v);
	return true;
}

bool
atp_try_aturi(const char *s, size_t n, Datum *value)
{
	return try_uri(ATP_SCHEME_AT, s, n, value);
}

bool
atp_try_noshuri(const char *s, size_t n, Datum *value)
{
	return try_uri(ATP_SCHEME_NOSH, s, n, value);
}

bool
atp_try_datetime(const char *s, size_t n, Datum *value)
{
	int64_t		micros;
	size_t		at;

	if (atp_datetime_parse(s, n, &micros, &at) != ATP_OK || !atp_is_foreign_time(micros))
		return false;
	*value = TimestampTzGetDatum(atp_foreign_time(micros));
	return true;
}

/* Defines the SQL function of one conversion. */
#define DEFINE(name) \
	PG_FUNCTION_INFO_V1(atp_pg_try_##name); \
	Datum \
	atp_pg_try_##name(PG_FUNCTION_ARGS) \
	{ \
		AtpSpan		s = atp_arg_span(fcinfo, 0); \
		Datum		value; \
		if (!atp_try_##name(s.ptr, s.len, &value)) \
			PG_RETURN_NULL(); \
		PG_RETURN_DATUM(value); \
	}

DEFINE(did)
DEFINE(handle)
DEFINE(nsid)
DEFINE(recordkey)
DEFINE(tid)
DEFINE(cidlink)
DEFINE(aturi)
DEFINE(noshuri)
DEFINE(datetime)
