/*
 * load.c
 *		load_lexicon() and unload_lexicon(): write Lexicon documents into
 *		atproto.lexicon_loaded.
 *
 * The functions run with the caller's rights.  A role that may write the table
 * may also bypass them: so all readers of the table must expect any contents.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "fmgr.h"
#include "lexicon/document.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"

PG_FUNCTION_INFO_V1(atp_load_lexicon);
PG_FUNCTION_INFO_V1(atp_unload_lexicon);

/* SQL: atproto.load_lexicon(doc, replace) */
Datum
atp_load_lexicon(PG_FUNCTION_ARGS)
{
	const char *id = atp_lexicon_id(PG_GETARG_JSONB_P(0), NULL);
	struct varlena *nsid = atp_nsid_make(id, strlen(id));
	Jsonb	   *known;

	atp_lexicon_require(PG_GETARG_JSONB_P(0));
	SPI_connect();
	known = atp_lexicon_find(id);
	if (known != NULL && compareJsonbContainers(&known->root, &PG_GETARG_JSONB_P(0)->root) == 0)
	{
		SPI_finish();
		PG_RETURN_POINTER(nsid);
	}
	if (known != NULL && !PG_GETARG_BOOL(1))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("another Lexicon \"%s\" is known already", id),
				 errhint("With replace => true this one takes its place.")));
	atp_run("INSERT INTO atproto.lexicon_loaded (id, doc) VALUES ($1, $2)"
			" ON CONFLICT (id) DO UPDATE SET doc = excluded.doc, did = NULL, cid = NULL, indexed_at = NULL, loaded_at = now()",
			ATP_ARGS(((AtpArg) {PointerGetDatum(nsid), atp_type("nsid"), false}), ATP_FUNCTION_ARG(0, JSONBOID)));
	SPI_finish();
	PG_RETURN_POINTER(nsid);
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
				 errmsg("no Lexicon \"%s\" was loaded", atp_nsid_cstring(PG_GETARG_VARLENA_PP(0))),
				 errhint("SELECT id FROM atproto.lexicon_loaded shows the loaded ones; those that come with the extension stay.")));
	SPI_finish();
	PG_RETURN_VOID();
}
