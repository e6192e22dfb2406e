/*
 * type_uri.h
 *		The types aturi and noshuri: functions that both have, with the scheme as
 *		a parameter.  aturi.c and noshuri.c name them for SQL and add their own.
 */
#ifndef ATP_TYPE_URI_H
#define ATP_TYPE_URI_H

#include "types/glue.h"

#include "core/syntax/uri.h"

/* What the text of a stored form of n bytes may take: scheme, DID, path, TID. */
#define ATP_URI_TEXT_BOUND(n)	((n) + 64)

/* An argument as text, with its parts (spans of the text). */
typedef struct AtpUriArg
{
	AtpSpan		text;			/* palloc'd, a NUL behind it */
	AtpUri		uri;
} AtpUriArg;

/* The type modifiers, and what aturi_is_... answer. */
typedef enum AtpUriLevel
{
	ATP_URI_LEXICON,
	ATP_URI_STRICT,
	ATP_URI_RECORD
} AtpUriLevel;

extern AtpSpan atp_uri_arg_text(FunctionCallInfo fcinfo, int i, AtpScheme scheme);
extern AtpUriArg atp_uri_arg(FunctionCallInfo fcinfo, int i, AtpScheme scheme);
extern struct varlena *atp_uri_make(AtpScheme scheme, const char *s, size_t n);

/* One function for each SQL function that both types have. */
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

/* The SQL function of one type: atp_pg_aturi_in and so on. */
#define ATP_URI_DEFINE(type, scheme, name) \
	PG_FUNCTION_INFO_V1(atp_pg_##type##_##name); \
	Datum \
	atp_pg_##type##_##name(PG_FUNCTION_ARGS) \
	{ \
		return atp_uri_fn_##name(fcinfo, scheme); \
	}

#endif							/* ATP_TYPE_URI_H */
