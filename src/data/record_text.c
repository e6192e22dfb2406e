/*
 * record_text.c
 *		The SQL function record_text(): the text at a path of a record.  No
 *		contents of the record and no path raise an error, so that a generated
 *		column or index can use the function.
 */
#include "postgres.h"

#include "fmgr.h"

#include "core/repo/link.h"
#include "data/jsonb_member.h"
#include "types/types.h"

PG_FUNCTION_INFO_V1(atp_pg_record_text);
PG_FUNCTION_INFO_V1(atp_pg_record_text_within);

/* False: no text is at the path. */
static bool
find_text(Jsonb *record, const struct varlena *path, AtpSpan *text)
{
	AtpSpan		rest = {VARDATA_ANY(path), VARSIZE_ANY_EXHDR(path)};
	JsonbValue	v = atp_jsonb_root(record);
	char	   *buf = palloc(rest.len + 1);
	bool		found = true;

	do
	{
		AtpSpan		name;

		found = atp_link_path_take(&rest, buf, &name) && atp_jsonb_member(&v, name.ptr, (int) name.len, &v);
	} while (found && rest.ptr != NULL);
	pfree(buf);
	if (!found || v.type != jbvString)
		return false;
	*text = (AtpSpan) {v.val.string.val, v.val.string.len};
	return true;
}

/* SQL: record_text(value, path) */
Datum
atp_pg_record_text(PG_FUNCTION_ARGS)
{
	AtpSpan		text;

	if (!find_text(PG_GETARG_JSONB_P(0), PG_GETARG_VARLENA_PP(1), &text))
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_varlena(text.ptr, text.len));
}

/* SQL: record_text(value, path, max_bytes) */
Datum
atp_pg_record_text_within(PG_FUNCTION_ARGS)
{
	AtpSpan		text;

	if (!find_text(PG_GETARG_JSONB_P(0), PG_GETARG_VARLENA_PP(1), &text) || (int64) text.len > PG_GETARG_INT32(2))
		PG_RETURN_NULL();
	PG_RETURN_POINTER(atp_varlena(text.ptr, text.len));
}
