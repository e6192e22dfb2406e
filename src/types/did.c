/*
 * did.c
 *		The type did: decentralized identifiers, rules I-20 to I-24.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/sortsupport.h"

#include "types/glue.h"

#include "core/did.h"

/* What the text of a stored form of n bytes may take. */
#define TEXT_BOUND(n)	((n) + ATP_DID_PLC_TEXT)

static const char *const typmods[] = {"blessed", NULL};

enum
{
	DID_BLESSED
};

struct varlena *
atp_did_make(const char *s, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + atp_did_store(s, n, (uint8_t *) VARDATA(v)));
	return v;
}

/* The type modifier of a text that is a DID (I-23). */
static bool
check_typmod(const AtpSource *source, const char *s, size_t n, int32 typmod)
{
	if (typmod == DID_BLESSED && !atp_did_is_blessed(s, n))
	{
		atp_type_error(source, s, n, ATP_E_DID_NOT_BLESSED, strlen("did:"));
		return false;
	}
	return true;
}

/* The one validator behind did_in and did_recv. */
static struct varlena *
make_checked(const AtpSource *source, const char *s, size_t n, int32 typmod)
{
	size_t		at;
	AtpErr		err = atp_did_check(s, n, &at);

	if (err != ATP_OK)
	{
		atp_type_error(source, s, n, err, at);
		return NULL;
	}
	if (!check_typmod(source, s, n, typmod))
		return NULL;
	return atp_did_make(s, n);
}

/* A did argument as text. */
static AtpSpan
text_of_arg(FunctionCallInfo fcinfo, int i)
{
	AtpBytes	stored = atp_arg_bytes(fcinfo, i);
	char	   *text = palloc(TEXT_BOUND(stored.len) + 1);
	size_t		n = atp_did_text(stored.ptr, stored.len, text);

	text[n] = '\0';
	return (AtpSpan) {text, n};
}

PG_FUNCTION_INFO_V1(atp_pg_did_in);
Datum
atp_pg_did_in(PG_FUNCTION_ARGS)
{
	const char *s = PG_GETARG_CSTRING(0);
	AtpSource	source = {"did", false, fcinfo->context};

	PG_RETURN_POINTER(make_checked(&source, s, strlen(s), PG_GETARG_INT32(2)));
}

PG_FUNCTION_INFO_V1(atp_pg_did_out);
Datum
atp_pg_did_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(unconstify(char *, text_of_arg(fcinfo, 0).ptr));
}

PG_FUNCTION_INFO_V1(atp_pg_did_recv);
Datum
atp_pg_did_recv(PG_FUNCTION_ARGS)
{
	size_t		n;
	const char *s = atp_recv_bytes(fcinfo, &n);
	AtpSource	source = {"did", true, NULL};

	PG_RETURN_POINTER(make_checked(&source, s, n, PG_GETARG_INT32(2)));
}

PG_FUNCTION_INFO_V1(atp_pg_did_send);
Datum
atp_pg_did_send(PG_FUNCTION_ARGS)
{
	ATP_RETURN_SPAN_TEXT(text_of_arg(fcinfo, 0));
}

PG_FUNCTION_INFO_V1(atp_pg_did_typmod_in);
Datum
atp_pg_did_typmod_in(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(atp_typmod_in(PG_GETARG_ARRAYTYPE_P(0), "did", typmods));
}

PG_FUNCTION_INFO_V1(atp_pg_did_typmod_out);
Datum
atp_pg_did_typmod_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(atp_typmod_out(PG_GETARG_INT32(0), typmods));
}

/* did(did, typmod): the cast that applies a modifier. */
PG_FUNCTION_INFO_V1(atp_pg_did_cast);
Datum
atp_pg_did_cast(PG_FUNCTION_ARGS)
{
	AtpSource	source = {"did", false, NULL};
	AtpSpan		text = text_of_arg(fcinfo, 0);

	(void) check_typmod(&source, text.ptr, text.len, PG_GETARG_INT32(1));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

PG_FUNCTION_INFO_V1(atp_pg_did_sortsupport);
Datum
atp_pg_did_sortsupport(PG_FUNCTION_ARGS)
{
	atp_sortsupport((SortSupport) PG_GETARG_POINTER(0), atp_did_cmp,
					atp_did_abbrev);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(atp_pg_did_method);
Datum
atp_pg_did_method(PG_FUNCTION_ARGS)
{
	AtpSpan		text = text_of_arg(fcinfo, 0);

	ATP_RETURN_SPAN_TEXT(atp_did_method(text.ptr, text.len));
}

PG_FUNCTION_INFO_V1(atp_pg_did_identifier);
Datum
atp_pg_did_identifier(PG_FUNCTION_ARGS)
{
	AtpSpan		text = text_of_arg(fcinfo, 0);
	AtpSpan		method = atp_did_method(text.ptr, text.len);
	const char *identifier = method.ptr + method.len + 1;

	PG_RETURN_POINTER(atp_varlena(identifier, text.ptr + text.len - identifier));
}

PG_FUNCTION_INFO_V1(atp_pg_did_is_blessed);
Datum
atp_pg_did_is_blessed(PG_FUNCTION_ARGS)
{
	AtpSpan		text = text_of_arg(fcinfo, 0);

	PG_RETURN_BOOL(atp_did_is_blessed(text.ptr, text.len));
}

PG_FUNCTION_INFO_V1(atp_pg_did_normalize);
Datum
atp_pg_did_normalize(PG_FUNCTION_ARGS)
{
	AtpSpan		text = text_of_arg(fcinfo, 0);
	char	   *normal = palloc(text.len);
	size_t		n = atp_did_normalize(text.ptr, text.len, normal);

	PG_RETURN_POINTER(atp_did_make(normal, n));
}
