/*
 * type_uri.h
 *		Functions that the types aturi and noshuri share, with the scheme as a
 *		parameter. type_aturi.c and type_noshuri.c define the SQL functions, and the
 *		functions of one type only.
 */
#ifndef ATP_TYPE_URI_H
#define ATP_TYPE_URI_H

#include "types/glue.h"

#include "core/syntax/uri.h"

/* An argument as text, with its parts (spans of the text). */
typedef struct AtpUriArg
{
	AtpSpan		text;			/* palloc'd, followed by a NUL */
	AtpUri		uri;
} AtpUriArg;

/* The levels of the type modifiers and of the functions aturi_is_...(). */
typedef enum AtpUriLevel
{
	ATP_URI_LEXICON,
	ATP_URI_STRICT,
	ATP_URI_RECORD
} AtpUriLevel;

/* ERROR for a damaged stored value, whose text or bound would not fit the buffers. */
extern void atp_uri_require_fit(AtpScheme scheme, AtpBytes stored);

extern AtpSpan atp_uri_arg_text(FunctionCallInfo fcinfo, int i, AtpScheme scheme);
extern AtpUriArg atp_uri_arg(FunctionCallInfo fcinfo, int i, AtpScheme scheme);
extern struct varlena *atp_uri_make(AtpScheme scheme, const char *s, size_t n);

/* One function for each SQL function of both types. */
#define ATP_URI_FUNCTIONS(X) \
	X(in) \
	X(out) \
	X(recv) \
	X(send) \
	X(typmod_in) \
	X(typmod_out) \
	X(cast) \
	X(authority) \
	X(authority_kind) \
	X(path) \
	X(segments) \
	X(collection) \
	X(rkey) \
	X(tid) \
	X(query) \
	X(fragment) \
	X(pointer) \
	X(strip) \
	X(repo) \
	X(kind) \
	X(is_lexicon) \
	X(is_strict) \
	X(is_record) \
	X(normalize) \
	X(normalize_text) \
	X(equivalent)

#define ATP_URI_DECLARE(name) \
	extern Datum atp_uri_fn_##name(FunctionCallInfo fcinfo, AtpScheme scheme);
ATP_URI_FUNCTIONS(ATP_URI_DECLARE)

/* Defines a SQL function of one type, such as atp_pg_aturi_in. */
#define ATP_URI_DEFINE(type, scheme, name) \
	PG_FUNCTION_INFO_V1(atp_pg_##type##_##name); \
	Datum \
	atp_pg_##type##_##name(PG_FUNCTION_ARGS) \
	{ \
		return atp_uri_fn_##name(fcinfo, scheme); \
	}

#endif							/* ATP_TYPE_URI_H */
