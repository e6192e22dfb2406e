/*
 * document.c
 *		Lexicon documents: those that are known, and what all must have.
 */
#include "postgres.h"

#include "config/extension.h"
#include "config/spi.h"
#include "core/nsid.h"
#include "lexicon/document.h"
#include "types/types.h"
#include "utils/builtins.h"
#include "utils/numeric.h"

const char *
atp_lexicon_problem(Jsonb *doc)
{
	JsonbValue	v;
	size_t		at;

	if (!JB_ROOT_IS_OBJECT(doc))
		return "It is no object.";
	if (getKeyJsonValueFromContainer(&doc->root, "lexicon", 7, &v) == NULL || v.type != jbvNumeric ||
		strcmp(numeric_normalize(v.val.numeric), "1") != 0)
		return "Its \"lexicon\" is not 1, the version of the language.";
	if (getKeyJsonValueFromContainer(&doc->root, "defs", 4, &v) == NULL || v.type != jbvBinary ||
		!JsonContainerIsObject(v.val.binary.data))
		return "Its \"defs\" is no object.";
	if (getKeyJsonValueFromContainer(&doc->root, "id", 2, &v) == NULL || v.type != jbvString ||
		atp_nsid_check(v.val.string.val, v.val.string.len, &at) != ATP_OK)
		return "Its \"id\" is no NSID.";
	return NULL;
}

char *
atp_lexicon_id(Jsonb *doc)
{
	const char *problem = atp_lexicon_problem(doc);
	JsonbValue	v;

	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("not a Lexicon document"), errdetail("%s", problem)));
	(void) getKeyJsonValueFromContainer(&doc->root, "id", 2, &v);
	return pnstrdup(v.val.string.val, v.val.string.len);
}

Jsonb *
atp_lexicon_find(const char *id)
{
	AtpArg		arg = {.type = atp_type("nsid")};
	AtpResult	known;
	size_t		at;
	bool		isnull;

	if (atp_nsid_check(id, strlen(id), &at) != ATP_OK)
		return NULL;
	arg.value = PointerGetDatum(atp_nsid_make(id, strlen(id)));
	known = atp_query(psprintf("SELECT doc FROM atproto.lexicon WHERE id OPERATOR(%s.=) $1", atp_extension_schema()), ATP_ARGS(arg));
	return known.n == 0 ? NULL : DatumGetJsonbP(atp_get(atp_result_row(known, 0), "doc", JSONBOID, &isnull));
}
