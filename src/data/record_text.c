/*
 * record_text.c
 *		The SQL function record_text(): the text at a path of a record.  No
 *		contents of the record and no path raise an error, so that a generated
 *		column or index can use the function.
 */
#include "postgres.h"

#include "fmgr.h"

#include "core/repo/link.h"
#include "data/dagcbor_value.h"
#include "data/jsonb_member.h"
#include "types/glue.h"

PG_FUNCTION_INFO_V1(atp_pg_record_text);
PG_FUNCTION_INFO_V1(atp_pg_record_text_within);
PG_FUNCTION_INFO_V1(atp_pg_record_text_packed);
PG_FUNCTION_INFO_V1(atp_pg_record_text_packed_within);

/* Finds the text at the path in the record, the arguments of a function.  False: no text is there.  buf may hold the text. */
typedef bool (*FindText) (FunctionCallInfo fcinfo, char buf[ATP_PART_TEXT_MAX], AtpSpan *text);

static bool
find_text(FunctionCallInfo fcinfo, char buf[ATP_PART_TEXT_MAX], AtpSpan *text)
{
	AtpSpan		rest = atp_arg_span(fcinfo, 1);
	JsonbValue	v = atp_jsonb_root(PG_GETARG_JSONB_P(0));
	char	   *names = palloc(rest.len + 1);
	bool		found = true;

	do
	{
		AtpSpan		name;

		found = atp_link_path_take(&rest, names, &name) && atp_jsonb_member(&v, name.ptr, (int) name.len, &v);
	} while (found && rest.ptr != NULL);
	pfree(names);
	if (!found || v.type != jbvString)
		return false;
	*text = (AtpSpan) {v.val.string.val, v.val.string.len};
	return true;
}

/* As find_text(), in a dagcbor.  A text with U+0000 is no text of SQL. */
static bool
find_packed_text(FunctionCallInfo fcinfo, char buf[ATP_PART_TEXT_MAX], AtpSpan *text)
{
	AtpPackedPart part = atp_dagcbor_whole(atp_arg_bytes(fcinfo, 0));
	AtpSpan		rest = atp_arg_span(fcinfo, 1);
	char	   *names = palloc(rest.len + 1);
	bool		found = true;
	bool		has_nul;

	do
	{
		AtpSpan		name;

		found = atp_link_path_take(&rest, names, &name) && atp_dagcbor_key(&part, name);
	} while (found && rest.ptr != NULL);
	pfree(names);
	if (!found)
		return false;
	atp_dagcbor_require(atp_part_text(&part, buf, text, &has_nul));
	return text->ptr != NULL && !has_nul;
}

/* NULL: no text is at the path, or the text has more bytes. */
static Datum
text_within(FunctionCallInfo fcinfo, FindText find, int64 max_bytes)
{
	char		buf[ATP_PART_TEXT_MAX];
	AtpSpan		text;

	if (!find(fcinfo, buf, &text) || (int64) text.len > max_bytes)
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_varlena(text.ptr, text.len));
}

/* SQL: record_text(value, path) */
Datum
atp_pg_record_text(PG_FUNCTION_ARGS)
{
	return text_within(fcinfo, find_text, PG_INT64_MAX);
}

/* SQL: record_text(value, path, max_bytes) */
Datum
atp_pg_record_text_within(PG_FUNCTION_ARGS)
{
	return text_within(fcinfo, find_text, PG_GETARG_INT32(2));
}

/* SQL: record_text(value, path), value of type dagcbor */
Datum
atp_pg_record_text_packed(PG_FUNCTION_ARGS)
{
	return text_within(fcinfo, find_packed_text, PG_INT64_MAX);
}

/* SQL: record_text(value, path, max_bytes), value of type dagcbor */
Datum
atp_pg_record_text_packed_within(PG_FUNCTION_ARGS)
{
	return text_within(fcinfo, find_packed_text, PG_GETARG_INT32(2));
}
