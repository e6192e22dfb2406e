/*
 * aturi_from.c
 *		AT URIs from what people paste: aturi_from(text), and with a pattern of web addresses.
 *		Texts that are not known give NULL.  The table of patterns is in config/web_address.sql.
 */
#include "postgres.h"

#include "types/type_uri.h"

#include "core/syntax/uri_from.h"

PG_FUNCTION_INFO_V1(atp_pg_aturi_from);
Datum
atp_pg_aturi_from(PG_FUNCTION_ARGS)
{
	AtpSpan		text = atp_arg_span(fcinfo, 0);
	char		uri[ATP_URI_MAX];
	size_t		n;

	if (!atp_uri_from(text.ptr, text.len, uri, &n))
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_aturi_make(uri, n));
}

/* An invalid pattern is an error, also for an address that no pattern fits: so a CHECK constraint can ask. */
PG_FUNCTION_INFO_V1(atp_pg_aturi_from_pattern);
Datum
atp_pg_aturi_from_pattern(PG_FUNCTION_ARGS)
{
	AtpSpan		address = atp_arg_span(fcinfo, 0);
	AtpSpan		pattern = atp_arg_span(fcinfo, 1);
	AtpSpan		target = atp_arg_span(fcinfo, 2);
	char		uri[ATP_URI_MAX];
	unsigned	places;
	unsigned	target_places;
	size_t		n;
	size_t		at;
	AtpErr		err = atp_web_pattern_check(pattern, &places, &at);

	if (err != ATP_OK)
		atp_argument_error("pattern of web addresses", pattern.ptr, pattern.len, err, at);
	err = atp_web_uri_check(target, &target_places, &at);
	if (err == ATP_OK && places != target_places)
	{
		err = ATP_E_WEB_PLACES;
		at = target.len;
	}
	if (err != ATP_OK)
		atp_argument_error("URI of a pattern", target.ptr, target.len, err, at);
	if (!atp_uri_from_web(address.ptr, address.len, pattern, target, uri, &n))
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_aturi_make(uri, n));
}
