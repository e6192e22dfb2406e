/*
 * handle.c
 *		The type handle (rules I-10 to I-14): lower-case text.  Also the check
 *		of at-identifiers (I-30), which are a handle or a DID.
 */
#include "postgres.h"

#include "utils/builtins.h"

#include "types/glue.h"

#include "core/handle.h"

struct varlena *
atp_handle_make(const char *s, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + n);
	atp_handle_normalize(s, n, VARDATA(v));
	return v;
}

/* The one validator behind handle_in and handle_recv. */
static struct varlena *
make_checked(const AtpSource *source, const char *s, size_t n)
{
	size_t		at;
	AtpErr		err = atp_handle_check(s, n, &at);

	if (err != ATP_OK)
	{
		atp_type_error(source, s, n, err, at);
		return NULL;
	}
	return atp_handle_make(s, n);
}

PG_FUNCTION_INFO_V1(atp_pg_handle_in);
Datum
atp_pg_handle_in(PG_FUNCTION_ARGS)
{
	const char *s = PG_GETARG_CSTRING(0);
	AtpSource	source = {"handle", false, fcinfo->context};

	PG_RETURN_POINTER(make_checked(&source, s, strlen(s)));
}

PG_FUNCTION_INFO_V1(atp_pg_handle_recv);
Datum
atp_pg_handle_recv(PG_FUNCTION_ARGS)
{
	size_t		n;
	const char *s = atp_recv_bytes(fcinfo, &n);
	AtpSource	source = {"handle", true, NULL};

	PG_RETURN_POINTER(make_checked(&source, s, n));
}

/* handle_out and handle_send are textout and byteasend: see handle.sql. */

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
