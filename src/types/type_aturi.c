/*
 * type_aturi.c
 *		The type aturi: the functions of type_uri.c with the scheme "at", the authorities of this scheme,
 *		constructors, and the operators for containment.
 */
#include "postgres.h"

#include "utils/builtins.h"
#include "utils/sortsupport.h"

#include "types/type_uri.h"

#include "core/syntax/did.h"
#include "core/syntax/handle.h"
#include "core/syntax/nsid.h"
#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"
#include "core/syntax/uri_space.h"

#define DEFINE(name) ATP_URI_DEFINE(aturi, ATP_SCHEME_AT, name)
ATP_URI_FUNCTIONS(DEFINE)

struct varlena *
atp_aturi_make(const char *s, size_t n)
{
	return atp_uri_make(ATP_SCHEME_AT, s, n);
}

struct varlena *
atp_aturi_make_parsed(const AtpUri *uri, const char *s, size_t n)
{
	struct varlena *v = palloc(VARHDRSZ + n);

	SET_VARSIZE(v, VARHDRSZ + atp_uri_store_parsed(uri, s, n, (uint8_t *) VARDATA(v)));
	return v;
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_did);
Datum
atp_pg_aturi_did(PG_FUNCTION_ARGS)
{
	AtpBytes	stored = atp_arg_bytes(fcinfo, 0);
	AtpUri		uri;

	/* A did:plc authority is packed exactly as a value of the type did. */
	StaticAssertStmt(ATP_URI_TAG_PLC == ATP_DID_TAG, "URI and DID tags differ");
	if (stored.len >= ATP_DID_PLC_STORED && stored.ptr[0] == ATP_URI_TAG_PLC)
		PG_RETURN_POINTER(atp_varlena(stored.ptr, ATP_DID_PLC_STORED));

	uri = atp_uri_arg(fcinfo, 0, ATP_SCHEME_AT).uri;
	if (uri.kind != ATP_AUTHORITY_DID)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_did_make(uri.authority.ptr, uri.authority.len));
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_handle);
Datum
atp_pg_aturi_handle(PG_FUNCTION_ARGS)
{
	AtpUri		uri = atp_uri_arg(fcinfo, 0, ATP_SCHEME_AT).uri;

	if (uri.kind != ATP_AUTHORITY_HANDLE)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_handle_make(uri.authority.ptr, uri.authority.len));
}

/* --- parts of the URI of a space, or of a record in one (S-03) --- */

/* False: the argument is no such URI, so that the SQL function returns NULL. */
static bool
space_of_arg(FunctionCallInfo fcinfo, AtpUriArg *arg, AtpUriSpace *space)
{
	*arg = atp_uri_arg(fcinfo, 0, ATP_SCHEME_AT);
	return atp_uri_space(&arg->uri, space);
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_space);
Datum
atp_pg_aturi_space(PG_FUNCTION_ARGS)
{
	AtpUriArg	arg;
	AtpUriSpace space;

	if (!space_of_arg(fcinfo, &arg, &space))
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_aturi_make(arg.text.ptr, space.end - arg.text.ptr));
}

