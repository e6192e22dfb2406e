/*
 * valid_sql.c
 *		The SQL functions lexicon_check() and lexicon_valid().
 */
#include "postgres.h"

#include "core/syntax/recordkey.h"
#include "data/error.h"
#include "fmgr.h"
#include "lexicon/judge.h"
#include "types/types.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(atp_lexicon_check);
PG_FUNCTION_INFO_V1(atp_lexicon_valid);
PG_FUNCTION_INFO_V1(atp_lexicon_valid_given);

/* SQL: atproto.lexicon_check(doc) */
Datum
atp_lexicon_check(PG_FUNCTION_ARGS)
{
	char	   *fault;
	const AtpLexDoc *doc;

	atp_require_utf8();
	doc = atp_lexicon_compile(PG_GETARG_JSONB_P(0), &fault);
	/* load_lexicon() takes such a document, but to its author an unknown type is most likely a mistake */
	if (doc != NULL)
		fault = doc->unknown;
	if (fault == NULL)
		PG_RETURN_NULL();
	PG_RETURN_TEXT_P(cstring_to_text(fault));
}

static Datum
judge_record(FunctionCallInfo fcinfo, AtpLexicons *lexicons, const char *hint)
{
	AtpSpan		collection = atp_nsid_span(PG_GETARG_VARLENA_PP(1));
	char		buf[ATP_RKEY_MAX];
	AtpSpan		rkey = {NULL, 0};
	char	   *why;

	if (!PG_ARGISNULL(2))
	{
		struct varlena *key = PG_GETARG_VARLENA_PP(2);

		rkey = (AtpSpan) {buf, atp_rkey_copy(key, buf)};
	}
	switch (atp_lexicon_judge(lexicons, PG_GETARG_JSONB_P(0), collection, rkey, &why))
	{
		case ATP_LEX_VALID:
			break;
		case ATP_LEX_INVALID:
			PG_RETURN_TEXT_P(cstring_to_text(why));
		case ATP_LEX_UNJUDGED:
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("%s", why), errhint("%s", hint)));
	}
	PG_RETURN_NULL();
}

/* SQL: atproto.lexicon_valid(record, collection, rkey) */
Datum
atp_lexicon_valid(PG_FUNCTION_ARGS)
{
	atp_require_utf8();
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_NULL();
	return judge_record(fcinfo, atp_lexicons_known(), "Use atproto.load_lexicon(); atproto.lexicon has those that are known.");
}

/* SQL: atproto.lexicon_valid(record, collection, rkey, lexicons) */
Datum
atp_lexicon_valid_given(PG_FUNCTION_ARGS)
{
	atp_require_utf8();
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1) || PG_ARGISNULL(3))
		PG_RETURN_NULL();
	return judge_record(fcinfo, atp_lexicons_given(PG_GETARG_JSONB_P(3)), "Give its document, too, in an array.");
}
