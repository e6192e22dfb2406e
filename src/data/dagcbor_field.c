/*
 * dagcbor_field.c
 *		The operators of the SQL type dagcbor that read a part of a value: -> ->> #> #>>, as those of jsonb.
 *
 * They read the packed form, and unpack only the part.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/string.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "data/dagcbor_value.h"
#include "types/glue.h"

PG_FUNCTION_INFO_V1(atp_pg_dagcbor_object_field);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_object_field_text);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_array_element);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_array_element_text);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_path);
PG_FUNCTION_INFO_V1(atp_pg_dagcbor_path_text);

static bool
go_to_member(AtpPackedPart *part, int64 number)
{
	bool		found;

	atp_dagcbor_require(atp_part_member(part, number, &found));
	return found;
}

/* An element of a path is a number where the value is an array, and else a key. */
static bool
go_by_element(AtpPackedPart *part, const text *element)
{
	char	   *digits;
	char	   *end;
	int			number;

	if (atp_dagcbor_kind(part) != ATP_CBOR_ARRAY)
		return atp_dagcbor_key(part, (AtpSpan) {VARDATA_ANY(element), VARSIZE_ANY_EXHDR(element)});
	digits = text_to_cstring(element);
	errno = 0;
	number = strtoint(digits, &end, 10);
	return end != digits && *end == '\0' && errno == 0 && go_to_member(part, number);
}

static bool
go_by_path(AtpPackedPart *part, ArrayType *path)
{
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	bool		found = true;

	deconstruct_array(path, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &n);
	for (int i = 0; found && i < n; i++)
		found = !nulls[i] && go_by_element(part, (const text *) DatumGetPointer(elements[i]));
	return found;
}

/* NULL for JSON's null, and for a text with U+0000, which SQL's text cannot hold (B-30); all other parts as JSON. */
static text *
text_of_part(const AtpPackedPart *part)
{
	char		buf[ATP_PART_TEXT_MAX];
	AtpSpan		s;
	bool		has_nul;
	StringInfoData json;

	atp_dagcbor_require(atp_part_text(part, buf, &s, &has_nul));
	if (s.ptr != NULL)
		return !has_nul ? (text *) atp_varlena(s.ptr, s.len) : NULL;
	if (atp_dagcbor_kind(part) == ATP_CBOR_NULL)
		return NULL;
	initStringInfo(&json);
	(void) atp_dagcbor_json(&json, part);
	return cstring_to_text_with_len(json.data, json.len);
}

/* Defines the functions of one way to a part: the part as a value, and as text. */
#define DEFINE(name, go) \
	Datum \
	atp_pg_dagcbor_##name(PG_FUNCTION_ARGS) \
	{ \
		AtpPackedPart		part = atp_dagcbor_whole(atp_arg_bytes(fcinfo, 0)); \
		if (!go) \
			PG_RETURN_NULL(); \
		PG_RETURN_POINTER(atp_dagcbor_of_part(&part)); \
	} \
	Datum \
	atp_pg_dagcbor_##name##_text(PG_FUNCTION_ARGS) \
	{ \
		AtpPackedPart		part = atp_dagcbor_whole(atp_arg_bytes(fcinfo, 0)); \
		text	   *result = go ? text_of_part(&part) : NULL; \
		if (result == NULL) \
			PG_RETURN_NULL(); \
		PG_RETURN_TEXT_P(result); \
	}

DEFINE(object_field, atp_dagcbor_key(&part, atp_arg_span(fcinfo, 1)))
DEFINE(array_element, go_to_member(&part, PG_GETARG_INT32(1)))
DEFINE(path, go_by_path(&part, PG_GETARG_ARRAYTYPE_P(1)))
