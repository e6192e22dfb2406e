/*
 * type_uri.c
 *		The types aturi and noshuri, for both schemes: input and output, levels
 *		of validity, parts, normal form.  Rules, N1 to N10, and
 *		N-01 to N-10.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"

#include "types/type_uri.h"

#include "core/syntax/tid.h"
#include "core/syntax/uri_space.h"

static const char *const typmods[] = {"lexicon", "strict", "record", NULL};

static const char *
type_name(AtpScheme scheme)
{
	return scheme == ATP_SCHEME_AT ? "aturi" : "noshuri";
}

struct varlena *
atp_uri_make(AtpScheme scheme, const char *s, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + atp_uri_store(scheme, s, n, (uint8_t *) VARDATA(v)));
	return v;
}

/* Does the URI reach the level?  ATP_OK, or an error with its offset. */
static AtpErr
check_level(const AtpUri *uri, const char *s, size_t n, AtpUriLevel level, size_t *at)
{
	AtpErr		err = ATP_OK;

	switch (level)
	{
		case ATP_URI_LEXICON:
			err = atp_uri_check_lexicon(uri, s, at);
			break;
		case ATP_URI_STRICT:
			err = atp_uri_check_strict(uri, s, n, at);

			/*
			 * N-08: the authority of a strict NOSH URI is an address or agent.
			 * A name only occurs in the specification's own example.
			 */
			if (err == ATP_OK && uri->scheme == ATP_SCHEME_NOSH &&
				!atp_uri_is_strict_nosh(uri, s, n))
			{
				*at = uri->authority.ptr - s;
				err = ATP_E_URI_RECORD_AGENT;
			}
			break;
		case ATP_URI_RECORD:
			err = atp_uri_check_record(uri, s, at);
			break;
	}
	return err;
}

/* The check behind both input and receive. */
static struct varlena *
make_checked(AtpScheme scheme, const AtpInputContext *source, const char *s, size_t n, int32 typmod)
{
	struct varlena *v;
	AtpUri		uri;
	size_t		at;
	AtpErr		err = atp_uri_parse(scheme, s, n, &uri, &at);

	if (err == ATP_OK && typmod >= 0)
		err = check_level(&uri, s, n, (AtpUriLevel) typmod, &at);
	if (err != ATP_OK)
	{
		atp_type_error(source, s, n, err, at);
		return NULL;
	}
	v = palloc(VARHDRSZ + n);
	SET_VARSIZE(v, VARHDRSZ + atp_uri_store_parsed(&uri, s, n, (uint8_t *) VARDATA(v)));
	return v;
}

void
atp_uri_require_fit(AtpScheme scheme, AtpBytes stored)
{
	if (!atp_uri_fits(scheme, stored.ptr, stored.len))
		atp_damaged_error(type_name(scheme));
}

AtpSpan
atp_uri_arg_text(FunctionCallInfo fcinfo, int i, AtpScheme scheme)
{
	AtpBytes	stored = atp_arg_bytes(fcinfo, i);
	char	   *text;
	size_t		n;

	atp_uri_require_fit(scheme, stored);
	text = palloc(ATP_URI_TEXT_BOUND(stored.len) + 1);
	n = atp_uri_text(scheme, stored.ptr, stored.len, text);
	text[n] = '\0';
	return (AtpSpan) {text, n};
}

AtpUriArg
atp_uri_arg(FunctionCallInfo fcinfo, int i, AtpScheme scheme)
{
	AtpUriArg	arg;
	size_t		at;

	arg.text = atp_uri_arg_text(fcinfo, i, scheme);
	if (atp_uri_parse(scheme, arg.text.ptr, arg.text.len, &arg.uri, &at) != ATP_OK)
		atp_damaged_error(type_name(scheme));
	return arg;
}

/* --- input and output --- */

static int32
typmod_of_arg(FunctionCallInfo fcinfo, int i, AtpScheme scheme)
{
	return atp_arg_typmod(fcinfo, i, type_name(scheme), typmods);
}

Datum
atp_uri_fn_in(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	const char *s = PG_GETARG_CSTRING(0);
	AtpInputContext source = {type_name(scheme), false, fcinfo->context};

	PG_RETURN_POINTER(make_checked(scheme, &source, s, strlen(s), typmod_of_arg(fcinfo, 2, scheme)));
}

Datum
atp_uri_fn_out(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	PG_RETURN_CSTRING(unconstify(char *, atp_uri_arg_text(fcinfo, 0, scheme).ptr));
}

Datum
atp_uri_fn_recv(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	size_t		n;
	const char *s = atp_recv_bytes(fcinfo, &n);
	AtpInputContext source = {type_name(scheme), true, NULL};

	PG_RETURN_POINTER(make_checked(scheme, &source, s, n, typmod_of_arg(fcinfo, 2, scheme)));
}

Datum
atp_uri_fn_send(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	ATP_RETURN_SPAN_TEXT(atp_uri_arg_text(fcinfo, 0, scheme));
}

Datum
atp_uri_fn_typmod_in(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	PG_RETURN_INT32(atp_typmod_in(PG_GETARG_ARRAYTYPE_P(0), type_name(scheme), typmods));
}

