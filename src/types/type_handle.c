/*
 * type_handle.c
 *		The type handle (rules I-10 to I-14): lower-case text.  Also the check
 *		of at-identifiers (I-30), which are handles or DIDs.
 */
#include "postgres.h"

#include "types/text_type.h"

#include "core/syntax/handle.h"

struct varlena *
atp_handle_make(const char *s, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + n);
	atp_handle_normalize(s, n, VARDATA(v));
	return v;
}

static bool
fits_handle(const uint8_t *stored, size_t n)
{
	return n > 0 && n <= ATP_HANDLE_MAX;
}

static const AtpTextType type = {
	.name = "handle",
	.check = atp_handle_check,
	.make = atp_handle_make,
	.fits = fits_handle,
};

ATP_TEXT_TYPE_DEFINE(handle, &type, in)
ATP_TEXT_TYPE_DEFINE(handle, &type, recv)
ATP_TEXT_TYPE_DEFINE(handle, &type, out)
ATP_TEXT_TYPE_DEFINE(handle, &type, send)

PG_FUNCTION_INFO_V1(atp_pg_handle_tld_allowed);
Datum
atp_pg_handle_tld_allowed(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);

	PG_RETURN_BOOL(atp_handle_tld_allowed(s.ptr, s.len));
}

PG_FUNCTION_INFO_V1(atp_pg_at_identifier_is_valid);
Datum
atp_pg_at_identifier_is_valid(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);
	size_t		at;

	PG_RETURN_BOOL(atp_identifier_check(s.ptr, s.len, &at) == ATP_OK);
}