#define DEFINE_PART(name, make) \
	PG_FUNCTION_INFO_V1(atp_pg_aturi_space_##name); \
	Datum \
	atp_pg_aturi_space_##name(PG_FUNCTION_ARGS) \
	{ \
		AtpUriArg	arg; \
		AtpUriSpace space; \
		\
		if (!space_of_arg(fcinfo, &arg, &space) || space.name.ptr == NULL) \
			PG_RETURN_NULL(); \
		PG_RETURN_POINTER(make(space.name.ptr, space.name.len)); \
	}

DEFINE_PART(type, atp_nsid_make)
DEFINE_PART(skey, atp_rkey_make)
DEFINE_PART(author, atp_did_make)
DEFINE_PART(collection, atp_nsid_make)
DEFINE_PART(rkey, atp_rkey_make)

/*
 * Constructors: aturi(authority [, nsid [, recordkey]]), with a DID, a handle, or the text of either
 * as authority, and the casts from did and handle.  The parts are appended as they are: nothing in them needs
 * escaping.
 */
static Datum
construct_aturi(FunctionCallInfo fcinfo, AtpSpan authority)
{
	char		text[ATP_URI_MAX];
	size_t		n = 0;

	/* did <= 2048, nsid <= 317, recordkey <= 512: far below the limit. */
#define APPEND(s, len) (memcpy(text + n, (s), (len)), n += (len))
	APPEND("at://", 5);
	APPEND(authority.ptr, authority.len);
	if (PG_NARGS() > 1)
	{
		AtpSpan		collection = atp_arg_nsid(fcinfo, 1);

		APPEND("/", 1);
		APPEND(collection.ptr, collection.len);
	}
	if (PG_NARGS() > 2)
	{
		APPEND("/", 1);
		n += atp_rkey_copy(PG_GETARG_VARLENA_PP(2), text + n);
	}
#undef APPEND
	PG_RETURN_POINTER(atp_aturi_make(text, n));
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_of_did);
Datum
atp_pg_aturi_of_did(PG_FUNCTION_ARGS)
{
	char		text[ATP_DID_MAX];
	size_t		n = atp_did_copy(PG_GETARG_VARLENA_PP(0), text);

	return construct_aturi(fcinfo, (AtpSpan) {text, n});
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_of_handle);
Datum
atp_pg_aturi_of_handle(PG_FUNCTION_ARGS)
{
	AtpSpan		handle = atp_arg_span(fcinfo, 0);

	if (handle.len == 0 || handle.len > ATP_HANDLE_MAX)
		atp_damaged_error("handle");
	return construct_aturi(fcinfo, handle);
}

PG_FUNCTION_INFO_V1(atp_pg_aturi_of_text);
Datum
atp_pg_aturi_of_text(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 0);
	bool		did = s.len >= 4 && memcmp(s.ptr, "did:", 4) == 0;
	AtpInputContext source = {did ? "did" : "handle", false, NULL};
	char		handle[ATP_HANDLE_MAX];
	size_t		at;
	AtpErr		err = atp_identifier_check(s.ptr, s.len, &at);

	if (err != ATP_OK)
		atp_type_error(&source, s.ptr, s.len, err, at);
	if (!did)
	{
		atp_handle_normalize(s.ptr, s.len, handle);
		s.ptr = handle;
	}
	return construct_aturi(fcinfo, s);
}

/* As atp_pg_aturi_of_text(), with a collection that is text, too. */
PG_FUNCTION_INFO_V1(atp_pg_aturi_of_texts);
Datum
atp_pg_aturi_of_texts(PG_FUNCTION_ARGS)
{
	AtpSpan		s = atp_arg_span(fcinfo, 1);
	AtpInputContext source = {"nsid", false, NULL};
	size_t		at;
	AtpErr		err = atp_nsid_check(s.ptr, s.len, &at);

	if (err != ATP_OK)
		atp_type_error(&source, s.ptr, s.len, err, at);
	return atp_pg_aturi_of_text(fcinfo);
}

PG_FUNCTION_INFO_V1(atp_pg_uri_sortsupport);
Datum
atp_pg_uri_sortsupport(PG_FUNCTION_ARGS)
{
	atp_sortsupport((SortSupport) PG_GETARG_POINTER(0), atp_uri_cmp,
					atp_uri_abbrev);
	PG_RETURN_VOID();
}

/*
 * a <@ b and b @> a; see uri_support.c for their use by the planner.  The containing value may be a did: its
 * stored form is that of the authority of a URI, and so that of its repository's URI.
 */

PG_FUNCTION_INFO_V1(atp_pg_uri_inside);
Datum
atp_pg_uri_inside(PG_FUNCTION_ARGS)
{
	AtpBytes	a = atp_arg_bytes(fcinfo, 0);
	AtpBytes	b = atp_arg_bytes(fcinfo, 1);

	PG_RETURN_BOOL(atp_uri_is_inside(a.ptr, a.len, b.ptr, b.len));
}

PG_FUNCTION_INFO_V1(atp_pg_uri_contains);
Datum
atp_pg_uri_contains(PG_FUNCTION_ARGS)
{
	AtpBytes	a = atp_arg_bytes(fcinfo, 0);
	AtpBytes	b = atp_arg_bytes(fcinfo, 1);

	PG_RETURN_BOOL(atp_uri_is_inside(b.ptr, b.len, a.ptr, a.len));
}