Datum
atp_uri_fn_typmod_out(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	PG_RETURN_CSTRING(atp_typmod_out(PG_GETARG_INT32(0), typmods));
}

/* The cast that applies a modifier, such as aturi(aturi, typmod). */
Datum
atp_uri_fn_cast(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpInputContext source = {type_name(scheme), false, NULL};
	AtpUriArg	arg = atp_uri_arg(fcinfo, 0, scheme);
	int32		typmod = typmod_of_arg(fcinfo, 1, scheme);
	size_t		at;
	AtpErr		err = ATP_OK;

	if (typmod >= 0)
		err = check_level(&arg.uri, arg.text.ptr, arg.text.len, (AtpUriLevel) typmod, &at);
	if (err != ATP_OK)
		atp_type_error(&source, arg.text.ptr, arg.text.len, err, at);
	PG_RETURN_DATUM(PG_GETARG_DATUM(0));
}

/* --- parts (A-38) --- */

Datum
atp_uri_fn_authority(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	ATP_RETURN_SPAN_TEXT(atp_uri_arg(fcinfo, 0, scheme).uri.authority);
}

Datum
atp_uri_fn_authority_kind(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	switch (atp_uri_arg(fcinfo, 0, scheme).uri.kind)
	{
		case ATP_AUTHORITY_OPAQUE:
			break;
		case ATP_AUTHORITY_DID:
			PG_RETURN_TEXT_P(cstring_to_text("did"));
		case ATP_AUTHORITY_HANDLE:
			PG_RETURN_TEXT_P(cstring_to_text(scheme == ATP_SCHEME_AT ? "handle" : "name"));
		case ATP_AUTHORITY_ADDRESS:
			PG_RETURN_TEXT_P(cstring_to_text("address"));
		case ATP_AUTHORITY_AGENT:
			PG_RETURN_TEXT_P(cstring_to_text("agent"));
	}
	PG_RETURN_NULL();
}

Datum
atp_uri_fn_path(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	ATP_RETURN_SPAN_TEXT(atp_uri_arg(fcinfo, 0, scheme).uri.path);
}

Datum
atp_uri_fn_segments(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpSpan		path = atp_uri_arg(fcinfo, 0, scheme).uri.path;
	ArrayBuildState *state;
	const char *p;
	const char *end;

	if (path.ptr == NULL || path.len == 0)
		PG_RETURN_NULL();

	state = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	p = path.ptr;
	end = path.ptr + path.len;
	while (p < end)
	{
		const char *slash = memchr(p + 1, '/', end - p - 1);
		const char *next = slash != NULL ? slash : end;

		state = accumArrayResult(state,
								 PointerGetDatum(cstring_to_text_with_len(p + 1, next - p - 1)),
								 false, TEXTOID, CurrentMemoryContext);
		p = next;
	}
	PG_RETURN_DATUM(makeArrayResult(state, CurrentMemoryContext));
}

Datum
atp_uri_fn_collection(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpUriArg	arg = atp_uri_arg(fcinfo, 0, scheme);

	if (arg.uri.collection.ptr == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_nsid_make(arg.uri.collection.ptr, arg.uri.collection.len));
}

Datum
atp_uri_fn_rkey(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpUriArg	arg = atp_uri_arg(fcinfo, 0, scheme);

	if (arg.uri.rkey.ptr == NULL)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_rkey_make(arg.uri.rkey.ptr, arg.uri.rkey.len));
}

Datum
atp_uri_fn_tid(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpUriArg	arg = atp_uri_arg(fcinfo, 0, scheme);
	uint64_t	tid;
	size_t		at;

	if (arg.uri.rkey.ptr == NULL ||
		atp_tid_parse(arg.uri.rkey.ptr, arg.uri.rkey.len, &tid, &at) != ATP_OK)
		PG_RETURN_NULL();
	return AtpTidGetDatum(tid);
}

Datum
atp_uri_fn_query(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	ATP_RETURN_SPAN_TEXT(atp_uri_arg(fcinfo, 0, scheme).uri.query);
}

Datum
atp_uri_fn_fragment(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	ATP_RETURN_SPAN_TEXT(atp_uri_arg(fcinfo, 0, scheme).uri.fragment);
}

/* A decoded reference token as text; an error unless it is UTF-8 without U+0000. */
static Datum
token_text(const char *token, size_t n)
{
	char	   *s;

	if (!pg_verify_mbstr(PG_UTF8, token, (int) n, true))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("fragment cannot be shown as text"),
				 errdetail("Its percent-encoded bytes are no UTF-8 text.")));
	s = pnstrdup(token, n);
	return PointerGetDatum(cstring_to_text(pg_any_to_server(s, (int) n, PG_UTF8)));
}

