/*
 * recordkey.c
 *		The type recordkey, rules K-01 to K-10.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/sortsupport.h"

#include "types/glue.h"

#include "core/recordkey.h"
#include "core/tid.h"

/* What the text of a stored form of n bytes may take. */
#define TEXT_BOUND(n)	((n) + ATP_TID_TEXT)

/* The key types of a lexicon (K-07), and the stricter character set of D2. */
static const char *const typmods[] = {"any", "tid", "nsid", "literal:self", "strict", NULL};

enum
{
	RKEY_ANY, RKEY_TID, RKEY_NSID, RKEY_LITERAL_SELF, RKEY_STRICT
};

struct varlena *
atp_rkey_make(const char *s, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + atp_rkey_store(s, n, (uint8_t *) VARDATA(v)));
	return v;
}

/* The type modifier of a text that is a record key. */
static bool
check_typmod(const AtpSource *source, const char *s, size_t n, int32 typmod)
{
	AtpErr		err = ATP_OK;
	size_t		at = 0;

	if (typmod == RKEY_STRICT)
		err = atp_rkey_check_strict(s, n, &at);
	else if (typmod > RKEY_ANY &&
			 !atp_rkey_matches(s, n, typmods[typmod], strlen(typmods[typmod])))
		err = ATP_E_RKEY_KIND;

	if (err != ATP_OK)
		atp_type_error(source, s, n, err, at);
	return err == ATP_OK;
}

/* The one validator behind recordkey_in and recordkey_recv. */
static struct varlena *
make_checked(const AtpSource *source, const char *s, size_t n, int32 typmod)
{
	size_t		at;
	AtpErr		err = atp_rkey_check(s, n, &at);

	if (err != ATP_OK)
	{
		atp_type_error(source, s, n, err, at);
		return NULL;
	}
	if (!check_typmod(source, s, n, typmod))
		return NULL;
	return atp_rkey_make(s, n);
}

/* A recordkey argument as text. */
static AtpSpan
text_of_arg(FunctionCallInfo fcinfo, int i)
{
	AtpBytes	stored = atp_arg_bytes(fcinfo, i);
	char	   *text = palloc(TEXT_BOUND(stored.len) + 1);
	size_t		n = atp_rkey_text(stored.ptr, stored.len, text);

	text[n] = '\0';
	return (AtpSpan) {text, n};
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_in);
Datum
atp_pg_recordkey_in(PG_FUNCTION_ARGS)
{
	const char *s = PG_GETARG_CSTRING(0);
	AtpSource	source = {"recordkey", false, fcinfo->context};

	PG_RETURN_POINTER(make_checked(&source, s, strlen(s), PG_GETARG_INT32(2)));
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_out);
Datum
atp_pg_recordkey_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(unconstify(char *, text_of_arg(fcinfo, 0).ptr));
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_recv);
Datum
atp_pg_recordkey_recv(PG_FUNCTION_ARGS)
{
	size_t		n;
	const char *s = atp_recv_bytes(fcinfo, &n);
	AtpSource	source = {"recordkey", true, NULL};

	PG_RETURN_POINTER(make_checked(&source, s, n, PG_GETARG_INT32(2)));
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_send);
Datum
atp_pg_recordkey_send(PG_FUNCTION_ARGS)
{
	ATP_RETURN_SPAN_TEXT(text_of_arg(fcinfo, 0));
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_typmod_in);
Datum
atp_pg_recordkey_typmod_in(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(atp_typmod_in(PG_GETARG_ARRAYTYPE_P(0), "recordkey", typmods));
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_typmod_out);
Datum
atp_pg_recordkey_typmod_out(PG_FUNCTION_ARGS)
{
	PG_RETURN_CSTRING(atp_typmod_out(PG_GETARG_INT32(0), typmods));
}

/* recordkey(recordkey, typmod): the cast that applies a modifier. */
PG_FUNCTION_INFO_V1(atp_pg_recordkey_cast);
Datum
atp_pg_recordkey_cast(PG_FUNCTION_ARGS)
{
	AtpSource	source = {"recordkey", false, NULL};
	AtpSpan		text = text_of_arg(fcinfo, 0);

	(void) check_typmod(&source, text.ptr, text.len, PG_GETARG_INT32(1));
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_sortsupport);
Datum
atp_pg_recordkey_sortsupport(PG_FUNCTION_ARGS)
{
	atp_sortsupport((SortSupport) PG_GETARG_POINTER(0), atp_rkey_cmp,
					atp_rkey_abbrev);
	PG_RETURN_VOID();
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_matches);
Datum
atp_pg_recordkey_matches(PG_FUNCTION_ARGS)
{
	AtpSpan		text = text_of_arg(fcinfo, 0);
	AtpSpan		type = atp_arg_span(fcinfo, 1);
	size_t		at;
	AtpErr		err = atp_rkey_type_check(type.ptr, type.len, &at);

	if (err != ATP_OK)
		atp_argument_error("record key type", type.ptr, type.len, err, at);
	PG_RETURN_BOOL(atp_rkey_matches(text.ptr, text.len, type.ptr, type.len));
}

/* The TID that the key is, or NULL. */
PG_FUNCTION_INFO_V1(atp_pg_recordkey_tid);
Datum
atp_pg_recordkey_tid(PG_FUNCTION_ARGS)
{
	AtpSpan		text = text_of_arg(fcinfo, 0);
	uint64_t	tid;
	size_t		at;

	if (atp_tid_parse(text.ptr, text.len, &tid, &at) != ATP_OK)
		PG_RETURN_NULL();
	return AtpTidGetDatum(tid);
}

/* Casts: every TID and every NSID is a record key. */
PG_FUNCTION_INFO_V1(atp_pg_recordkey_of_tid);
Datum
atp_pg_recordkey_of_tid(PG_FUNCTION_ARGS)
{
	char		text[ATP_TID_TEXT];

	atp_tid_format(DatumGetAtpTid(PG_GETARG_DATUM(0)), text);
	PG_RETURN_POINTER(atp_rkey_make(text, sizeof(text)));
}

PG_FUNCTION_INFO_V1(atp_pg_recordkey_of_nsid);
Datum
atp_pg_recordkey_of_nsid(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);

	PG_RETURN_POINTER(atp_rkey_make(s.ptr, s.len));
}
