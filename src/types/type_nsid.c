/*
 * type_nsid.c
 *		The type nsid (rules I-01 to I-07): stored as text, as written.
 */
#include "postgres.h"

#include "types/text_type.h"

#include "core/syntax/nsid.h"

/* D10: the longest name that DNS can look up. */
#define DOMAIN_MAX	253

struct varlena *
atp_nsid_make(const char *s, size_t n)
{
	return atp_varlena(s, n);
}

static const AtpTextType type = {
	.name = "nsid",
	.check = atp_nsid_check,
	.make = atp_nsid_make,
};

ATP_TEXT_TYPE_DEFINE(nsid, &type, in)
ATP_TEXT_TYPE_DEFINE(nsid, &type, recv)

/* nsid_out and nsid_send are textout and byteasend: see type_nsid.sql. */

PG_FUNCTION_INFO_V1(atp_pg_nsid_name);
Datum
atp_pg_nsid_name(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);

	ATP_RETURN_SPAN_TEXT(atp_nsid_name(s.ptr, s.len));
}

/* I-05: the segments before the name, in DNS order and lower case. */
PG_FUNCTION_INFO_V1(atp_pg_nsid_authority);
Datum
atp_pg_nsid_authority(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);
	AtpSpan		domain = atp_nsid_domain(s.ptr, s.len);
	char		normal[ATP_NSID_MAX];
	struct varlena *result = palloc(VARHDRSZ + domain.len);
	char	   *out = VARDATA(result);
	size_t		end = domain.len;

	atp_nsid_normalize(s.ptr, s.len, normal);
	while (end > 0)
	{
		size_t		start = end;

		while (start > 0 && normal[start - 1] != '.')
			start--;
		memcpy(out, normal + start, end - start);
		out += end - start;
		if (start == 0)
			break;
		*out++ = '.';
		end = start - 1;
	}
	SET_VARSIZE(result, VARHDRSZ + domain.len);
	PG_RETURN_POINTER(result);
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_authority_is_resolvable);
Datum
atp_pg_nsid_authority_is_resolvable(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);

	PG_RETURN_BOOL(atp_nsid_domain(s.ptr, s.len).len <= DOMAIN_MAX);
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_normalize);
Datum
atp_pg_nsid_normalize(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);
	struct varlena *result = palloc(VARHDRSZ + s.len);

	SET_VARSIZE(result, VARHDRSZ + s.len);
	atp_nsid_normalize(s.ptr, s.len, VARDATA(result));
	PG_RETURN_POINTER(result);
}

PG_FUNCTION_INFO_V1(atp_pg_nsid_matches);
Datum
atp_pg_nsid_matches(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);
	AtpSpan		pattern = atp_arg_span(fcinfo, 1);
	size_t		at;
	AtpErr		err = atp_nsid_pattern_check(pattern.ptr, pattern.len, &at);

	if (err != ATP_OK)
		atp_argument_error("NSID pattern", pattern.ptr, pattern.len, err, at);
	PG_RETURN_BOOL(atp_nsid_matches(s.ptr, s.len, pattern.ptr, pattern.len));
}
