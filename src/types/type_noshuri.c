/*
 * type_noshuri.c
 *		The type noshuri: the functions of type_uri.c with the scheme "nosh", and the
 *		authorities of this scheme (N-02).
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/numeric.h"

#include "types/type_uri.h"

#define DEFINE(name) ATP_URI_DEFINE(noshuri, ATP_SCHEME_NOSH, name)
ATP_URI_FUNCTIONS(DEFINE)

PG_FUNCTION_INFO_V1(atp_pg_noshuri_address);
Datum
atp_pg_noshuri_address(PG_FUNCTION_ARGS)
{
	AtpUri		uri = atp_uri_arg(fcinfo, 0, ATP_SCHEME_NOSH).uri;

	if (uri.kind != ATP_AUTHORITY_ADDRESS)
		PG_RETURN_NULL();
	ATP_RETURN_SPAN_TEXT(uri.authority);
}

/* Agent identifiers go up to 2^256 - 1: only numeric can hold them. */
PG_FUNCTION_INFO_V1(atp_pg_noshuri_agent);
Datum
atp_pg_noshuri_agent(PG_FUNCTION_ARGS)
{
	AtpUri		uri = atp_uri_arg(fcinfo, 0, ATP_SCHEME_NOSH).uri;

	if (uri.kind != ATP_AUTHORITY_AGENT)
		PG_RETURN_NULL();
	return DirectFunctionCall3(numeric_in,
							   CStringGetDatum(pnstrdup(uri.authority.ptr, uri.authority.len)),
							   ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

/* N-08: a handle-shaped name. */
PG_FUNCTION_INFO_V1(atp_pg_noshuri_name);
Datum
atp_pg_noshuri_name(PG_FUNCTION_ARGS)
{
	AtpUri		uri = atp_uri_arg(fcinfo, 0, ATP_SCHEME_NOSH).uri;

	if (uri.kind != ATP_AUTHORITY_HANDLE)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_handle_make(uri.authority.ptr, uri.authority.len));
}
