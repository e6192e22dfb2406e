/*
 * document.c
 *		Lexicon documents: look-up of a known document, and checks of a new one.
 *		See document.h.
 */
#include "postgres.h"

#include "common/compat.h"
#include "config/extension.h"
#include "config/spi.h"
#include "core/syntax/nsid.h"
#include "data/error.h"
#include "lexicon/compile.h"
#include "lexicon/document.h"
#include "types/types.h"
#include "utils/builtins.h"

#define LOOKS_LIKE	"A Lexicon looks like {\"lexicon\": 1, \"id\": \"com.example.note\", \"defs\": {\"main\": {\"type\": \"record\", ...}}}."

pg_noreturn static void
not_a_lexicon(const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("not a Lexicon document"), errdetail("%s", why),
			 errhint("%s", hint != NULL ? hint : LOOKS_LIKE)));
}

char *
atp_lexicon_id(Jsonb *doc, const char *hint)
{
	JsonbValue	v;
	size_t		at;

	if (!JB_ROOT_IS_OBJECT(doc))
		not_a_lexicon("It is no object.", hint);
	if (getKeyJsonValueFromContainer(&doc->root, "id", 2, &v) == NULL || v.type != jbvString ||
		atp_nsid_check(v.val.string.val, v.val.string.len, &at) != ATP_OK)
		not_a_lexicon("Its \"id\" is no NSID.", hint);
	return pnstrdup(v.val.string.val, v.val.string.len);
}

void
atp_lexicon_require(Jsonb *doc)
{
	char	   *fault;
	const AtpLexDoc *compiled;

	atp_require_utf8();
	compiled = atp_lexicon_compile(doc, &fault);
	if (compiled == NULL)
		not_a_lexicon(fault, NULL);
	if (compiled->unknown != NULL)
		ereport(WARNING,
				(errmsg("the Lexicon has a definition that is not checked"),
				 errdetail_internal("%s", compiled->unknown)));
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