/* The fragment as the reference tokens of a JSON Pointer (D19). */
Datum
atp_uri_fn_pointer(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpSpan		fragment = atp_uri_arg(fcinfo, 0, scheme).uri.fragment;
	ArrayBuildState *state;
	char	   *token;
	size_t		n;
	size_t		pos = 0;
	size_t		at;
	AtpErr		err;

	if (fragment.ptr == NULL)
		PG_RETURN_NULL();

	state = initArrayResult(TEXTOID, CurrentMemoryContext, false);
	token = palloc(fragment.len);
	while (atp_uri_pointer_next(fragment, &pos, token, &n, &err, &at))
		state = accumArrayResult(state, token_text(token, n), false, TEXTOID,
								 CurrentMemoryContext);
	if (err != ATP_OK)
		atp_argument_error("JSON Pointer", fragment.ptr, fragment.len, err, at);
	PG_RETURN_DATUM(makeArrayResult(state, CurrentMemoryContext));
}

/* The URI from its beginning to the end of a part. */
static Datum
make_up_to(AtpScheme scheme, AtpSpan text, const char *end)
{
	PG_RETURN_POINTER(atp_uri_make(scheme, text.ptr, end - text.ptr));
}

/* D7 */
Datum
atp_uri_fn_strip(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpUriArg	arg = atp_uri_arg(fcinfo, 0, scheme);
	AtpSpan		last = arg.uri.path.ptr ? arg.uri.path : arg.uri.authority;

	return make_up_to(scheme, arg.text, last.ptr + last.len);
}

Datum
atp_uri_fn_repo(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpUriArg	arg = atp_uri_arg(fcinfo, 0, scheme);

	return make_up_to(scheme, arg.text, arg.uri.authority.ptr + arg.uri.authority.len);
}

/* The kind of thing that authority and path name; query and fragment are ignored. */
Datum
atp_uri_fn_kind(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpUri		uri = atp_uri_arg(fcinfo, 0, scheme).uri;
	AtpUriSpace space;

	if (uri.kind == ATP_AUTHORITY_OPAQUE)
		PG_RETURN_NULL();
	if (uri.segments == 0)
		PG_RETURN_TEXT_P(cstring_to_text("repo"));
	if (uri.segments == 1 && uri.collection.ptr != NULL)
		PG_RETURN_TEXT_P(cstring_to_text("collection"));
	if (uri.segments == 2 && uri.rkey.ptr != NULL)
		PG_RETURN_TEXT_P(cstring_to_text("record"));
	/* N-01: NOSH URIs have no spaces: their authorities are no DIDs */
	if (atp_uri_space(&uri, &space))
		PG_RETURN_TEXT_P(cstring_to_text(space.author.ptr == NULL ? "space" : "space record"));
	PG_RETURN_NULL();
}

/* --- levels (A-30 to) --- */

static Datum
is_level(FunctionCallInfo fcinfo, AtpScheme scheme, AtpUriLevel level)
{
	AtpUriArg	arg = atp_uri_arg(fcinfo, 0, scheme);
	size_t		at;

	PG_RETURN_BOOL(check_level(&arg.uri, arg.text.ptr, arg.text.len, level, &at) == ATP_OK);
}

Datum
atp_uri_fn_is_lexicon(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	return is_level(fcinfo, scheme, ATP_URI_LEXICON);
}

Datum
atp_uri_fn_is_strict(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	return is_level(fcinfo, scheme, ATP_URI_STRICT);
}

Datum
atp_uri_fn_is_record(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	return is_level(fcinfo, scheme, ATP_URI_RECORD);
}

/* --- normal form (N1 to N10) --- */

/* The normal form of a stored value: every valid URI has one. */
static AtpSpan
normal_form(FunctionCallInfo fcinfo, int i, AtpScheme scheme)
{
	AtpSpan		text = atp_uri_arg_text(fcinfo, i, scheme);
	char	   *normal = palloc(text.len);
	size_t		n;

	if (atp_uri_normal_form(scheme, text.ptr, text.len, normal, &n) != ATP_OK)
		atp_damaged_error(type_name(scheme));
	return (AtpSpan) {normal, n};
}

Datum
atp_uri_fn_normalize(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpSpan		normal = normal_form(fcinfo, 0, scheme);

	PG_RETURN_POINTER(atp_uri_make(scheme, normal.ptr, normal.len));
}

/* The normal form of liberal text (D6). */
Datum
atp_uri_fn_normalize_text(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpInputContext source = {type_name(scheme), false, NULL};
	AtpSpan		text = atp_arg_span(fcinfo, 0);
	char		normal[ATP_URI_MAX];
	size_t		n;
	size_t		at;
	AtpErr		err = atp_uri_normalize(scheme, text.ptr, text.len, normal, &n, &at);

	if (err != ATP_OK)
		atp_type_error(&source, text.ptr, text.len, err, at);
	PG_RETURN_POINTER(atp_uri_make(scheme, normal, n));
}

/* a ~= b */
Datum
atp_uri_fn_equivalent(FunctionCallInfo fcinfo, AtpScheme scheme)
{
	AtpSpan		a = normal_form(fcinfo, 0, scheme);
	AtpSpan		b = normal_form(fcinfo, 1, scheme);

	PG_RETURN_BOOL(a.len == b.len && memcmp(a.ptr, b.ptr, a.len) == 0);
}
