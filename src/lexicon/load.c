/*
 * load.c
 *		Lexicon documents into the table of those that are known.
 *
 * The functions run with the caller's rights: whoever may write the table may
 * do the same by hand, and who reads it expects anything there.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "core/nsid.h"
#include "fmgr.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

PG_FUNCTION_INFO_V1(atp_load_lexicon);
PG_FUNCTION_INFO_V1(atp_unload_lexicon);

static void
not_a_lexicon(const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("not a Lexicon document"), errdetail("%s", why)));
}

/* Its NSID; ERROR when it cannot be a Lexicon. */
static struct varlena *
lexicon_id(Jsonb *doc)
{
	JsonbValue	v;
	size_t		at;

	if (!JB_ROOT_IS_OBJECT(doc))
		not_a_lexicon("It is no object.");
	if (getKeyJsonValueFromContainer(&doc->root, "lexicon", 7, &v) == NULL || v.type != jbvNumeric ||
		strcmp(numeric_normalize(v.val.numeric), "1") != 0)
		not_a_lexicon("Its \"lexicon\" is not 1, the version of the language.");
	if (getKeyJsonValueFromContainer(&doc->root, "defs", 4, &v) == NULL || v.type != jbvBinary ||
		!JsonContainerIsObject(v.val.binary.data))
		not_a_lexicon("Its \"defs\" is no object.");
	if (getKeyJsonValueFromContainer(&doc->root, "id", 2, &v) == NULL || v.type != jbvString ||
		atp_nsid_check(v.val.string.val, v.val.string.len, &at) != ATP_OK)
		not_a_lexicon("Its \"id\" is no NSID.");
	return atp_nsid_make(v.val.string.val, v.val.string.len);
}

static AtpArg
nsid_arg(struct varlena *id)
{
	return (AtpArg) {PointerGetDatum(id), atp_type("nsid"), false};
}

/* SQL: atproto.load_lexicon(doc, replace) */
Datum
atp_load_lexicon(PG_FUNCTION_ARGS)
{
	struct varlena *id = lexicon_id(PG_GETARG_JSONB_P(0));
	AtpArg		doc = ATP_FUNCTION_ARG(0, JSONBOID);
	AtpResult	known;

	SPI_connect();
	known = atp_query(psprintf("SELECT doc = $2 AS same FROM atproto.lexicon WHERE id OPERATOR(%s.=) $1", atp_extension_schema()),
					  ATP_ARGS(nsid_arg(id), doc));
	if (known.n > 0 && atp_get_bool(atp_result_row(known, 0), "same"))
	{
		SPI_finish();
		PG_RETURN_POINTER(id);
	}
	if (known.n > 0 && !PG_GETARG_BOOL(1))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("another Lexicon \"%s\" is known already", text_to_cstring((text *) id)),
				 errhint("With replace => true this one takes its place.")));
	atp_run("INSERT INTO atproto.lexicon_loaded (id, doc) VALUES ($1, $2)"
			" ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, did = NULL, cid = NULL, indexed_at = NULL, loaded_at = now()",
			ATP_ARGS(nsid_arg(id), doc));
	SPI_finish();
	PG_RETURN_POINTER(id);
}

/* SQL: atproto.unload_lexicon(id) */
Datum
atp_unload_lexicon(PG_FUNCTION_ARGS)
{
	AtpArg		id = ATP_FUNCTION_ARG(0, atp_type("nsid"));

	SPI_connect();
	if (atp_run(psprintf("DELETE FROM atproto.lexicon_loaded WHERE id OPERATOR(%s.=) $1", atp_extension_schema()), ATP_ARGS(id)) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("no Lexicon \"%s\" was loaded", text_to_cstring(PG_GETARG_TEXT_PP(0)))));
	SPI_finish();
	PG_RETURN_VOID();
}
