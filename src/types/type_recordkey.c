/*
 * type_recordkey.c
 *		The type recordkey, rules K-01 to K-10.
 */
#include "postgres.h"

#include "utils/sortsupport.h"

#include "types/text_type.h"

#include "core/syntax/recordkey.h"
#include "core/syntax/tid.h"

/* The key types of a Lexicon (K-07), and the stricter character set of D2. */
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

size_t
atp_rkey_copy(const struct varlena *rkey, char text[ATP_RKEY_MAX])
{
	const uint8_t *stored = (const uint8_t *) VARDATA_ANY(rkey);
	size_t		n = VARSIZE_ANY_EXHDR(rkey);

	if (!atp_rkey_fits(stored, n))
		atp_damaged_error("recordkey");
	return atp_rkey_text(stored, n, text);
}

static AtpErr
check_typmod(const char *s, size_t n, int32 typmod, size_t *at)
{
	if (typmod == RKEY_STRICT)
		return atp_rkey_check_strict(s, n, at);
	*at = 0;
	if (typmod == RKEY_ANY || atp_rkey_matches(s, n, typmods[typmod], strlen(typmods[typmod])))
		return ATP_OK;
	return ATP_E_RKEY_KIND;
}

static const AtpTextType type = {
	.name = "recordkey",
	.check = atp_rkey_check,
	.make = atp_rkey_make,
	.fits = atp_rkey_fits,
	.typmods = typmods,
	.check_typmod = check_typmod,
	.text = atp_rkey_text,
	.text_growth = ATP_TID_TEXT,
};

ATP_TEXT_TYPE_DEFINE(recordkey, &type, in)
ATP_TEXT_TYPE_DEFINE(recordkey, &type, recv)
ATP_TEXT_TYPE_DEFINE(recordkey, &type, out)
ATP_TEXT_TYPE_DEFINE(recordkey, &type, send)
ATP_TEXT_TYPE_DEFINE(recordkey, &type, typmod_in)
ATP_TEXT_TYPE_DEFINE(recordkey, &type, typmod_out)
ATP_TEXT_TYPE_DEFINE(recordkey, &type, cast)

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
	AtpSpan		text = atp_text_type_arg(fcinfo, 0, &type);
	AtpSpan		kind = atp_arg_span(fcinfo, 1);
	size_t		at;
	AtpErr		err = atp_rkey_type_check(kind.ptr, kind.len, &at);

	if (err != ATP_OK)
		atp_argument_error("record key type", kind.ptr, kind.len, err, at);
	PG_RETURN_BOOL(atp_rkey_matches(text.ptr, text.len, kind.ptr, kind.len));
}

/* The key as a TID; NULL if the key is not a TID. */
PG_FUNCTION_INFO_V1(atp_pg_recordkey_tid);
Datum
atp_pg_recordkey_tid(PG_FUNCTION_ARGS)
{
	AtpSpan		text = atp_text_type_arg(fcinfo, 0, &type);
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
	AtpSpan		s = atp_arg_nsid(fcinfo, 0);

	PG_RETURN_POINTER(atp_rkey_make(s.ptr, s.len));
}
